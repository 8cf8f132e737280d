"""Random search over the settings of the KKT attack, and which run to believe.

The attack is brittle in its rates, its start and its sigmoid, so it is run many times
with settings drawn at random (Haim et al. 2022, Appendix B). An adversary can choose
runs by their loss, and by whether other good runs found the same candidates; choosing
by resemblance to the training set, as the public code does, is for evaluations, and to
be reported apart.

Several runs go at once, as one batch over the devices. With a folder, batches are kept
as they are done, and an interrupted search goes on; a trial doesn't depend on which
others were run.

Checked: tests/uninformed/kkt/test_search.py.
"""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from shadow import checks, files, records
from shadow.records import Record
from uninformed import kkt, pieces
from uninformed.homogeneous import DenseLayers
from uninformed.kkt import KktConfig, KktRun, Knobs

# Runs of low loss that a run is compared with: more add runs of another minimum, fewer
# leave the share of common candidates to chance.
_GOOD = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranges:
    """Ranges (low, high) that settings are drawn from, uniformly in their logarithm.

    The names and units are those of `KktConfig`, whose own value stands where a range
    is None. The defaults suit `KktConfig()`.

    Attributes:
      evenly: names of settings that are drawn uniformly instead.
    """

    start: tuple[float, ...] | None = (0.1, 1.0)
    rate: tuple[float, ...] | None = (1e-3, 3e-2)
    multiplier_rate: tuple[float, ...] | None = (3e-3, 1e-1)
    least_multiplier: tuple[float, ...] | None = None
    alpha: tuple[float, ...] | None = (10.0, 300.0)
    alpha_end: tuple[float, ...] | None = (100.0, 3000.0)
    evenly: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.evenly:
            checks.choice("evenly", name, Knobs._fields)
        for name in Knobs._fields:
            value = getattr(self, name)
            if value is not None and not (len(value) == 2 and 0 < value[0] <= value[1]):
                raise checks.FieldError(
                    name,
                    "Expected {} as (low, high) with 0 < low <= high, or None; got"
                    f" {value!r}.",
                )

    @classmethod
    def none(cls) -> "Ranges":
        """All as the configuration has it; trials differ in their start alone."""
        unchanged: dict[str, Any] = dict.fromkeys(Knobs._fields)
        return cls(**unchanged)

    @classmethod
    def published(cls) -> "Ranges":
        """Appendix B.2 of Haim et al. 2022, for `KktConfig.published()`."""
        return cls(
            start=(1e-6, 1.0),
            rate=(1e-5, 1.0),
            multiplier_rate=None,
            least_multiplier=(1e-4, 1.0),
            alpha=(10.0, 500.0),
            alpha_end=None,
            evenly=("alpha",),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class KktTrial:
    """One run of a search.

    Attributes:
      knobs: the settings drawn for it, by their names in `Knobs`.
      found: the candidates and multipliers it ended with.
    """

    knobs: dict[str, float]
    found: KktRun


def search(
    config: KktConfig,
    network: DenseLayers,
    *,
    trials: int,
    key: Array,
    ranges: Ranges | None = None,
    at_once: int = 4,
    mean: Float[np.ndarray, " inputs"] | None = None,
    folder: Path | None = None,
) -> list[KktTrial]:
    """`trials` runs of the attack, in the order of their numbers.

    Args:
      ranges: what settings are drawn from; None: `Ranges()`.
      at_once: runs in one batch; decides on memory and speed. Runs of other batches
        differ by rounding, which thousands of steps enlarge.
      mean: what was subtracted from training points, where that is known.
      folder: where finished batches are kept; None: nowhere.
    Raises: ConfigurationMismatchError: the folder holds a search of something else.
    """
    checks.at_least("trials", trials, 1)
    checks.at_least("at_once", at_once, 1)
    ranges = Ranges() if ranges is None else ranges
    if folder is not None:
        record = _record(config, ranges, network, key, mean)
        records.claim(folder / "search.json", record, f"The search in {folder}")
    done: list[KktTrial] = []
    while len(done) < trials:
        first = len(done)
        batch = _kept(folder, first)
        if batch is None:
            count = min(at_once, trials - first)
            place = None
            if folder is not None:
                file = _file(folder, first).with_suffix(".part.npz")
                about = Record.of({"first": first, "count": count})
                place = pieces.Place(file=file, record=about, what=f"The run in {file}")
            numbers = range(first, first + count)
            batch = _run(config, network, ranges, key, numbers, mean, place)
            if folder is not None and place is not None:
                _keep(folder, first, batch)
                place.clear()
        done += batch
    return done[:trials]


def by_loss(trials: list[KktTrial]) -> list[KktTrial]:
    """Lowest loss first; runs that diverged last."""

    def loss(trial: KktTrial) -> float:
        return trial.found.loss if np.isfinite(trial.found.loss) else np.inf

    return sorted(trials, key=loss)


def stability(trial: KktTrial, trials: list[KktTrial], *, apart: float) -> float:
    """Share of a run's candidates that other runs of low loss have found as well.

    Weighted by multipliers; what an adversary can ask without the training set.

    Args:
      apart: root mean square per pixel within which candidates count as the same.
    """
    others = [other for other in by_loss(trials) if other is not trial][:_GOOD]
    if not others:
        raise ValueError("Expected at least two trials, got one: nothing to compare.")
    weights = np.maximum(trial.found.multipliers, 0)
    shares = []
    for other in others:
        alive = other.found.points[other.found.alive]
        gaps = trial.found.points[:, None] - alive[None]
        near = np.sqrt(np.mean(gaps**2, axis=-1)).min(axis=1) < apart
        shares.append(np.sum(weights * near) / weights.sum())
    return float(np.mean(shares))


def _drawn(config: KktConfig, ranges: Ranges, key: Array) -> dict[str, float]:
    """The settings of a trial."""
    knobs = {name: float(value) for name, value in Knobs.of(config)._asdict().items()}
    shares = np.asarray(jax.random.uniform(key, (len(knobs),)), np.float64)
    for share, name in zip(shares, knobs, strict=True):
        limits = getattr(ranges, name)
        if limits is None:
            continue
        low, high = limits
        if name in ranges.evenly:
            knobs[name] = float(low + (high - low) * share)
        else:
            knobs[name] = float(low * (high / low) ** share)
    if ranges.alpha_end is None and config.alpha_end is None:
        knobs["alpha_end"] = knobs["alpha"]
    if ranges.multiplier_rate is None and config.multiplier_rate is None:
        knobs["multiplier_rate"] = knobs["rate"]
    return knobs


def _run(
    config: KktConfig,
    network: DenseLayers,
    ranges: Ranges,
    key: Array,
    numbers: range,
    mean: np.ndarray | None,
    place: pieces.Place | None,
) -> list[KktTrial]:
    """The trials of these numbers, as one batch."""
    pairs = [jax.random.split(jax.random.fold_in(key, number)) for number in numbers]
    drawn = [_drawn(config, ranges, pair[0]) for pair in pairs]
    knobs = Knobs(
        **{name: jnp.array([each[name] for each in drawn]) for name in Knobs._fields}
    )
    found = kkt.attack_many(
        config,
        network,
        keys=jnp.stack([pair[1] for pair in pairs]),
        knobs=knobs,
        mean=mean,
        place=place,
    )
    return [KktTrial(knobs=k, found=f) for k, f in zip(drawn, found, strict=True)]


# The folder

# Fields of `KktRun` that a file holds for every run; labels are the same for all.
_KEPT = ("points", "multipliers", "coefficients", "loss", "residual", "layers")


def _record(
    config: KktConfig,
    ranges: Ranges,
    network: DenseLayers,
    key: Array,
    mean: np.ndarray | None,
) -> Record:
    """What decides a search."""
    theta = np.asarray(ravel_pytree(network)[0])
    about = {
        "config": dataclasses.asdict(config),
        "ranges": dataclasses.asdict(ranges),
        "theta": hashlib.sha256(theta.tobytes()).hexdigest(),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "mean": None if mean is None else hashlib.sha256(mean.tobytes()).hexdigest(),
    }
    return Record.of(about, kkt=kkt.REVISION)


def _file(folder: Path, first: int) -> Path:
    return folder / f"trials_{first:06d}.npz"


def _keep(folder: Path, first: int, trials: list[KktTrial]) -> None:
    """Write a batch, whole or not at all."""
    arrays: dict[str, Any] = {
        name: np.stack([getattr(trial.found, name) for trial in trials])
        for name in _KEPT
    }
    arrays["knobs"] = np.array([list(trial.knobs.values()) for trial in trials])
    labels = trials[0].found.labels
    if labels is not None:
        arrays["labels"] = labels
    files.write_arrays(_file(folder, first), **arrays)


def _kept(folder: Path | None, first: int) -> list[KktTrial] | None:
    """A batch that was kept, or None."""
    if folder is None or not _file(folder, first).exists():
        return None
    arrays = files.read_arrays(_file(folder, first))
    labels = arrays.get("labels")
    return [
        KktTrial(
            knobs=dict(zip(Knobs._fields, map(float, knobs), strict=True)),
            found=KktRun(labels=labels, **{name: arrays[name][i] for name in _KEPT}),
        )
        for i, knobs in enumerate(arrays["knobs"])
    ]
