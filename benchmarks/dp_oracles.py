"""Random mechanisms of `dp` against oracles that share no code with it: one JSON line.

    python -m benchmarks.dp_oracles [--many 600] [--seed 1] [--times] [--games 20000]

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
--games trains that often by random allocation at each of ten noise multipliers, on one
of two records, and adds the success of the prior-aware attack beside its bound.
"""

import argparse
import dataclasses
import functools
import json
import math
import secrets
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy import special

import dp
import shadow
from benchmarks.developers import developer
from dp import allocation, poisson, rates
from dp.gradient import PrivacyConfig
from informed.attacks import prior_aware

DRAWS, LEVEL = 20_000, 1 - 1e-9
Losses = Callable[
    [bool], np.ndarray
]  # whether with the target -> log likelihood ratios


def gaussian(rng: np.random.Generator, mu: float | np.ndarray) -> Losses:
    """Losses of N(mu, 1) over N(0, 1)."""
    return lambda present: mu * (rng.normal(size=DRAWS) + mu * (present - 0.5))


def mechanism(rng: np.random.Generator, kind: str) -> tuple[dp.Guarantee, Losses]:
    """Draw a mechanism of a kind, and how its losses are drawn."""
    sigma, steps = float(np.exp(rng.uniform(-1, 1.6))), int(rng.integers(1, 30))
    epochs, q = int(rng.integers(1, 4)), float(rng.uniform(0.02, 0.9))
    zero = {"relation": "zero_out"}
    noise: dict[str, Any] = {"noise_multiplier": sigma, "steps": steps} | zero
    sampled = noise | {"sampling_probability": q}
    mu = math.sqrt(steps) / sigma

    def exponents(part: Callable, present: bool, width: float = sigma) -> np.ndarray:
        """(x - 1/2) / sigma^2 of each step, where `part` says who takes part."""
        seen = rng.normal(size=(DRAWS, epochs, steps)) * width
        return (seen + (part(seen.shape) if present else 0.0) - 0.5) / width**2

    def sampled_steps(q: float, width: float) -> Losses:
        def draw(present: bool) -> np.ndarray:
            x = exponents(lambda shape: rng.random(shape) < q, present, width)
            return np.logaddexp(np.log1p(-q), np.log(q) + x).sum(axis=(1, 2))

        return draw

    if kind == "Gaussian":
        return dp.Gaussian(**noise), gaussian(rng, mu)
    if kind == "PoissonGaussian":
        many = sampled | {"steps": epochs * steps}
        return dp.PoissonGaussian(**many), sampled_steps(q, sigma)
    if kind == "RandomAllocation":
        return dp.RandomAllocation(epochs=epochs, **noise), lambda present: np.sum(
            special.logsumexp(exponents(lambda _: np.arange(steps) == 0, present), 2)
            - math.log(steps),
            axis=1,
        )
    if kind == "RevealedGaussian":
        return dp.RevealedGaussian(**sampled), lambda present: gaussian(
            rng, np.sqrt(rng.binomial(steps, q, DRAWS)) / sigma
        )(present)
    if (
        kind == "FixedSizeGaussian"
    ):  # the others' gradients are opposite to the target's
        given = noise | {"steps": epochs * steps, "relation": "add_or_remove"}
        fixed = dp.FixedSizeGaussian(records=20, batch=4, **given)
        return fixed, sampled_steps(0.2, sigma / 2)
    if kind == "ZeroConcentratedDP":
        return dp.ZeroConcentratedDP(rho=mu**2 / 2, **zero), gaussian(rng, mu)
    if kind == "RenyiDP":
        orders = np.geomspace(1.05, 200, 60)
        curve = {"orders": tuple(orders), "epsilons": tuple(orders * mu**2 / 2)}
        return dp.RenyiDP(**curve, **zero), gaussian(rng, mu)
    eps = float(np.exp(rng.uniform(-2, 2)))
    if kind in ("Laplace", "LossDistribution"):
        from dp_accounting.pld import privacy_loss_distribution as pld

        def laplace(present: bool) -> np.ndarray:
            seen = rng.laplace(float(present), 1 / eps, DRAWS)
            return eps * (np.abs(seen) - np.abs(seen - 1))

        if kind == "Laplace":
            return dp.Laplace(eps=eps, **zero), laplace
        losses = pld.from_laplace_mechanism(1 / eps, value_discretization_interval=1e-3)
        return dp.LossDistribution(distribution=losses, **zero), laplace
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
    drawn = {present: losses(present) for present in (False, True)}

    def share(present: bool, least: float, sign: int = 1) -> tuple[float, ...]:
        many = int(np.sum(sign * drawn[present] > least))
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
    """Seconds of the example, least of three, dp-accounting's in turns with ours."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    drawn = dp.Batches(records=60_000, batch=256, epochs=15, sampling="poisson")
    run = drawn.mechanism(noise_multiplier=1.1, relation="zero_out")
    other = dataclasses.replace(drawn, sampling="allocation")
    grid = {"value_discretization_interval": 2e-4, "log_mass_truncation_bound": -50}

    def theirs() -> None:
        q = run.sampling_probability
        one = pld.from_gaussian_mechanism(1.1, sampling_prob=q, **grid)
        one.self_compose(run.steps, 1e-15).get_epsilon_for_delta(1e-5)

    least = functools.partial(dp.calibrate, 0.02, kappa=0.01, relation="zero_out")
    calls: dict[str, Callable[[], Any]] = {
        "theirs": theirs,
        "ours": lambda: run.epsilon(1e-5),
        "calibrate poisson": lambda: least(batches=drawn),
        "calibrate allocation": lambda: least(batches=other),
    }
    spent: dict[str, float] = {}
    for name in [*calls] * 3:
        for cached in (poisson._losses, allocation.losses, allocation.renyi):
            cached.cache_clear()
        start = time.perf_counter()
        calls[name]()
        spent[name] = min(spent.get(name, math.inf), time.perf_counter() - start)
    return {name: round(seconds, 3) for name, seconds in spent.items()}


def games(many: int, seed: int) -> dict[str, dict[str, float]]:
    """Train privately by allocation, and count the attack's successes.

    Digits, an affine victim, eight known records, three epochs of eight steps. `chance`
    is the probability of as many successes at a success rate of gamma.
    """
    parts = shadow.split(
        shadow.load("digits"), num_fixed=8, num_shadow=2, num_test=1, seed=seed
    )
    line = {}
    for sigma in np.geomspace(0.15, 10, 10).round(3):
        private = PrivacyConfig(
            clip_norm=0.1,
            noise_multiplier=float(sigma),
            sampling="allocation",
            sampling_probability=1 / 8,
        )
        factory = developer(
            parts.fixed,
            victim={"architecture": "affine"},
            epochs=24,
            momentum=0.0,
            privacy=private,
        )
        evidence, chosen = prior_aware.play(
            factory.descent,
            parts.fixed,
            parts.shadow,
            init=factory.descent.victim.init(jax.random.key(seed)),
            runs=many,
            key=jax.random.key(seed),
        )
        guesses = prior_aware.log_posterior(evidence, private).argmax(axis=1)
        right = int(np.sum(guesses == chosen))
        bound = dp.rero_bound(factory.mechanism(), kappa=0.5)
        line[str(sigma)] = {
            "success": right / many,
            "gamma": round(float(bound.gamma), 4),
            "chance": round(rates.violation(right, many, float(bound.gamma)), 4),
        }
    return line


def main() -> None:
    """Draw, check, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", type=int, default=600)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--games", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    kinds = [KINDS[i % len(KINDS)] for i in range(arguments.many)]
    results = [(kind, *check(rng, kind)) for kind in kinds]
    loosest = {}
    for kind in KINDS:
        ratios = [ratio for one, _, ratio in results if one == kind] or [math.nan]
        loosest[kind] = {
            "median": round(float(np.nanmedian(ratios)), 4),
            "worst": round(float(np.nanmax(ratios)), 3),
        }
    line = {
        "seed": arguments.seed,
        "mechanisms": len(results),
        "below_truth": sum(not row[1] for row in results),
        "which": sorted({row[0] for row in results if not row[1]}),
        "loosest": loosest,
    }
    if arguments.times:
        line["seconds"] = times()
    if arguments.games:
        line["games"] = games(arguments.games, arguments.seed)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
