"""The KKT attack on points of a circle: one JSON line, one figure.

    python -m benchmarks.kkt_circle --figure=docs/images/kkt_circle.png

20 points, equally spaced on the unit circle, labels alternating; a network of three
layers, 200 units wide, trained until it is near a KKT point. The attack runs --runs
times from random candidates; the run of the lowest loss counts, which an adversary can
see. Candidates with next to no multiplier are dropped, and of those closer than 0.03
only one is kept, as in the paper. recovered: points with a candidate within 0.05.
model_inversion_recovered: the same count for model inversion, the baseline.

Source: Haim et al. 2022, Section 4 and Figure 2.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
from jaxtyping import Float, Int

from informed import report
from shadow import devices, files
from uninformed import homogeneous, kkt, model_inversion
from uninformed import max_margin as margin
from uninformed.homogeneous import DenseLayers

POINTS = 20
NEAR, APART, LEAST = 0.05, 0.03, 0.02


@dataclasses.dataclass(frozen=True, eq=False)
class Circle:
    """A victim of points (points, 2) on the unit circle, attacked.

    Attributes:
      best: the run of the lowest loss, which an adversary can see.
      kept: indices of its candidates with a multiplier, near copies left out.
      prototypes: what model inversion finds, (prototypes, 2).
      line: counts, losses and seconds, for JSON.
    """

    points: np.ndarray
    labels: np.ndarray
    network: DenseLayers
    best: kkt.KktRun
    kept: np.ndarray
    prototypes: np.ndarray
    line: Mapping[str, Any]


def main() -> None:
    """Train, attack, count, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the network")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--figure", type=Path, default=None)
    arguments = parser.parse_args()
    devices.one_a_core()
    fields = vars(arguments)
    figure = fields.pop("figure")
    outcome = play(**fields)
    print(json.dumps(outcome.line))
    if figure is not None:
        files.write_bytes(figure, picture(outcome))


def play(*, seed: int, runs: int, steps: int, width: int) -> Circle:
    """Train a network with two hidden layers of a width; attack it in some runs."""
    start = time.perf_counter()
    angles = 2 * np.pi * np.arange(POINTS) / POINTS
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = np.arange(POINTS) % 2
    init_key, attack_key, baseline_key = jax.random.split(jax.random.key(seed), 3)
    shape = homogeneous.HomogeneousConfig(widths=(width,) * 2)
    network = margin.train(
        margin.MarginConfig(), homogeneous.init(shape, 2, init_key), points, labels
    )
    jax.block_until_ready(network)
    trained = time.perf_counter()
    found = kkt.attack_many(
        kkt.KktConfig(steps=steps), network, keys=jax.random.split(attack_key, runs)
    )
    best = min(found, key=lambda run: run.loss)
    kept = thinned(best.points, best.multipliers)
    attacked = time.perf_counter()
    prototypes = model_inversion.invert(
        model_inversion.InversionOfModel(), network, key=baseline_key
    )
    line = {
        "recovered": _recovered(points, best.points[kept]),
        "points": POINTS,
        "candidates": len(kept),
        "model_inversion_recovered": _recovered(points, prototypes),
        "residual": round(best.residual, 3),
        "all_runs_recovered": [
            _recovered(points, run.points[thinned(run.points, run.multipliers)])
            for run in found
        ],
        "all_runs_loss": [round(run.loss, 4) for run in found],
        "train_s": round(trained - start, 1),
        "seconds": round(attacked - start, 1),
    }
    return Circle(points, labels, network, best, kept, prototypes, line)


def thinned(
    points: Float[np.ndarray, "candidates inputs"],
    multipliers: Float[np.ndarray, " candidates"],
) -> Int[np.ndarray, " kept"]:
    """Return indices of candidates with a multiplier, no two of them close together.

    Of those within `APART`, the first in random order is kept, and none with less than
    `LEAST` of the largest multiplier.
    """
    kept: list[int] = []
    for i in np.random.default_rng(0).permutation(len(points)):
        if multipliers[i] <= LEAST * multipliers.max():
            continue
        distances = np.linalg.norm(points[kept] - points[i][None], axis=1)
        if not kept or distances.min() > APART:
            kept.append(int(i))
    return np.array(kept, np.int64)


def _recovered(points: np.ndarray, found: np.ndarray) -> int:
    """How many points have a candidate nearby."""
    distances = np.linalg.norm(points[:, None] - found[None], axis=-1)
    return int((distances.min(axis=1) < NEAR).sum())


def picture(outcome: Circle) -> bytes:
    """Figure 2: the points and what the network says; the candidates; prototypes."""
    edge = np.linspace(-1.4, 1.4, 200)
    grid = np.stack(np.meshgrid(edge, edge), axis=-1).reshape(-1, 2)
    outputs = homogeneous.apply(outcome.network, jnp.asarray(grid, jnp.float32))
    shown = np.clip(np.asarray(outputs), -2, 2).reshape(200, 200)
    figure = matplotlib.figure.Figure(figsize=(12, 4), layout="constrained")
    panels = {
        "training points": outcome.points,
        "KKT attack, kept candidates": outcome.best.points[outcome.kept],
        "model inversion": outcome.prototypes,
    }
    for axes, (title, found) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axes.contourf(edge, edge, shown, levels=20, cmap="RdBu_r", alpha=0.5)
        axes.scatter(*outcome.points.T, s=90, facecolors="none", edgecolors="black")
        if found is outcome.points:
            axes.scatter(*found.T, c=outcome.labels, cmap="RdBu_r", s=25)
        else:
            axes.scatter(*found.T, color="black", s=9)
        axes.set(title=title, xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")
    return report.png(figure)


if __name__ == "__main__":
    main()
