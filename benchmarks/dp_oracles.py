"""Random mechanisms of `dp` against oracles that share no code with it: one JSON line.

    python -m benchmarks.dp_oracles [--many 600] [--seed 1] [--times]

Of each mechanism the likelihood ratio of training with the target over training without
is drawn at random. A test at a threshold on it has true and false positives, of which
exact binomial intervals are known: gamma at the false ones can't be less than the true
ones (nor 1 - tradeoff, which isn't gamma where a test sees the batches and a guess
doesn't depend on them), nor delta at an epsilon less than true - e^epsilon false, in
either direction.
`below_truth` counts where it is, at a level at which one in a million would be by
chance; `loosest` is gamma over the share of true positives: median and worst by kind.
Of ApproximateDP, PureDP, RenyiDP and ZeroConcentratedDP it is the law of one mechanism
that has them. --times adds times of the bound, epsilon and calibration of an example.
"""

import argparse
import json
import math
import secrets
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import dp
from dp import rates

DRAWS, LEVEL = 20_000, 1 - 1e-9
Losses = Callable[
    [bool], np.ndarray
]  # whether with the target -> log likelihood ratios


def gaussian(rng: np.random.Generator, mu: float | np.ndarray) -> Losses:
    """Losses of N(mu, 1) over N(0, 1)."""
    return lambda present: mu * (rng.normal(size=DRAWS) + mu * (present - 0.5))


def steps_of(
    rng: np.random.Generator, sigma: float, shape: tuple[int, int], taken: Callable
) -> Callable[[bool], np.ndarray]:
    """Exponents (x - 1/2) / sigma^2 of each step, where `taken` says who takes part."""

    def draw(present: bool) -> np.ndarray:
        part = taken((DRAWS, *shape)) if present else 0.0
        return (rng.normal(size=(DRAWS, *shape)) * sigma + part - 0.5) / sigma**2

    return draw


def mechanism(rng: np.random.Generator, kind: str) -> tuple[dp.Guarantee, Losses]:
    """Draw a mechanism of a kind, and how its losses are drawn."""
    sigma, steps = float(np.exp(rng.uniform(-1, 1.6))), int(rng.integers(1, 30))
    epochs, q = int(rng.integers(1, 4)), float(rng.uniform(0.02, 0.9))
    zero = {"relation": "zero_out"}
    noise: dict[str, Any] = {"noise_multiplier": sigma, "steps": steps} | zero
    sampled = noise | {"sampling_probability": q}
    mu = math.sqrt(steps) / sigma
    pairs = steps_of(rng, sigma, (1, steps), lambda shape: rng.random(shape) < q)
    if kind == "Gaussian":
        return dp.Gaussian(**noise), gaussian(rng, mu)
    if kind == "PoissonGaussian":
        return dp.PoissonGaussian(**sampled), lambda present: np.logaddexp(
            np.log1p(-q), np.log(q) + pairs(present)
        ).sum(axis=(1, 2))
    if kind == "RandomAllocation":
        first = np.arange(steps) == 0
        joined = steps_of(rng, sigma, (epochs, steps), lambda shape: first)
        return dp.RandomAllocation(epochs=epochs, **noise), lambda present: (
            special.logsumexp(joined(present), axis=2) - math.log(steps)
        ).sum(axis=1)
    if kind == "RevealedGaussian":
        return dp.RevealedGaussian(**sampled), lambda present: gaussian(
            rng, np.sqrt(rng.binomial(steps, q, DRAWS)) / sigma
        )(present)
    if (
        kind == "FixedSizeGaussian"
    ):  # the others' gradients are opposite to the target's
        half = steps_of(
            rng, sigma / 2, (1, steps), lambda shape: rng.random(shape) < 0.2
        )
        fixed = dp.FixedSizeGaussian(
            records=20, batch=4, **(noise | {"relation": "add_or_remove"})
        )
        return fixed, lambda present: np.logaddexp(
            np.log(0.8), np.log(0.2) + half(present)
        ).sum(axis=(1, 2))
    if kind in ("RenyiDP", "ZeroConcentratedDP"):
        orders = tuple(np.geomspace(1.05, 200, 60).tolist())
        curve = tuple(a * mu**2 / 2 for a in orders)
        held = {
            "RenyiDP": lambda: dp.RenyiDP(orders=orders, epsilons=curve, **zero),
            "ZeroConcentratedDP": lambda: dp.ZeroConcentratedDP(rho=mu**2 / 2, **zero),
        }
        return held[kind](), gaussian(rng, mu)
    eps = float(np.exp(rng.uniform(-2, 2)))
    if kind in ("Laplace", "LossDistribution"):
        from dp_accounting.pld import privacy_loss_distribution as pld

        def laplace(present: bool) -> np.ndarray:
            seen = rng.laplace(float(present), 1 / eps, DRAWS)
            return eps * (np.abs(seen) - np.abs(seen - 1))

        if kind == "Laplace":
            return dp.Laplace(eps=eps, **zero), laplace
        made = pld.from_laplace_mechanism(1 / eps, value_discretization_interval=1e-3)
        return dp.LossDistribution(distribution=made, **zero), laplace
    failing = 0.0 if kind == "PureDP" else float(rng.uniform(0, 0.3))

    def response(present: bool) -> np.ndarray:
        """Randomised response, which gives itself away with probability `failing`."""
        right = rng.random(DRAWS) < 1 / (1 + math.exp(-eps))
        losses = np.where(right == present, eps, -eps)
        return np.where(
            rng.random(DRAWS) < failing, np.inf if present else -np.inf, losses
        )

    if kind == "PureDP":
        return dp.PureDP(eps=eps, **zero), response
    return dp.ApproximateDP(epsilons=eps, deltas=failing, **zero), response


KINDS = [
    *("Gaussian", "PoissonGaussian", "RandomAllocation", "RevealedGaussian"),
    *("FixedSizeGaussian", "RenyiDP", "ZeroConcentratedDP", "Laplace"),
    *("LossDistribution", "PureDP", "ApproximateDP"),
]


def check(rng: np.random.Generator, kind: str) -> tuple[bool, float]:
    """Return whether nothing is below the truth, and gamma over the true positives."""
    run, losses = mechanism(rng, kind)
    at = float(np.quantile(losses(False), rng.choice([0.5, 0.9, 0.99])))
    found = {present: losses(present) for present in (False, True)}

    def share(present: bool, least: float, sign: int = 1) -> tuple[float, ...]:
        many = int(np.sum(sign * found[present] > least))
        return *rates.clopper_pearson(many, DRAWS, LEVEL), many / DRAWS

    low, _, true = share(True, at)
    _, high, false = share(False, at)
    good = float(run.tradeoff(high)) <= 1 - low
    gamma = 1 - float(run.tradeoff(max(false, 1e-9)))
    if kind not in ("RevealedGaussian", "FixedSizeGaussian"):
        good &= float(dp.rero_bound(run, kappa=high).gamma) >= low
    epsilon = float(np.exp(rng.uniform(-3, 1.5)))
    delta = run.delta(epsilon)
    for with_target, sign in ((True, 1), (False, -1)):  # and both directions
        low, _, _ = share(with_target, epsilon, sign)
        _, high, _ = share(not with_target, epsilon, sign)
        good &= delta >= low - math.exp(epsilon) * high
    if 1e-10 < delta < 1:  # and back
        good &= math.isclose(run.delta(run.epsilon(delta)), delta, rel_tol=1e-3)
    return bool(good), gamma / true if false > 0.005 else math.nan


def times() -> dict[str, float]:
    """Seconds of the example, dp-accounting's beside ours in turns."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    batches = {
        way: dp.Batches(records=60_000, batch=256, epochs=15, sampling=way)
        for way in ("poisson", "allocation")
    }
    run = batches["poisson"].mechanism(noise_multiplier=1.1, relation="zero_out")
    run.epsilon(0.1)  # imports

    def theirs() -> float:
        one = pld.from_gaussian_mechanism(
            1.1,
            value_discretization_interval=2e-4,
            log_mass_truncation_bound=-50,
            sampling_prob=run.sampling_probability,
        )
        return one.self_compose(run.steps, 1e-15).get_epsilon_for_delta(1e-5)

    def ours() -> float:
        dp.poisson._losses.cache_clear()
        return run.epsilon(1e-5)

    calls: dict[str, Callable[[], Any]] = {"theirs": theirs, "ours": ours}
    for way, drawn in batches.items():
        calls[f"calibrate {way}"] = lambda drawn=drawn: dp.calibrate(
            0.02, kappa=0.01, batches=drawn, relation="zero_out"
        )
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(3):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            spent[name].append(time.perf_counter() - start)
    return {name: round(min(s), 3) for name, s in spent.items()}


def main() -> None:
    """Draw, check, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", type=int, default=600)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--times", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    kinds = [KINDS[i % len(KINDS)] for i in range(arguments.many)]
    results = [(kind, *check(rng, kind)) for kind in kinds]
    loosest = {
        kind: {
            "median": round(
                float(np.nanmedian([r[2] for r in results if r[0] == kind])), 4
            ),
            "worst": round(
                float(np.nanmax([r[2] for r in results if r[0] == kind])), 3
            ),
        }
        for kind in KINDS
    }
    line = {
        "seed": arguments.seed,
        "mechanisms": len(results),
        "below_truth": [row[0] for row in results if not row[1]],
        "loosest": loosest,
    }
    print(json.dumps(line | ({"seconds": times()} if arguments.times else {})))


if __name__ == "__main__":
    main()
