"""The uninformed adversary's job in one piece: victim, search, counts, pictures.

`informed kkt --config=configs/kkt.py --workdir=DIR`. A homogeneous network is trained
on a few images until it is near a KKT point. The KKT attack sees its weights, and the
mean image if that is known; its best run, chosen by loss, is compared with the training
images, with held-out images as a control, and with two baselines. The network is kept
in `network.npz`, batches of the search in `search/`: a run that was cut off goes on,
within a batch or a training after the last of fifty pieces.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np

from informed import report
from shadow import checks, data, files, records
from shadow.records import Record
from uninformed import candidates, homogeneous, kkt, model_inversion, pieces
from uninformed import max_margin as margin
from uninformed.homogeneous import DenseLayers, HomogeneousConfig, Layer
from uninformed.kkt import KktConfig, KktRun, ceiling, stationarity
from uninformed.kkt import search as kkt_search
from uninformed.kkt.search import KktTrial
from uninformed.max_margin import MarginConfig
from uninformed.results import ImageRow, draw_rows

# Labels of the vehicles in CIFAR-10, one class of "binary"; animals are the other.
_VEHICLES = (0, 1, 8, 9)
# Root mean square difference, in pixels of [0, 1], within which `stability` takes two
# candidates for the same: larger takes similar images for one, smaller takes runs that
# came to rest a little apart for different ones.
_SAME = 0.05
# Of the best score, at least, of candidates that are averaged: Appendix B.3.
_VOTING = 0.9
_RANGES = {
    "none": kkt_search.Ranges.none(),
    "ours": kkt_search.Ranges(),
    "published": kkt_search.Ranges.published(),
}
# Columns of a picture: more are too small to be looked at.
_SHOWN = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class PointsConfig:
    """The training set.

    Attributes:
      name: name of the data set, as `shadow.data.load` takes it.
      classes: "binary", vehicles against animals of CIFAR-10 and odd against even
        labels of other data sets, or "all".
      points: number of training images, in equal shares of the classes.
      offset: images of each class that are passed over before the first is taken.
      held_out: number of images that the control is counted on.
      mean_known: whether the adversary knows the mean image, which is subtracted.
    """

    name: str = "mnist"
    classes: str = "binary"
    points: int = 20
    offset: int = 0
    held_out: int = 2000
    mean_known: bool = True

    def __post_init__(self) -> None:
        checks.choice("classes", self.classes, ("binary", "all"))
        checks.at_least("points", self.points, 2)
        checks.at_least("offset", self.offset, 0)
        checks.at_least("held_out", self.held_out, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """The search over runs of the attack.

    Attributes:
      trials: number of runs.
      at_once: runs in one batch; decides on memory and speed, not on results.
      ranges: what each run draws its settings from: "none", all runs have the attack's
        own and differ in their random start alone; "ours", `search.Ranges()`; or
        "published", `search.Ranges.published()`.
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


@dataclasses.dataclass(frozen=True)
class VictimImages:
    """Training images, and those that candidates are compared with as a control.

    Attributes:
      images: training images (points, height, width, channels), pixels in [0, 1].
      labels: their classes, (points,).
      held_out: images of the control (others, height, width, channels).
      held_out_labels: their classes, (others,).
    """

    images: np.ndarray
    labels: np.ndarray
    held_out: np.ndarray
    held_out_labels: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """The mean training image, which is subtracted from all of them."""
        return self.images.mean(axis=0)

    def fingerprint(self) -> str:
        """A hash of all images and labels."""
        return checks.fingerprint(
            [
                hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest()
                for each in dataclasses.astuple(self)
            ]
        )

    @property
    def points(self) -> np.ndarray:
        """What the network is trained on: images less their mean, (points, inputs)."""
        return (self.images - self.mean).reshape(len(self.images), -1)


def run(
    experiment: Uninformed, workdir: Path, data_dir: str | None = None
) -> dict[str, Any]:
    """Train, attack, evaluate. Returns what `results.json` holds.

    Raises: ConfigurationMismatchError: the folder holds another victim or search.
    """
    with checks.under("config.data"):
        images = load(experiment.data, data_dir)
    clock = records.Clock(workdir / "seconds.json")
    with clock.running("train_s"):
        network = victim(experiment, images, workdir / "network.npz")
    mean = images.mean.ravel() if experiment.data.mean_known else None
    with clock.running("attack_s"):
        trials = kkt_search.search(
            experiment.attack,
            network,
            trials=experiment.search.trials,
            at_once=experiment.search.at_once,
            key=_key(experiment, 2),
            ranges=_RANGES[experiment.search.ranges],
            mean=mean,
            folder=workdir / "search",
        )
    results = evaluate(experiment, images, network, trials, workdir) | clock.seconds
    files.write_json(workdir / "results.json", results)
    return results


def _key(experiment: Uninformed, use: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(experiment.seed), use)


def load(config: PointsConfig, data_dir: str | None = None) -> VictimImages:
    """The first images that fill equal shares; held-out ones are drawn.

    Raises: ValueError: too few images of a class.
    """
    pool = data.load(config.name, data_dir=data_dir)
    labels = pool.labels
    if config.classes == "binary":
        vehicles = np.isin(labels, _VEHICLES)
        # CIFAR-10 of any version.
        cifar10 = config.name.partition(":")[0] == "cifar10"
        labels = (vehicles if cifar10 else labels % 2).astype(np.int32)
    classes = np.unique(labels)
    share = config.points // len(classes)
    wanted = slice(config.offset, config.offset + share)
    chosen = np.concatenate([np.flatnonzero(labels == c)[wanted] for c in classes])
    if len(chosen) < share * len(classes) or share == 0:
        raise checks.FieldError(
            "points",
            f"{{}} is {config.points} and offset {config.offset}, but {config.name} has"
            f" {np.bincount(labels).min()} images of its rarest class of"
            f" {len(classes)}; expected at least one and at most all of a class.",
        )
    rest = np.setdiff1d(np.arange(len(labels)), chosen)
    others = np.random.default_rng(0).permutation(rest)[: config.held_out]
    return VictimImages(
        pool.images[chosen], labels[chosen], pool.images[others], labels[others]
    )


def victim(experiment: Uninformed, images: VictimImages, file: Path) -> DenseLayers:
    """The trained network, from `file` if it is there.

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
    )

    def train() -> dict[str, np.ndarray]:
        begun = homogeneous.init(
            experiment.victim, images.points.shape[1], _key(experiment, 1)
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


def evaluate(
    experiment: Uninformed,
    images: VictimImages,
    network: DenseLayers,
    trials: list[KktTrial],
    workdir: Path,
) -> dict[str, Any]:
    """Counts of the run that an adversary would choose, controls, baselines, pictures.

    `oracle_recovered` is the most that any of the runs has, chosen by looking at the
    training images; `pooled_recovered` what all of them have together, whose control,
    counted among as many candidates, is `pooled_held_out_similar`.
    """
    chosen = kkt_search.by_loss(trials)[0]
    mean = images.mean if experiment.data.mean_known else None
    found = _match(images, chosen.found.points, mean)
    inversion = model_inversion.InversionOfModel(count=experiment.attack.candidates)
    prototypes = model_inversion.invert(inversion, network, key=_key(experiment, 3))
    baselines = {
        "first_layer": model_inversion.first_layer(network),
        "model_inversion": prototypes.points,
    }
    left, layers = at_truth(experiment, images, network)
    pooled = _match(
        images, np.concatenate([each.found.points for each in trials]), mean
    ).summary()
    of_runs = [
        int(_match(images, t.found.points, mean).recovered.sum()) for t in trials
    ]
    results: dict[str, Any] = {
        **{
            name: value if isinstance(value, int) else round(value, 3)
            for name, value in found.summary().items()
        },
        **{
            f"{name}_recovered": int(_match(images, points, mean).recovered.sum())
            for name, points in baselines.items()
        },
        "runs_recovered": of_runs,
        "oracle_recovered": max(of_runs),
        "voted_recovered": int(
            _match(images, chosen.found.points, mean, _VOTING).recovered.sum()
        ),
        **{
            f"pooled_{name}": pooled[name]
            for name in ("similar", "recovered", "held_out_similar")
        },
        "distinct": _distinct(images, chosen.found),
        "residual": round(chosen.found.residual, 3),
        "residual_at_truth": round(left, 3),
        "layers_at_truth": [round(float(each), 3) for each in layers],
        **ceilings(images, network, mean),
        **fit(experiment, images, network),
    }
    if len(trials) > 1:
        results["stability"] = round(
            kkt_search.stability(chosen, trials, apart=_SAME), 3
        )
    _draw_images(images, found, workdir / "reconstructions.png")
    _draw_outputs(network, images, found, workdir / "outputs.png")
    return results


def _match(
    images: VictimImages,
    points: np.ndarray,
    mean: np.ndarray | None,
    share: float = 1.0,
) -> candidates.Matches:
    """Candidates beside the training images; `mean`: if the adversary knows it."""
    return candidates.match(
        images.images,
        images.labels,
        points.reshape(-1, *images.images.shape[1:]),
        images.held_out,
        images.held_out_labels,
        mean=mean,
        share=share,
    )


def _distinct(images: VictimImages, found: KktRun) -> int:
    """Candidates with a multiplier, near copies counted once."""
    shown = found.points[found.alive].reshape(-1, *images.images.shape[1:])
    return len(candidates.merged(shown, found.multipliers[found.alive]))


def ceilings(
    images: VictimImages, network: DenseLayers, mean: np.ndarray | None
) -> dict[str, int]:
    """How many points the first layer tells to whoever knows the patterns.

    `ceiling` and `ceiling_70` count correlations above 0.9 and 0.7, `ceiling_recovered`
    counts as `recovered` does.
    """
    points = jnp.asarray(images.points)
    outputs = homogeneous.apply(network, points)
    directions = kkt.directions(outputs, jnp.asarray(images.labels))
    told = ceiling.told(network, points, directions)
    alike = ceiling.correlations(images.points, told)
    return {
        "ceiling": int((alike > 0.9).sum()),
        "ceiling_70": int((alike > 0.7).sum()),
        "ceiling_recovered": int(_match(images, told, mean).recovered.sum()),
    }


def fit(
    experiment: Uninformed, images: VictimImages, network: DenseLayers
) -> dict[str, float]:
    """Loss and error on the training images, and accuracy on held-out ones."""
    outputs = homogeneous.apply(network, jnp.asarray(images.points))
    labels = jnp.asarray(images.labels)
    others = (images.held_out - images.mean).reshape(len(images.held_out), -1)
    unseen = homogeneous.apply(network, jnp.asarray(others))
    unseen_leads = margin.margins(unseen, jnp.asarray(images.held_out_labels))
    wrong = margin.margins(outputs, labels).min(axis=1) <= 0
    return {
        "train_loss": float(
            f"{margin.loss(experiment.training.loss, outputs, labels):.3g}"
        ),
        "train_error": round(float(wrong.mean()), 4),
        "test_accuracy": round(float((unseen_leads.min(axis=1) > 0).mean()), 4),
    }


def at_truth(
    experiment: Uninformed, images: VictimImages, network: DenseLayers
) -> tuple[float, np.ndarray]:
    """How far the victim is from a KKT point, at its own training points.

    Returns |theta - sum| / |theta| with the best coefficients, and this quotient for
    each layer by itself, (layers,). Where it is large, any attack looks bad.
    """
    points = jnp.asarray(images.points)
    outputs = homogeneous.apply(network, points)
    directions = kkt.directions(outputs, jnp.asarray(images.labels))
    alpha = experiment.attack.alpha / stationarity.typical_sums(network, points)
    best = stationarity.best_multipliers(
        network,
        points,
        directions,
        alpha,
        signed=experiment.attack.coefficients == "signed",
    )
    coefficients = jnp.asarray(best, points.dtype)[:, None] * directions
    at = stationarity.passes(network, points, coefficients, alpha)
    left = np.asarray(stationarity.plain(network, at))
    norms = np.array([float(homogeneous.squared_norm((each,))) for each in network])
    return float(np.sqrt(left.sum() / norms.sum())), np.sqrt(left / norms)


def table(results: Mapping[str, Any]) -> str:
    """Results as lines of a name and a value."""
    return "\n".join(f"{name:<32}{value}" for name, value in results.items())


# Pictures


def _draw_images(images: VictimImages, found: candidates.Matches, path: Path) -> None:
    """Training images by falling SSIM, and the candidate nearest to each."""
    order = np.argsort(-found.ssim)[:_SHOWN]
    rows = [
        ImageRow("training", images.images[order]),
        ImageRow("candidate", found.images[order], found.ssim[order]),
    ]
    draw_rows(rows, path)


def _draw_outputs(
    network: DenseLayers, images: VictimImages, found: candidates.Matches, path: Path
) -> None:
    """Figure 4 of Haim et al. 2022: only points on the margin can be found."""
    outputs = homogeneous.apply(network, jnp.asarray(images.points))
    leads = margin.margins(outputs, jnp.asarray(images.labels)).min(axis=1)
    figure = matplotlib.figure.Figure(figsize=(4, 3), layout="constrained")
    axes = figure.subplots()
    axes.scatter(np.asarray(leads), found.ssim, s=12)
    axes.axhline(candidates.SIMILAR, color="grey", linewidth=0.8)
    axes.set(xlabel="lead of the right class", ylabel="SSIM of the reconstruction")
    files.write_bytes(path, report.png(figure))
