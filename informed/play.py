"""Run one registered attack with a time limit and return its `Trial`.

`experiment.pipeline` calls `play` in runs, and `audit.trials` in audits. Audits, and
reports of finished runs, also make trials from `blank` themselves.

    trial = play(row, material, release, knowledge, key=key, limit=60)

The attack is built from its row, and gets the release and the adversary's knowledge.
Guesses that it made in time are kept. A target that it began but didn't finish counts
neither as a success nor as a failure. This file sees of a target only pixels that the
adversary knows; `metrics.judging` compares guesses with the truth.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array

from informed.attacks.attack_row import Material, NotApplicableError, Row
from shadow import checks, limits
from shadow.known import UNUSED
from shadow.threat import Knowledge, Reconstruction

ALL_BUT_ONE = "all records but one and the training code"
SEED = "all records but one, the training code and the seed"
_LATE = "out of time"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """The result of one attack of a run or an audit, whether it was played or not.

    Attributes:
      name: the attack's name in results.
      about: what the attack does, in a line.
      sees: what was released of the models, in words.
      knows: what the adversary knew, in words.
      images: (attempted, height, width, channels), guesses at the first targets; NaN:
        no guess; None: the attack wasn't played.
      labels: (attempted,), guesses at the labels; -1: no guess; None: the attack
        doesn't guess labels.
      certified: (attempted,) bool, which guesses the attack itself certifies as exact;
        None: the attack has no certificate.
      finished: (attempted,) bool, which guesses are whole, without NaN or infinity.
      reconstruction: everything that the attack returned for finished targets.
      seconds: time of the attack; audits and reports add that of its shadow models.
      trainings: runs of the training function, shadow models included; None: no target
        was finished, and partial work isn't counted.
      planned: number of targets that the attack was to be played on.
      needs: estimated seconds per record, if time ended before the last; may be None.
      remedy: what a developer can do against the attack, in a phrase.
      why_not: why it wasn't played or finished, or what it missed; "": none of these.
      applies: whether the attack could be played on such models.
      late: whether its time was over before it had finished.
    """

    name: str
    about: str
    sees: str
    knows: str
    images: np.ndarray | None = None
    labels: np.ndarray | None = None
    certified: np.ndarray | None = None
    finished: np.ndarray | None = None
    reconstruction: Reconstruction | None = None
    seconds: float = 0.0
    trainings: int | None = 0
    planned: int = 0
    needs: float | None = None
    remedy: str = ""
    why_not: str = ""
    applies: bool = True
    late: bool = False


def blank(row: Row, *, sees: str, secret: bool, planned: int, name: str = "") -> Trial:
    """Return the trial of an attack before it is played.

    Args:
      row: the attack's row in the registry.
      sees: what is released of the models, in words.
      secret: whether the seed is unknown to the adversary.
      planned: number of targets.
      name: the attack's name in results; "": its row's.
    """
    needs_seed = row.shadows or {"initialisation", "training_key"} & {*row.uses}
    knows = ALL_BUT_ONE if secret or not needs_seed else SEED
    return Trial(
        name=name or row.title,
        about=row.about,
        sees=sees,
        knows=knows,
        planned=planned,
        remedy=row.remedy,
    )


def play(
    row: Row,
    material: Material,
    release: Any,
    knowledge: Knowledge,
    *,
    key: Array,
    limit: float = float("inf"),
    trial: Trial | None = None,
    stumbling: bool = False,
    keep: Callable[[Trial], None] = lambda _: None,
) -> Trial:
    """Build the attack, play it on a release within a time limit; return its trial.

    Args:
      row: the attack's row in the registry.
      material: what the attack may be built from.
      release: the release, as `row.sees` says: a `shadow.threat.Release`, or fitted
        estimators.
      knowledge: the adversary's knowledge.
      key: the adversary's own randomness.
      limit: seconds that the attack may take.
      trial: the attack's trial from `blank`; None: one as for a known seed. Or the
        trial of an inversion that ran out of time, to continue at the first unfinished
        target.
      stumbling: whether an attack that raises at one target keeps its guesses before
        that, and the trial says so; later targets aren't tried.
      keep: called with the trial so far after each target but the last, by an attack
        that goes target by target.
    Raises: FieldError: pixels are known that the attack can't use. Also whatever the
      attack raises, except time limits and NotApplicableError; with `stumbling`, only
      before its first guess.
    """
    if knowledge.known is not None and "known" not in row.uses:
        raise checks.FieldError("known", UNUSED.format(row.name))
    count = len(release)
    if trial is None:
        trial = blank(row, sees=row.sees, secret=False, planned=count)
    settings = row.settings() if material.settings is None else material.settings
    material = dataclasses.replace(material, limit=limit)
    parts: list[Reconstruction] = []
    attack: Any = None
    cut, why, clock = False, _LATE, limits.Clock(limit)
    before = trial.reconstruction
    first = 0 if before is None else len(before.images)
    try:
        with limits.seconds(limit):
            attack = row.attack(settings, material)
            if hasattr(attack, "each"):
                begin = {"first": first} if first else {}
                for part in attack.each(release, knowledge, key=key, **begin):
                    parts.append(part)
                    seconds = trial.seconds + clock.passed
                    so_far = dataclasses.replace(trial, seconds=seconds)
                    if first + len(parts) < count:
                        keep(_outcome(so_far, row, material, knowledge, parts, count))
            else:
                parts.append(attack(release, knowledge, key=key))
    except NotApplicableError as error:
        if not parts:
            return dataclasses.replace(
                trial, seconds=clock.passed, why_not=str(error), applies=False
            )
        cut, why = first + len(parts) < count, stopped_with(error)
    except limits.OutOfTimeError:
        # The last target may have been there when its time was over.
        cut = not parts or (hasattr(attack, "each") and first + len(parts) < count)
    except Exception as error:
        if not stumbling or not parts:
            raise
        cut, why = first + len(parts) < count, stopped_with(error)
    trial = dataclasses.replace(
        trial,
        seconds=trial.seconds + clock.passed,
        remedy=getattr(attack, "remedy", "") or trial.remedy,
        needs=None,
        why_not=getattr(attack, "note", ""),
        late=cut and why == _LATE,
    )
    if not cut:
        return _outcome(trial, row, material, knowledge, parts, count)
    # An attack that time cut off while it was prepared, as by training a network, has
    # begun all its targets; one that continues an earlier trial goes one by one.
    if hasattr(attack, "each") or before is not None:
        return _outcome(trial, row, material, knowledge, parts, count, why)
    why = f"not finished in {trial.seconds:.0f} s"
    trial = dataclasses.replace(trial, why_not=why)
    return _outcome(trial, row, material, knowledge, parts, count)


def _outcome(
    trial: Trial,
    row: Row,
    material: Material,
    knowledge: Knowledge,
    parts: list[Reconstruction],
    count: int,
    why: str | None = None,
) -> Trial:
    """Return the trial with what the attack has given of its targets.

    Args:
      trial: the trial with its seconds, and what the attack gave before if it goes on.
      parts: reconstructions since then, one after the other.
      count: targets that there are.
      why: why it stopped within the next target; None: it didn't.
    """
    if trial.reconstruction is not None:
        parts = [trial.reconstruction, *parts]
    done = sum(len(part.images) for part in parts)
    attempted = done + (why is not None) if parts or why is not None else count
    if why is not None:
        # The first record pays for what all share, so the mean errs on the long side.
        # More time doesn't help where it stumbled.
        needs = trial.seconds / attempted if why == _LATE else None
        rest = "; the others weren't tried" if attempted < count else ""
        why = f"{why} at target {attempted} of {count}{rest}"
        trial = dataclasses.replace(trial, needs=needs, why_not=why)
    if not parts:
        assert knowledge.fixed is not None
        images = np.full((attempted, *knowledge.fixed.image_shape), np.nan, np.float32)
        nothing = np.zeros(attempted, bool)
        certified = nothing if "certified" in row.gives else None
        return dataclasses.replace(
            trial, images=images, certified=certified, finished=nothing, trainings=None
        )
    reconstruction = Reconstruction.joined(parts)
    trainings = 0
    if reconstruction.trainings is not None:
        trainings = int(reconstruction.trainings.sum())
    elif row.shadows and material.shadows is not None:
        trainings = getattr(material.settings, "models", None) or len(material.shadows)
    missing = attempted - done
    images = _padded(reconstruction.images, missing, np.nan)
    return dataclasses.replace(
        trial,
        images=images,
        labels=_padded(reconstruction.labels, missing, -1),
        certified=_padded(reconstruction.certified, missing, False),
        finished=np.isfinite(images).reshape(len(images), -1).all(axis=1),
        reconstruction=reconstruction,
        trainings=trainings,
    )


def stopped_with(error: Exception) -> str:
    """Say in a line what an attack or the user's training raised; for audits."""
    return f"it stopped with {checks.named(error)}".rstrip(".")


def _padded(values: Any, missing: int, by: Any) -> Any:
    """Return the values, then `by` for each target that was begun and not finished."""
    if values is None or not missing:
        return values
    nothing = np.full((missing, *values.shape[1:]), by, values.dtype)
    return np.concatenate([values, nothing])
