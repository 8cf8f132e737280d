"""The attacks of an audit, each on the same released models.

What an attack saw and knew, what it found, and what it cost; or why it wasn't tried.
A target that an attack began and didn't finish in its time counts as not found.
"""

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from artefacts.glm.estimators import reconstruct
from informed.attacks import registry
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.registry import Material
from informed.audit import limits, released
from informed.audit.subject import ANSWERS, WEIGHTS, Subject
from informed.audit.trained import Models
from informed.threat import Knowledge, Reconstruction
from shadow.parallel import Runs
from shadow.release import Release, publish
from shadow.training.algorithm import Draw
from shadow.views import Layers

_FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS = 20, 600
_PAIRS = 3

ALL_BUT_ONE = "all records but one and the training code"
SEED = "all records but one, the training code and the seed"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One attack.

    Attributes:
      name: of it.
      about, sees, knows: in words.
      images: (attempted, ...), its guesses at the first targets; None: not tried.
      labels: (attempted,), where it names them.
      certified: (attempted,) bool, where it certifies.
      finished: (attempted,) bool.
      seconds: that it took, its shadow models included.
      trainings: of the training function, shadow models included; None: nothing was
        finished, and what was begun isn't counted.
      planned: targets that there were for it.
      needs: seconds that it needs for a record, about, where it didn't finish all.
      remedy: what a developer does about it, in a phrase.
      why_not: it wasn't tried, or wasn't finished.
    """

    name: str
    about: str
    sees: str
    knows: str
    images: np.ndarray | None = None
    labels: np.ndarray | None = None
    certified: np.ndarray | None = None
    finished: np.ndarray | None = None
    seconds: float = 0.0
    trainings: int | None = 0
    planned: int = 0
    needs: float | None = None
    remedy: str = ""
    why_not: str = ""


def _knows(secret: bool) -> str:
    return ALL_BUT_ONE if secret else SEED


def blank_inversion(secret: bool) -> Trial:
    """An inversion without a result."""
    return Trial(
        name="inversion",
        about=registry.find("inversion").about,
        sees="all weights",
        knows=_knows(secret),
    )


def inversion(
    models: Models,
    seconds_a_model: float,
    *,
    limit: float,
    release: Release | None = None,
) -> Trial:
    """Training inversion, until the time is over.

    Args:
      release: of these models, if it isn't all their weights as they are.
    """
    trial, subject = blank_inversion(models.secret), models.subject
    affordable = int(0.1 * limit / max(seconds_a_model, 1e-9))
    neighbours = int(np.clip(affordable, _FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS))
    usual = InversionConfig()
    draws = int(np.clip(affordable, usual.draws, usual.noise_draws))
    attack = TrainingInversion(
        config=dataclasses.replace(usual, neighbours=neighbours, noise_draws=draws)
    )
    release = models.weights if release is None else release
    told = models.knowledge()
    found: list[Reconstruction] = []
    cut, started = False, time.monotonic()
    try:
        with limits.seconds(limit):
            found.extend(attack.each(release, told, key=jax.random.key(subject.seed)))
    except limits.OutOfTimeError:
        cut = True
    return _trial_of(
        trial,
        found,
        models,
        cut=cut and len(found) < len(release),
        seconds=time.monotonic() - started,
    )


def cut_off(trial: Trial, models: Models, seconds: float) -> Trial:
    """An attack on all targets at once that wasn't finished in its time."""
    return dataclasses.replace(
        trial,
        images=np.full(models.targets.images.shape, np.nan, np.float32),
        finished=np.zeros(models.count, bool),
        seconds=seconds,
        trainings=None,
        why_not=f"not finished in {seconds:.0f} s",
    )


def _trial_of(
    trial: Trial,
    found: list[Reconstruction],
    models: Models,
    *,
    cut: bool,
    seconds: float,
) -> Trial:
    """With what was found; the target that time cut off counts as not found."""
    attempted, total = len(found) + cut, models.count
    why = ""
    if cut:
        # The first record pays for what all share, so the mean errs on the long side.
        each = seconds / attempted
        why = f"out of time at target {attempted} of {total}; the others weren't tried"
        trial = dataclasses.replace(trial, needs=each)
    blank = np.full((int(cut), *models.targets.image_shape), np.nan, np.float32)
    finished = np.append(np.ones(len(found), bool), np.zeros(int(cut), bool))
    if not found:
        return dataclasses.replace(
            trial,
            images=blank,
            certified=np.zeros(len(blank), bool),
            finished=finished,
            seconds=seconds,
            trainings=None,
            why_not=why,
        )
    whole = Reconstruction.joined(found)
    padded: dict[str, Any] = {
        name: None
        if value is None
        else np.append(value, np.zeros(int(cut), value.dtype))
        for name, value in (("labels", whole.labels), ("certified", whole.certified))
    }
    if padded["labels"] is not None and cut:
        padded["labels"][-1] = -1
    trainings = 0 if whole.trainings is None else int(whole.trainings.sum())
    return dataclasses.replace(
        trial,
        images=np.concatenate([whole.images, blank]),
        finished=finished,
        seconds=seconds,
        trainings=trainings,
        why_not=why,
        **padded,
    )


def blank_learned(kind: str, secret: bool) -> Trial:
    """A reconstructor without a result."""
    return Trial(
        name=kind,
        about=registry.find(kind).about,
        sees="all weights",
        knows=_knows(secret),
    )


def learned(
    models: Models,
    kind: str = "kernel",
    *,
    view: Layers | None = None,
    trial: Trial | None = None,
) -> Trial:
    """A reconstructor trained on shadow models: "kernel" or "reconn".

    Args:
      models: with shadow models, unless nothing is to be tried.
      view: of weights and answers; None: all the weights.
      trial: without a result; None: that of `kind`.
    """
    trial = blank_learned(kind, models.secret) if trial is None else trial
    if models.shadows is None:
        return dataclasses.replace(trial, why_not=models.why_no_shadows)
    view = models.subject.only(WEIGHTS) if view is None else view
    started, row = time.monotonic(), registry.find(kind)
    seen = np.asarray(view(np.asarray(models.shadows.weights)))
    if not np.ptp(seen, axis=0).any():
        return _without_trace(trial, models)
    with tempfile.TemporaryDirectory() as folder:
        attack = row.make(
            row.config(),
            Material(
                shadows=models.shadows,
                view=view,
                workdir=Path(folder),
                key=jax.random.key(models.subject.seed),
            ),
        )
        release = publish(np.asarray(models.released, np.float32), view)
        found = attack(release, Knowledge(), key=jax.random.key(models.subject.seed))
    return dataclasses.replace(
        trial,
        images=found.images,
        labels=found.labels,
        finished=np.ones(len(release), bool),
        seconds=models.seconds + time.monotonic() - started,
        trainings=len(models.shadows),
    )


def _without_trace(trial: Trial, models: Models) -> Trial:
    """Every shadow model shows the same, so nothing but the mean image is left."""
    assert models.shadows is not None
    mean = np.asarray(models.shadows.images).mean(axis=0, dtype=np.float64)
    images = np.stack([mean] * models.count).astype(np.float32)
    return dataclasses.replace(
        trial,
        images=images,
        finished=np.ones(models.count, bool),
        seconds=models.seconds,
        trainings=len(models.shadows),
        why_not="what it sees is the same for every model, so it guesses the mean",
    )


def blank_black_box(secret: bool) -> Trial:
    """The kernel regression on answers, without a result."""
    return Trial(
        name="black box",
        about="kernel regression on answers",
        sees="scores for public records",
        knows=_knows(secret),
    )


def black_box(models: Models) -> Trial:
    """The kernel regression on answers alone."""
    trial = blank_black_box(models.secret)
    asked = len(models.subject.held_out)
    trial = dataclasses.replace(trial, sees=f"scores for {asked} public records")
    return learned(models, view=models.subject.only(ANSWERS), trial=trial)


def blank_closed_form(secret: bool) -> Trial:
    """Theorem 1 without a result."""
    del secret  # it knows no seed
    return Trial(
        name="closed form",
        about="linear equations at the optimum of a linear model (Theorem 1)",
        sees="all weights",
        knows=ALL_BUT_ONE,
    )


def closed_form(models: Models, template: Any) -> Trial:
    """Theorem 1 on scikit-learn's linear models.

    Args:
      template: an estimator as training returns it, of a type in
        `glm.estimators.SUPPORTED`; a copy takes each release's coefficients.
    """
    trial, subject = blank_closed_form(models.secret), models.subject
    call, fixed = subject.call(), subject.fixed
    started = time.monotonic()
    known = np.asarray(call.inputs(fixed.images)).reshape(len(fixed), -1)
    shapes = [part.array.shape for part in released.parts(template)]
    guesses, names, done = [], [], []
    for theta in models.weights.values:
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        arrays = [
            a.reshape(s) for a, s in zip(np.split(theta, ends), shapes, strict=True)
        ]
        model = released.replaced(template, arrays)
        try:
            guess: Any = reconstruct(model, known, fixed.labels)
            guess = guess[0] if isinstance(guess, tuple) else guess
            image = scaled(subject, np.asarray(guess.x))
            guesses.append(image)
            names.append(int(guess.y) if guess.y is not None else -1)
            done.append(True)
        except (ValueError, ArithmeticError):
            guesses.append(np.full(fixed.image_shape, np.nan))
            names.append(-1)
            done.append(False)
    return dataclasses.replace(
        trial,
        images=np.stack(guesses).astype(np.float32),
        labels=np.array(names),
        finished=np.array(done),
        seconds=time.monotonic() - started,
        trainings=1,
    )


def scaled(subject: Subject, features: np.ndarray) -> np.ndarray:
    """Features in the function's units as an image of [0, 1]."""
    if subject.table is not None:
        features = subject.table.scaled(features.reshape(1, -1))
    return features.reshape(subject.fixed.image_shape)


def blank_several(secret: bool) -> Trial:
    """Two unknown records, without a result."""
    del secret  # it isn't played without a seed
    return Trial(
        name="two missing",
        about="inversion of two unknown records together",
        sees="all weights",
        knows="all records but two, their labels, the training code and the seed",
    )


def several(models: Models, *, limit: float) -> Trial:
    """Two unknown records at once, a few times."""
    subject, pairs = models.subject, min(_PAIRS, models.count // 2)
    trial = dataclasses.replace(blank_several(models.secret), planned=2 * pairs)
    targets = models.targets
    told = models.knowledge()
    runs = Runs(
        subject.algorithm(),
        (subject.fixed.images, subject.fixed.labels),
        lambda _: Draw(key=told.training_key),
        width=pairs,
    )
    rows = np.arange(2 * pairs).reshape(pairs, 2)
    images, labels = targets.images[rows], targets.labels[rows]
    started = time.monotonic()
    found: list[Reconstruction] = []
    cut = False
    try:
        with limits.seconds(limit):
            release = publish(runs(images, labels, np.zeros(pairs, int)))
            attack = TrainingInversion()
            for i in range(pairs):
                one = dataclasses.replace(release, values=release.values[i : i + 1])
                found += attack.several(
                    one, told, labels[i : i + 1], key=jax.random.key(subject.seed)
                )
    except limits.OutOfTimeError:
        cut = True
    done = 2 * len(found)
    if not found:
        return dataclasses.replace(trial, why_not=f"not one pair in {limit:.0f} s")
    whole = Reconstruction.joined(found)
    whole = _matched(whole, images[: len(found)], labels[: len(found)])
    return dataclasses.replace(
        trial,
        images=whole.images,
        certified=whole.certified,
        finished=np.ones(done, bool),
        seconds=time.monotonic() - started,
        why_not=f"out of time after {len(found)} pairs" if cut else "",
    )


def _matched(
    whole: Reconstruction, images: np.ndarray, labels: np.ndarray
) -> Reconstruction:
    """Points of one label may come in any order: put in the better one."""
    guesses = whole.images.copy()
    for pair, (truth, named) in enumerate(zip(images, labels, strict=True)):
        rows = slice(2 * pair, 2 * pair + 2)
        straight = np.mean((guesses[rows] - truth) ** 2)
        crossed = np.mean((guesses[rows][::-1] - truth) ** 2)
        if named[0] == named[1] and crossed < straight:
            guesses[rows] = guesses[rows][::-1]
    return dataclasses.replace(whole, images=guesses)
