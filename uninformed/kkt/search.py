"""Random search over the settings of the KKT attack, and which run to believe.

The attack is brittle in its rates, its start and its sigmoid, so it is run many times
with settings drawn at random (Haim et al. 2022, Appendix B). An adversary can choose
runs by their loss, and by whether other good runs found the same candidates; choosing
by resemblance to the training set, as the public code does, is for evaluations, and to
be reported apart.

Several runs go at once, as one batch over the devices. With a folder, batches are kept
as they are done, and an interrupted search goes on; a run doesn't depend on which
others were made.

Checked: tests/uninformed/kkt/test_search.py.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from shadow import checks, records
from shadow.records import Record
from uninformed import kkt, pieces
from uninformed.homogeneous import DenseLayers
from uninformed.kkt import KktConfig, KktRun, Knobs

# Runs of low loss that a run is compared with: more add runs of another minimum, fewer
# leave the share of common candidates to chance.
_GOOD = 3
# (low, high) of settings by their names in `Knobs`; others are as configured.
Ranges = Mapping[str, tuple[float, float]]
# Appendix B.2 of Haim et al. 2022, for `KktConfig.published()`.
PUBLISHED: Ranges = {
    "start": (1e-6, 1.0),
    "rate": (1e-5, 1.0),
    "least_multiplier": (1e-4, 1.0),
    "alpha": (10.0, 500.0),
}
# Drawn uniformly; the others uniformly in their logarithm.
_EVENLY = ("alpha",)


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
    progress: bool = True,
) -> list[KktRun]:
    """`trials` runs of the attack, in the order of their numbers.

    Args:
      ranges: what settings are drawn from; None: runs differ in their start alone.
      at_once: runs in one batch; decides on memory and speed. Runs of other batches
        differ by rounding, which thousands of steps enlarge.
      mean: what was subtracted from training points, where that is known.
      folder: where finished batches are kept; None: nowhere.
      progress: whether a bar shows the steps of a batch that is kept.
    Raises: ConfigurationMismatchError: the folder holds a search of something else.
    """
    checks.at_least("trials", trials, 1)
    checks.at_least("at_once", at_once, 1)
    record = _record(config, ranges or {}, network, key, mean)
    run = functools.partial(_run, config, network, ranges or {}, key, mean)
    done: list[KktRun] = []
    while len(done) < trials:
        numbers = range(len(done), min(len(done) + at_once, trials))
        if folder is None:
            batch = run(numbers, None)
        else:
            file = folder / f"runs_{numbers.start:06d}.npz"
            what = f"The search in {folder}"
            # A batch that was cut off may have been of another size.
            about = Record(
                {**record.configuration, "count": len(numbers)}, record.versions
            )
            part = file.with_suffix(".part.npz")
            place = pieces.Place(
                file=part,
                record=about,
                what=f"The run in {part}",
                progress=progress,
            )
            make = functools.partial(run, numbers, place)
            batch = records.kept(file, record, what, make)
            place.clear()
        done += [
            KktRun(**{name: values[i] for name, values in batch.items()})
            for i in range(len(batch["loss"]))
        ]
    return done[:trials]


def by_loss(runs: list[KktRun]) -> list[KktRun]:
    """Lowest loss first; runs that diverged last."""
    return sorted(runs, key=lambda run: run.loss if np.isfinite(run.loss) else np.inf)


def stability(run: KktRun, runs: list[KktRun], *, apart: float) -> float:
    """Share of a run's candidates that other runs of low loss have found as well.

    Weighted by multipliers; what an adversary can ask without the training set.

    Args:
      apart: root mean square per pixel within which candidates count as the same.
    """
    others = [other for other in by_loss(runs) if other is not run][:_GOOD]
    if not others:
        raise ValueError("Expected at least two runs, got one: nothing to compare.")
    weights = np.maximum(run.multipliers, 0)
    shares = []
    for other in others:
        gaps = run.points[:, None] - other.points[other.alive][None]
        near = np.sqrt(np.mean(gaps**2, axis=-1)).min(axis=1) < apart
        shares.append(np.sum(weights * near) / weights.sum())
    return float(np.mean(shares))


def _drawn(config: KktConfig, ranges: Ranges, key: Array) -> Knobs:
    """The settings of a run."""
    drawn = jax.random.uniform(key, (len(Knobs._fields),)).tolist()
    shares = dict(zip(Knobs._fields, drawn, strict=True))
    settings = {
        name: low + (high - low) * shares[name]
        if name in _EVENLY
        else low * (high / low) ** shares[name]
        for name, (low, high) in ranges.items()
    }
    # What isn't given follows another setting, which may be drawn.
    return Knobs.of(dataclasses.replace(config, **settings))


def _run(
    config: KktConfig,
    network: DenseLayers,
    ranges: Ranges,
    key: Array,
    mean: np.ndarray | None,
    numbers: range,
    place: pieces.Place | None,
) -> dict[str, np.ndarray]:
    """The runs of these numbers, as one batch: the fields of `KktRun`, stacked."""
    pairs = [jax.random.split(jax.random.fold_in(key, number)) for number in numbers]
    drawn = [_drawn(config, ranges, pair[0]) for pair in pairs]
    found = kkt.attack_many(
        config,
        network,
        keys=jnp.stack([pair[1] for pair in pairs]),
        knobs=jax.tree.map(lambda *each: jnp.stack(each), *drawn),
        mean=mean,
        place=place,
    )
    return {
        field.name: np.stack([getattr(run, field.name) for run in found])
        for field in dataclasses.fields(KktRun)
    }


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
        "ranges": dict(ranges),
        "theta": hashlib.sha256(theta.tobytes()).hexdigest(),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "mean": None if mean is None else hashlib.sha256(mean.tobytes()).hexdigest(),
    }
    return Record.of(about, kkt=kkt.REVISION)
