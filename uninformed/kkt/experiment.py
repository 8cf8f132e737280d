"""The uninformed adversary's experiment: a victim, and runs of the attack on it.

A homogeneous network is trained on a few images until it is near a KKT point. The KKT
attack sees its weights, and the mean image if that is known. The network is kept in
`network.npz`, batches of the search in `search/`: what was cut off goes on, within a
batch or a training after the last of fifty pieces. What the attack is worth is
`uninformed.kkt.evaluation`'s to say.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from shadow import checks, records
from shadow.records import Record
from uninformed import homogeneous, pieces
from uninformed import max_margin as margin
from uninformed.homogeneous import DenseLayers, HomogeneousConfig, Layer
from uninformed.kkt import KktConfig, KktRun
from uninformed.kkt import search as kkt_search
from uninformed.kkt.images import PointsConfig, VictimImages, load
from uninformed.max_margin import MarginConfig

# What the seed is folded with, so that each use has randomness of its own.
INITIALISES, ATTACKS, BASELINES = 1, 2, 3
_RANGES = {
    "none": {},
    "published": kkt_search.PUBLISHED,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """The search over runs of the attack.

    Attributes:
      trials: number of runs.
      at_once: runs in one batch; decides on memory and speed. Runs of other batches
        differ by rounding, which thousands of steps enlarge.
      ranges: what each run draws its settings from: "none", all runs have the attack's
        own and differ in their random start alone; or "published", `search.PUBLISHED`.
    """

    trials: int = 4
    at_once: int = 2
    ranges: str = "none"

    def __post_init__(self) -> None:
        checks.choice("ranges", self.ranges, tuple(_RANGES))
        checks.at_least("trials", self.trials, 1)
        checks.at_least("at_once", self.at_once, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Uninformed:
    """Everything that decides a result.

    Attributes:
      seed: the seed of everything random: initialisation, starts, drawn settings.
      data: the training images, and those of the control.
      victim: architecture and initialisation of the network.
      training: how the network is trained.
      attack: settings of the KKT attack.
      search: how many runs of the attack are made.
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

    Attributes:
      images: the training images, and those of the control.
      network: the trained victim.
      trials: the runs of the attack, in the order of their numbers.
      seconds: `train_s` and `attack_s`, what both took.
    """

    images: VictimImages
    network: DenseLayers
    trials: list[KktRun]
    seconds: Mapping[str, float]

    @property
    def chosen(self) -> KktRun:
        """The run that an adversary would choose, by its loss."""
        return kkt_search.by_loss(self.trials)[0]


def attacked(
    experiment: Uninformed,
    workdir: Path,
    data_dir: str | None = None,
    *,
    progress: bool = True,
) -> Attacked:
    """Train and attack, or read what is there.

    Args:
      progress: whether bars show the steps of the training and of the attack.
    Raises: ConfigurationMismatchError: the folder holds another victim or search.
    """
    with checks.under("config.data"):
        images = load(experiment.data, data_dir)
    clock = records.Clock(workdir / "seconds.json")
    with clock.running("train_s"):
        network = victim(experiment, images, workdir / "network.npz", progress=progress)
    mean = images.mean.ravel() if experiment.data.mean_known else None
    with clock.running("attack_s"):
        trials = kkt_search.search(
            experiment.attack,
            network,
            trials=experiment.search.trials,
            at_once=experiment.search.at_once,
            key=key_of(experiment, ATTACKS),
            ranges=_RANGES[experiment.search.ranges],
            mean=mean,
            folder=workdir / "search",
            progress=progress,
        )
    return Attacked(
        images=images, network=network, trials=trials, seconds=clock.seconds
    )


def key_of(experiment: Uninformed, use: int) -> jax.Array:
    """Randomness by its use: INITIALISES, ATTACKS or BASELINES."""
    return jax.random.fold_in(jax.random.key(experiment.seed), use)


def victim(
    experiment: Uninformed, images: VictimImages, file: Path, *, progress: bool = True
) -> DenseLayers:
    """The trained network, from `file` if it is there.

    Args:
      progress: whether a bar shows the steps of the training.
    Raises: ConfigurationMismatchError, VersionMismatchError: the file holds another.
    """
    fields = dataclasses.asdict(experiment)
    about = {name: fields[name] for name in ("seed", "data", "victim", "training")}
    record = Record.of(
        about | {"content": images.fingerprint()},
        homogeneous=homogeneous.REVISION,
        margin=margin.REVISION,
    )

    place = pieces.Place(
        file=file.with_suffix(".part.npz"),
        record=record,
        what=f"The training in {file.parent}",
        progress=progress,
    )

    def train() -> dict[str, np.ndarray]:
        begun = homogeneous.init(
            experiment.victim, images.points.shape[1], key_of(experiment, INITIALISES)
        )
        made = margin.train(
            experiment.training, begun, images.points, images.labels, place=place
        )
        return {
            f"{name}{number}": np.asarray(array)
            for number, layer in enumerate(made)
            for name, array in layer._asdict().items()
            if array is not None
        }

    arrays = records.kept(file, record, f"The victim in {file}", train)
    place.clear()
    loaded = {name: jnp.asarray(array) for name, array in arrays.items()}
    return tuple(
        Layer(loaded[f"w{number}"], loaded.get(f"b{number}"))
        for number in range(len(experiment.victim.widths) + 1)
    )
