"""The KKT experiment: train a victim, and run the KKT attack on it many times.

A homogeneous network is trained on a few images until it is near a KKT point, or read
from a file (`--weights`). The KKT attack sees its weights, and the mean image if that
is known. It is run several times from random starts, and an adversary can choose runs
by their loss. `scoring` calls `attacked` and compares the runs with the training
images; `landscape.runs` trains its victim by `victim`.

The network is kept in `network.npz` and batches of runs in `search/`. An interrupted
experiment continues after the last of fifty checkpoints of a batch or a training. Up to
rounding, a run doesn't depend on which others were made.

Checked: tests/uninformed/kkt/test_search.py.
"""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from shadow import checks, records
from shadow.records import Record
from uninformed import homogeneous, kkt, pieces, weights_file
from uninformed import max_margin as margin
from uninformed.homogeneous import DenseLayers, HomogeneousConfig, Layer
from uninformed.kkt import KktConfig, KktRun
from uninformed.kkt.training_images import PointsConfig, VictimImages, given, load
from uninformed.max_margin import MarginConfig

# Numbers folded into the seed, so that each use has independent randomness.
INITIALISES, ATTACKS, BASELINES = 1, 2, 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """The search over runs of the attack.

    Attributes:
      trials: number of runs.
      at_once: runs in one batch; affects memory and speed. With another size, runs
        differ by rounding, which thousands of steps amplify.
    """

    trials: int = 4
    at_once: int = 2

    def __post_init__(self) -> None:
        checks.at_least("trials", self.trials, 1)
        checks.at_least("at_once", self.at_once, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Uninformed:
    """The configuration of the experiment: everything that determines its results.

    Its seed is that of everything random: initialisation and starts.
    """

    seed: int = 0
    data: PointsConfig = dataclasses.field(default_factory=PointsConfig)
    victim: HomogeneousConfig = dataclasses.field(default_factory=HomogeneousConfig)
    training: MarginConfig = dataclasses.field(default_factory=MarginConfig)
    attack: KktConfig = dataclasses.field(default_factory=KktConfig)
    search: SearchConfig = dataclasses.field(default_factory=SearchConfig)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """A victim and the attacks on it, before anything is compared with the truth.

    The seconds are `train_s` and `attack_s`.
    """

    images: VictimImages
    network: DenseLayers
    trials: list[KktRun]
    seconds: Mapping[str, float]

    @property
    def chosen(self) -> KktRun:
        """Return the run that an adversary would choose, by its loss."""
        return by_loss(self.trials)[0]


def attacked(
    experiment: Uninformed,
    workdir: Path,
    data_dir: str | None = None,
    *,
    weights: Path | None = None,
    progress: bool = True,
) -> Attacked:
    """Return a victim and the attacks on it, made or read from the folder.

    Args:
      weights: a file of weights that are attacked instead; see `foreign`.
    Raises: ConfigurationMismatchError: the folder holds another victim or search.
    """
    with checks.under("config.data"):
        images = (given if weights else load)(experiment.data, data_dir)
    clock = records.Clock(workdir / "seconds.json")
    file = workdir / "network.npz"
    with clock.running("train_s"):
        if weights:
            network = foreign(experiment.attack, images, weights)
        else:
            network = victim(experiment, images, file, progress=progress)
    with clock.running("attack_s"):
        trials = search(
            experiment.attack,
            network,
            trials=experiment.search.trials,
            at_once=experiment.search.at_once,
            key=key_of(experiment, ATTACKS),
            mean=images.mean.ravel() if experiment.data.mean_known else None,
            folder=workdir / "search",
            progress=progress,
        )
    return Attacked(
        images=images, network=network, trials=trials, seconds=clock.seconds
    )


def key_of(experiment: Uninformed, use: int) -> Array:
    """Return the key of one use: INITIALISES, ATTACKS or BASELINES."""
    return jax.random.fold_in(jax.random.key(experiment.seed), use)


def victim(
    experiment: Uninformed, images: VictimImages, file: Path, *, progress: bool = True
) -> DenseLayers:
    """Return the network, trained or read from `file`.

    Raises: ConfigurationMismatchError, VersionMismatchError: the file holds another.
    """
    fields = dataclasses.asdict(experiment)
    decisive = {name: fields[name] for name in ("seed", "data", "victim", "training")}
    record = Record.of(
        decisive | {"content": images.fingerprint()},
        homogeneous=homogeneous.REVISION,
        margin=margin.REVISION,
    )
    part, what = file.with_suffix(".part.npz"), f"The training in {file.parent}"
    place = pieces.Place(file=part, record=record, what=what, progress=progress)

    def train() -> dict[str, np.ndarray]:
        start = homogeneous.init(
            experiment.victim, images.points.shape[1], key_of(experiment, INITIALISES)
        )
        network = margin.train(
            experiment.training, start, images.points, images.labels, place=place
        )
        return {
            f"{name}{number}": np.asarray(array)
            for number, layer in enumerate(network)
            for name, array in layer._asdict().items()
            if array is not None
        }

    arrays = records.kept(file, record, f"The victim in {file}", train)
    place.clear()
    weights = {name: jnp.asarray(array) for name, array in arrays.items()}
    return tuple(
        Layer(weights[f"w{number}"], weights.get(f"b{number}"))
        for number in range(len(experiment.victim.widths) + 1)
    )


def foreign(config: KktConfig, images: VictimImages, file: Path) -> DenseLayers:
    """Read a network that another program trained.

    Raises: ValueError: it isn't homogeneous and wasn't trained with weight decay either
      (`signed`), or not all training images lie on their side of the margin.
    """
    points, labels = jnp.asarray(images.points), jnp.asarray(images.labels)
    signed = config.coefficients == "signed"
    network = weights_file.read(file, points.shape[1], any_biases=signed)
    outputs = homogeneous.apply(network, points)
    classes = max(outputs.shape[1], 2)
    right = np.asarray(margin.margins(outputs, labels % classes).min(axis=1)) > 0
    right &= images.labels < classes
    if not right.all():
        raise ValueError(
            f"{file.name} classifies {(~right).sum()} of {len(right)} training images"
            " wrongly, so it has no margin. Either these aren't its training images, or"
            " it sees them otherwise (mean, scale, colours last), or its activation"
            " isn't ReLU, or training wasn't long enough."
        )
    return network


def search(
    config: KktConfig,
    network: DenseLayers,
    *,
    trials: int,
    key: Array,
    folder: Path,
    at_once: int = 4,
    mean: Float[np.ndarray, " inputs"] | None = None,
    progress: bool = True,
) -> list[KktRun]:
    """Return `trials` runs of the attack, made or read in batches of `at_once`.

    Args:
      folder: folder for finished batches.
      mean: the mean that was subtracted from training points, if it is known.
    Returns: the runs, in the order of their numbers.
    Raises: ConfigurationMismatchError: the folder holds a search of something else.
    """
    decisive = {
        "config": dataclasses.asdict(config),
        "theta": checks.digest(np.asarray(ravel_pytree(network)[0])),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "mean": None if mean is None else checks.digest(mean),
    }
    record = Record.of(decisive, kkt=kkt.REVISION)

    def batch(numbers: range, place: pieces.Place) -> dict[str, np.ndarray]:
        """Make the runs of these numbers at once: the fields of `KktRun`, stacked."""
        keys = [jax.random.split(jax.random.fold_in(key, n))[1] for n in numbers]
        made = kkt.attack_many(
            config, network, keys=jnp.stack(keys), mean=mean, place=place
        )
        return {
            field.name: np.stack([getattr(run, field.name) for run in made])
            for field in dataclasses.fields(KktRun)
        }

    runs: list[KktRun] = []
    while len(runs) < trials:
        numbers = range(len(runs), min(len(runs) + at_once, trials))
        file = folder / f"runs_{numbers.start:06d}.npz"
        part = file.with_suffix(".part.npz")
        # An interrupted batch may have had another size.
        about = Record.of(decisive | {"count": len(numbers)}, kkt=kkt.REVISION)
        what = f"The run in {part}"
        place = pieces.Place(file=part, record=about, what=what, progress=progress)
        make = functools.partial(batch, numbers, place)
        stacked = records.kept(file, record, f"The search in {folder}", make)
        place.clear()
        fields = zip(*stacked.values(), strict=True)
        runs += [KktRun(**dict(zip(stacked, run, strict=True))) for run in fields]
    return runs[:trials]


def by_loss(runs: list[KktRun]) -> list[KktRun]:
    """Sort runs by their loss, lowest first; runs that diverged come last."""
    return sorted(runs, key=lambda run: run.loss if np.isfinite(run.loss) else np.inf)
