"""The prior-aware attack beside the bound, over epsilon: one JSON line, one figure.

    python -m benchmarks.noisy_gradients --figure=docs/images/prior_aware.png

MNIST (digits with --dataset=digits), full-batch DP-GD of the victim of Table V, T = 100
steps, clipping norm 0.1, a uniform prior on m = 8 candidates, a fixed set of 200. Every
run has a target and noise of its own. `violation` is the probability of so many
successes if the bound holds.
"""

import argparse
import json
from pathlib import Path

import jax
import matplotlib.figure
import numpy as np

import dp
import shadow
from dp import rates
from dp.gradient import PrivacyConfig
from informed.attacks import prior_aware
from informed.experiment.training_settings import TrainingConfig
from shadow import files

EPSILONS = (0.5, 1.0, 2.0, 4.0, 7.0, 10.0, 15.0, 25.0, 40.0)
STEPS, CLIP_NORM, CANDIDATES, DELTA = 100, 0.1, 8, 1e-5


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--fixed", type=int, default=200)
    parser.add_argument("--runs", type=int, default=400, help="an epsilon")
    parser.add_argument("--figure", type=Path, default=None)
    arguments = parser.parse_args()
    pool = shadow.load(arguments.dataset)
    parts = shadow.split(
        pool, num_fixed=arguments.fixed, num_shadow=CANDIDATES, num_test=1, seed=0
    )
    victim = shadow.build_victim(
        shadow.VictimConfig(), image_shape=pool.image_shape, num_classes=10
    )
    rows = []
    for number, epsilon in enumerate(EPSILONS):
        sigma = dp.calibrate(
            epsilon=epsilon, delta=DELTA, steps=STEPS, relation="zero_out"
        ).noise_multiplier
        private = PrivacyConfig(clip_norm=CLIP_NORM, noise_multiplier=sigma)
        training = TrainingConfig(
            epochs=STEPS, learning_rate=9.0, momentum=0.0, privacy=private
        )
        evidence, chosen = prior_aware.play(
            training.algorithm(victim),
            parts.fixed,
            parts.shadow,
            init=victim.init(jax.random.key(0)),
            runs=arguments.runs,
            key=jax.random.fold_in(jax.random.key(1), number),
        )
        posterior = prior_aware.log_posterior(evidence, private)
        hits = int(np.sum(posterior.argmax(axis=1) == chosen))
        score = evidence.products.sum(axis=1)  # the published one
        run = dp.Gaussian(
            noise_multiplier=private.noise_multiplier, steps=STEPS, relation="zero_out"
        )
        bound = dp.rero_bound(run, kappa=1 / CANDIDATES)
        low, high = rates.clopper_pearson(hits, arguments.runs)
        gamma = float(bound.gamma)
        rows.append(
            {
                "epsilon": epsilon,
                "success": hits / arguments.runs,
                "low": round(low, 4),
                "high": round(high, 4),
                "published_score": float(np.mean(score.argmax(axis=1) == chosen)),
                "bound": round(gamma, 4),
                "corollary_4": round(float(np.exp(bound.all["Corollary 4"])), 4),
                "violation": round(rates.violation(hits, arguments.runs, gamma), 4),
            }
        )
    print(json.dumps({"rows": rows}))
    if arguments.figure is not None:
        with files.replacing(arguments.figure) as file:
            _draw(rows).savefig(file, format="png", dpi=110)


def _draw(rows: list[dict[str, float]]) -> matplotlib.figure.Figure:
    """Bounds as lines, the attack with its intervals."""
    figure = matplotlib.figure.Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    epsilons = [row["epsilon"] for row in rows]
    axes.plot(epsilons, [r["corollary_4"] for r in rows], "--", label="Corollary 4")
    axes.plot(epsilons, [r["bound"] for r in rows], "k", label="tight bound")
    success = np.array([row["success"] for row in rows])
    spread = [
        success - [row["low"] for row in rows],
        [row["high"] for row in rows] - success,
    ]
    axes.errorbar(
        epsilons, success, yerr=spread, fmt="o", capsize=3, label="prior-aware attack"
    )
    axes.axhline(1 / CANDIDATES, color="grey", linewidth=0.8, label="kappa = 1/8")
    axes.set_xscale("log")
    axes.set_ylim(0, 1.03)
    axes.set_xlabel(f"epsilon at delta = {DELTA:g}")
    axes.set_ylabel("targets identified")
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
