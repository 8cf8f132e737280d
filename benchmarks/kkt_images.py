"""The KKT attack on images, one JSON line a row: what only the weights give away.

    python -m benchmarks.kkt_images --dataset=cifar10 --points=20 --figures=runs/kkt

Three kinds of victim, each near the conditions that the attack rests on
(`shadow.margin`):

binary       MNIST odd or even, CIFAR-10 vehicles or animals; margins maximised
multiclass   ten classes; margins maximised
mse          binary, squared error with weight decay; signed coefficients, no labels

The network has two hidden layers of --width and a first layer that starts small. The
first --points images in the order of the data set, in equal shares, are its training
set; their mean is subtracted, and known to the adversary, who knows nothing else. Of
--runs runs the one of the lowest loss counts. A training image is `similar` if some
candidate has an SSIM of 0.4 with it (window 3), and `recovered` if that candidate
resembles it more than any held-out image of its class out of 2,000. `held_out_similar`:
the count of `similar` for as many held-out images. Beside it the first layer's weights
as images, and model inversion, counted in the same way.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np

import shadow
from informed import candidates, report
from informed.attacks import kkt, model_inversion, stationarity
from shadow import devices, files, homogeneous, margin
from shadow.homogeneous import Network

KINDS = ("binary", "multiclass", "mse")
VEHICLES = (0, 1, 8, 9)
HELD_OUT = 2000
ATTACK = kkt.KktConfig(
    low=0.0, prior_weight=100.0, margin_weight=0.0, rate=1e-2, steps=10_000
)


@dataclasses.dataclass(frozen=True)
class Data:
    """Training points, and what they are compared with."""

    images: np.ndarray
    labels: np.ndarray
    held_out: np.ndarray
    held_out_labels: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """What is subtracted."""
        return self.images.mean(axis=0)

    @property
    def points(self) -> np.ndarray:
        """What the network sees; (points, inputs)."""
        return (self.images - self.mean).reshape(len(self.images), -1)


def main() -> None:
    """Train, attack and count, row after row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="mnist", choices=("mnist", "cifar10"))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--candidates", type=int, default=None, help="2 a point")
    parser.add_argument("--steps", type=int, default=ATTACK.steps)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--route_steps", type=int, default=60_000)
    parser.add_argument("--standard", action="store_true", help="no small first layer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figures", type=Path, default=None, help="a folder")
    arguments = parser.parse_args()
    devices.one_a_core()
    for kind in arguments.kinds.split(","):
        print(json.dumps(_row(arguments, kind)), flush=True)


def _row(arguments: argparse.Namespace, kind: str) -> dict:
    """One kind of victim."""
    data = _data(arguments.dataset, kind, arguments.points)
    victim_key, attack_key, baseline_key = jax.random.split(
        jax.random.key(arguments.seed), 3
    )
    start = time.perf_counter()
    network = _victim(arguments, kind, data, victim_key)
    trained = time.perf_counter()
    config = dataclasses.replace(
        ATTACK,
        candidates=arguments.candidates or 2 * arguments.points,
        steps=arguments.steps,
        coefficients="signed" if kind == "mse" else "multipliers",
    )
    runs = kkt.attack_many(
        config,
        network,
        keys=jax.random.split(attack_key, arguments.runs),
        mean=data.mean.ravel(),
    )
    attacked = time.perf_counter()
    best = min(runs, key=lambda run: run.loss)
    found = _match(data, best.points)
    baselines = {"first_layer": model_inversion.first_layer(network)}
    inversion = model_inversion.InversionOfModel(count=config.candidates)
    prototypes = model_inversion.invert(inversion, network, key=baseline_key)
    baselines["model_inversion"] = prototypes.points
    if arguments.figures is not None:
        name = f"{arguments.dataset}_{kind}_{arguments.points}.png"
        _draw(data, found, arguments.figures / name)
    return {
        "dataset": arguments.dataset,
        "kind": kind,
        **_rounded(found.summary()),
        **{
            f"{name}_recovered": int(_match(data, points).recovered.sum())
            for name, points in baselines.items()
        },
        "recovered_in_all_runs": [
            int(_match(data, run.points).recovered.sum()) for run in runs
        ],
        "residual": round(best.residual, 3),
        "residual_at_truth": round(_at_truth(network, kind, data), 3),
        "train_s": round(trained - start, 1),
        "attack_s": round(attacked - trained, 1),
    }


def _data(name: str, kind: str, count: int) -> Data:
    """The first images that fill equal shares; held-out ones are drawn."""
    pool = shadow.load(name)
    labels = pool.labels
    if kind != "multiclass":
        odd = labels % 2
        labels = odd if name == "mnist" else np.isin(labels, VEHICLES).astype(np.int32)
    classes = np.unique(labels)
    share = count // len(classes)
    chosen = np.concatenate([np.flatnonzero(labels == c)[:share] for c in classes])
    rest = np.setdiff1d(np.arange(len(labels)), chosen)
    others = np.random.default_rng(0).permutation(rest)[:HELD_OUT]
    return Data(
        pool.images[chosen], labels[chosen], pool.images[others], labels[others]
    )


def _victim(
    arguments: argparse.Namespace, kind: str, data: Data, key: jax.Array
) -> Network:
    """A trained network."""
    shape = homogeneous.HomogeneousConfig(
        widths=(arguments.width,) * 2,
        outputs=10 if kind == "multiclass" else 1,
        first_scale=None if arguments.standard else 1e-4,
    )
    training = margin.MarginConfig(route_steps=arguments.route_steps)
    if kind == "mse":
        training = dataclasses.replace(training, loss="mse", route="weight_decay")
    start = homogeneous.init(shape, data.points.shape[1], key)
    network = margin.train(training, start, data.points, data.labels)
    return jax.block_until_ready(network)


def _at_truth(network: Network, kind: str, data: Data) -> float:
    """How much of theta the true points leave, with their best coefficients."""
    points = jnp.asarray(data.points)
    outputs = homogeneous.apply(network, points)
    directions = kkt.directions(outputs, jnp.asarray(data.labels))
    scales = stationarity.typical_sums(network, points)
    alpha = ATTACK.alpha / scales
    best = stationarity.best_multipliers(
        network, points, directions, alpha, signed=kind == "mse"
    )
    coefficients = jnp.asarray(best, points.dtype)[:, None] * directions
    at = stationarity.passes(network, points, coefficients, alpha)
    left = stationarity.plain(network, at).sum() / homogeneous.squared_norm(network)
    return float(jnp.sqrt(left))


def _match(data: Data, points: np.ndarray) -> candidates.Matches:
    """Candidates beside the training images."""
    return candidates.match(
        data.images,
        data.labels,
        points.reshape(-1, *data.images.shape[1:]),
        data.held_out,
        data.held_out_labels,
        mean=data.mean,
    )


def _rounded(summary: dict) -> dict:
    """Three digits are enough."""
    return {
        name: value if isinstance(value, int) else round(value, 3)
        for name, value in summary.items()
    }


def _draw(data: Data, found: candidates.Matches, path: Path) -> None:
    """Training images by falling SSIM, and the candidate nearest to each."""
    order = np.argsort(-found.ssim)[:20]
    figure = matplotlib.figure.Figure(
        figsize=(0.7 * len(order), 1.9), layout="constrained"
    )
    axes = figure.subplots(2, len(order))
    for column, i in enumerate(order):
        for row, images in enumerate((data.images, found.images)):
            axes[row, column].imshow(images[i].squeeze(), cmap="gray", vmin=0, vmax=1)
            axes[row, column].set(xticks=[], yticks=[])
        axes[1, column].set_xlabel(f"{found.ssim[i]:.2f}", fontsize=7)
    axes[0, 0].set_ylabel("training", fontsize=7)
    axes[1, 0].set_ylabel("candidate", fontsize=7)
    files.write_bytes(path, report.png(figure))


if __name__ == "__main__":
    main()
