"""Where attacks on weights alone end, as a function of where they begin.

`informed landscape --config=configs/landscape.py --workdir=DIR`. Candidates begin at
mixtures of the training images (GT), other images of the same data (partition) and
uniform noise,

    l2 (l1 GT + (1 - l1) partition) + (1 - l2) noise,    l1, l2 in 0, 1/4, ..., 1,

for the bilevel attack, and for gradient matching. Of every end: how near theta of the
found points is to the released one, which an adversary sees, and how near the points
are to the training images, which it doesn't.

Source: Runkel et al. 2024, Section 4.5, equation (10), Table 1, Figures 10 to 12.
"""

import dataclasses
import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
from sklearn.metrics import roc_auc_score

from informed import candidates, report, uninformed
from informed.attacks import bilevel
from informed.attacks.bilevel import BilevelConfig, Lower
from informed.uninformed import PointsConfig
from shadow import checks, files

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
METHODS = ("bilevel", "matching")
_WINDOW = 7  # pixels, of SSIM
_TRUE = 0.01  # MSE per pixel below which a point counts as recovered


@dataclasses.dataclass(frozen=True, kw_only=True)
class LandscapeConfig:
    """One landscape.

    Attributes:
      seed: of the noise, and of theta where the victim needs a start.
      data: the training images; as many others are the partition.
      victim: "affine" or "one_hidden"; width: of the latter.
      decay: mu, of victim and attack alike.
      methods: among "bilevel" and "matching".
      attack: the upper problem.
    """

    seed: int = 0
    data: PointsConfig = dataclasses.field(
        default_factory=lambda: PointsConfig(name="cifar10")
    )
    victim: str = "affine"
    width: int = 128
    decay: float = 1e-2
    methods: tuple[str, ...] = METHODS
    attack: BilevelConfig = dataclasses.field(default_factory=BilevelConfig)

    def __post_init__(self) -> None:
        checks.choice("victim", self.victim, ("affine", "one_hidden"))
        for method in self.methods:
            checks.choice("methods", method, METHODS)
        if self.data.classes != "binary":
            raise ValueError(
                'Expected data.classes "binary": the victims have one output.'
            )


@dataclasses.dataclass(frozen=True)
class Sets:
    """Images of the three kinds, held-out ones, and labels -1 and 1."""

    truth: np.ndarray
    partition: np.ndarray
    noise: np.ndarray
    held_out: np.ndarray
    targets: np.ndarray


def load(config: LandscapeConfig, data_dir: str | None = None) -> Sets:
    """Training images in the order of their labels, which the partition has too."""
    images = uninformed.load(config.data, data_dir)
    partition = np.concatenate(
        [
            images.held_out[images.held_out_labels == label][
                : int((images.labels == label).sum())
            ]
            for label in np.unique(images.labels)
        ]
    )
    taken = {image.tobytes() for image in partition}
    others = np.stack([i for i in images.held_out if i.tobytes() not in taken])
    rng = np.random.default_rng(config.seed)
    return Sets(
        truth=images.images,
        partition=partition,
        noise=rng.random(images.images.shape).astype(np.float32),
        held_out=others[: len(images.images)],
        targets=(2 * images.labels - 1).astype(np.float32),
    )


def mixtures(sets: Sets) -> np.ndarray:
    """(l1 and l2 as in `itertools.product(SHARES, SHARES)`, points, ...)."""
    return np.stack(
        [
            l2 * (l1 * sets.truth + (1 - l1) * sets.partition) + (1 - l2) * sets.noise
            for l1, l2 in itertools.product(SHARES, SHARES)
        ]
    )


def victim(config: LandscapeConfig, inputs: int) -> Lower:
    """The lower problem."""
    if config.victim == "affine":
        return bilevel.affine(inputs, config.decay)
    return bilevel.one_hidden(inputs, config.width, config.decay)


def run(
    config: LandscapeConfig, workdir: Path, data_dir: str | None = None
) -> dict[str, Any]:
    """All mixtures by all methods; writes landscape.npz, results.json and pictures."""
    begun = time.perf_counter()
    sets = load(config, data_dir)
    flat = sets.truth.reshape(len(sets.truth), -1)
    lower = victim(config, flat.shape[1])
    keys = jax.random.split(jax.random.key(config.seed))
    scale = 1.0 if config.victim == "affine" else flat.shape[1] ** -0.5
    draws = [scale * jax.random.uniform(key, (lower.num_params,)) for key in keys]
    starts = mixtures(sets).reshape(len(SHARES) ** 2, *flat.shape)
    targets = jnp.asarray(sets.targets)
    with jax.default_matmul_precision("highest"):
        released = bilevel.solve(lower, jnp.asarray(flat), targets, draws[0]).theta
        ends = {
            method: _ends(config, method, lower, released, starts, targets, draws[0])
            for method in config.methods
        }
    measured = {
        method: _measured(sets, end, np.asarray(released))
        for method, end in ends.items()
    }
    results: dict[str, Any] = {
        "seconds": round(time.perf_counter() - begun, 1),
        **{method: _lists(values) for method, values in measured.items()},
        "conclusions": {m: conclusions(values) for m, values in measured.items()},
        "auc": {m: _auc(values) for m, values in measured.items()},
    }
    workdir.mkdir(parents=True, exist_ok=True)
    _draw_maps(measured, workdir / "maps.png")
    _draw_curves(measured, workdir / "curves.png")
    _draw_images(sets, ends, workdir / "images.png")
    files.write_json(workdir / "results.json", results)
    return results


def _ends(
    config: LandscapeConfig,
    method: str,
    lower: Lower,
    released: jax.Array,
    starts: np.ndarray,
    targets: jax.Array,
    theta: jax.Array,
) -> bilevel.Ended:
    """One method from all mixtures, as one batch."""
    attack = bilevel.attack if method == "bilevel" else bilevel.matching

    @jax.jit
    @jax.vmap
    def from_start(points: jax.Array) -> bilevel.Ended:
        return attack(config.attack, lower, released, points, targets, theta)

    return jax.tree.map(np.asarray, from_start(jnp.asarray(starts)))


def _measured(
    sets: Sets, ends: bilevel.Ended, released: np.ndarray
) -> dict[str, np.ndarray]:
    """Every quantity at every mixture; (mixtures,), `mse` (mixtures, points)."""
    images = ends.points.reshape(len(ends.points), *sets.truth.shape)
    norm, distance = float(np.sum(released**2)), np.asarray(ends.distance)
    found: dict[str, list] = {
        name: []
        for name in ("truth", "partition", "noise", "ssim", "held_out_ssim", "mse")
    }
    spread = []
    for each in images:
        for name in ("truth", "partition", "noise"):
            others = getattr(sets, name)
            alike = _ssim(each, others)
            nearest = others[alike.argmax(axis=1)]
            found[name].append(np.mean(_lengths(each - nearest)))
            if name == "truth":
                found["ssim"].append(alike.max(axis=1).mean())
        found["held_out_ssim"].append(_ssim(each, sets.held_out).max(axis=1).mean())
        gaps = each[:, None] - sets.truth[None]
        found["mse"].append(np.mean(gaps**2, axis=(2, 3, 4)).min(axis=1))
        pairs = _lengths((each[:, None] - each[None]).reshape(-1, *each.shape[1:]))
        spread.append(pairs.sum() / (len(each) * (len(each) - 1)))
    return {
        **{name: np.array(values) for name, values in found.items()},
        "spread": np.array(spread),
        "distance": distance,
        "distance_mean": distance / len(released),
        "distance_relative": distance / norm,
        "slope_norm": np.asarray(ends.slope_norm),
    }


def _lengths(images: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(images**2, axis=(1, 2, 3)))


def _ssim(images: np.ndarray, others: np.ndarray) -> np.ndarray:
    """SSIM of all pairs; (images, others)."""
    return np.stack(
        [
            candidates.ssim([image] * len(others), others, window=_WINDOW)
            for image in images
        ]
    )


def _at(values: np.ndarray, l1: float, l2: float) -> float:
    """The value of a mixture."""
    return float(values[SHARES.index(l1) * len(SHARES) + SHARES.index(l2)])


def conclusions(measured: Mapping[str, np.ndarray]) -> dict[str, bool]:
    """What Runkel et al. conclude, on these runs; letters of the paper's sections.

    a: from noise theta fits, and images resemble training images no more than held-out
    ones. b: from the training images they are found. c: from the partition theta fits
    as well, and images stay there. d: nearer to the partition than to the training
    images wherever these are the smaller share. g: far from the truth candidates
    collapse.
    """
    truth, partition = measured["truth"], measured["partition"]
    fits = measured["distance_relative"]
    return {
        "a": bool(
            _at(fits, 0.0, 0.0) < 0.01
            and _at(measured["ssim"], 0.0, 0.0)
            <= _at(measured["held_out_ssim"], 0.0, 0.0) + 0.02
        ),
        "b": bool(_at(truth, 1.0, 1.0) < 0.1 * _at(truth, 0.0, 1.0)),
        "c": bool(
            _at(partition, 0.0, 1.0) < 0.5 * _at(truth, 0.0, 1.0)
            and _at(fits, 0.0, 1.0) < 0.01
        ),
        "d": all(_at(partition, l1, 1.0) < _at(truth, l1, 1.0) for l1 in (0.0, 0.25)),
        "g": bool(
            _at(measured["spread"], 0.0, 0.0) < 0.5 * _at(measured["spread"], 1.0, 1.0)
        ),
    }


def _auc(measured: Mapping[str, np.ndarray]) -> float | None:
    """Can an adversary tell? AUC of the parameter distance for recovered against not.

    None where all mixtures, or none, were recovered. 1/2 is guessing.
    """
    recovered = np.median(measured["mse"], axis=1) < _TRUE
    if recovered.all() or not recovered.any():
        return None
    return round(float(roc_auc_score(recovered, -measured["distance"])), 3)


def _lists(values: Mapping[str, np.ndarray]) -> dict[str, list]:
    """For JSON: one number a mixture."""
    return {
        name: [float(f"{v:.4g}") for v in np.atleast_1d(each)]
        for name, each in values.items()
        if each.ndim == 1
    }


# Pictures


def _draw_maps(measured: Mapping[str, Mapping[str, np.ndarray]], path: Path) -> None:
    """Figure 10: distances at all mixtures."""
    kinds = ("truth", "partition", "noise", "distance_relative")
    figure = matplotlib.figure.Figure(
        figsize=(3.2 * len(kinds), 3 * len(measured)), layout="constrained"
    )
    axes = figure.subplots(len(measured), len(kinds), squeeze=False)
    size = len(SHARES)
    for row, (method, values) in zip(axes, measured.items(), strict=True):
        for panel, kind in zip(row, kinds, strict=True):
            shown = values[kind].reshape(size, size)
            logarithm = kind == "distance_relative"
            image = panel.imshow(
                np.log10(np.maximum(shown, 1e-12)) if logarithm else shown,
                origin="lower",
                cmap="viridis",
            )
            figure.colorbar(image, ax=panel, shrink=0.8)
            panel.set(
                title=f"{method}: "
                + ("log10 distance of theta" if logarithm else f"L2 to {kind}"),
                xlabel="l2: share of images",
                ylabel="l1: share of truth",
                xticks=range(size),
                yticks=range(size),
                xticklabels=SHARES,
                yticklabels=SHARES,
            )
            panel.title.set_fontsize(9)
    files.write_bytes(path, report.png(figure))


def _draw_curves(measured: Mapping[str, Mapping[str, np.ndarray]], path: Path) -> None:
    """Figures 11 and 12: along the edges of the map."""
    figure = matplotlib.figure.Figure(
        figsize=(4 * len(measured) + 4, 3), layout="constrained"
    )
    axes = figure.subplots(1, 2)
    for method, values in measured.items():
        style = "-" if method == "bilevel" else "--"
        for axis, other, along in (
            (axes[0], "partition", [(share, 1.0) for share in SHARES]),
            (axes[1], "noise", [(1.0, share) for share in SHARES]),
        ):
            for kind, colour in (("truth", "tab:red"), (other, "tab:green")):
                axis.plot(
                    SHARES,
                    [_at(values[kind], *pair) for pair in along],
                    style,
                    color=colour,
                    label=f"{method}: to {kind}",
                )
    axes[0].set(xlabel="share of truth against partition", ylabel="mean L2 distance")
    axes[1].set(xlabel="share of truth against noise")
    for axis in axes:
        axis.legend(fontsize=7)
    files.write_bytes(path, report.png(figure))


def _draw_images(sets: Sets, ends: Mapping[str, bilevel.Ended], path: Path) -> None:
    """Figures 1 to 4: from noise, partition and truth, beside the training images."""
    columns = min(8, len(sets.truth))
    rows: dict[str, np.ndarray] = {"training images": sets.truth}
    for method, end in ends.items():
        images = np.asarray(end.points).reshape(-1, *sets.truth.shape)
        for name, (l1, l2) in {
            "noise": (0.0, 0.0),
            "partition": (0.0, 1.0),
            "truth": (1.0, 1.0),
        }.items():
            index = SHARES.index(l1) * len(SHARES) + SHARES.index(l2)
            rows[f"{method}\nfrom {name}"] = images[index]
    figure = matplotlib.figure.Figure(
        figsize=(columns + 1.5, len(rows)), layout="constrained"
    )
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for row, (name, images) in zip(axes, rows.items(), strict=True):
        for panel, image in zip(row, images, strict=False):
            panel.imshow(np.clip(image, 0, 1).squeeze(), cmap="gray", vmin=0, vmax=1)
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    files.write_bytes(path, report.png(figure))
