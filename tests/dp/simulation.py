"""The tight bound of Poisson sampling by simulation: an oracle for `dp.poisson`."""

import dataclasses
import math

import numpy as np

from dp import rates

_CHUNK = 2000  # samples in memory at a time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Simulated:
    """What simulation says of gamma.

    Attributes:
      gamma: the estimate.
      low, high: each holds with probability >= confidence.
    """

    gamma: float
    low: float
    high: float


def simulate(
    kappa: float,
    *,
    noise_multiplier: float,
    probability: float,
    steps: int,
    samples: int = 20_000,
    confidence: float = 0.999,
    rng: np.random.Generator,
) -> Simulated:
    """The tight bound by Monte Carlo, with margins that hold.

    The published estimator sorts likelihood ratios and adds up the largest, which is
    biased to the unsafe side and has no margin. Here the threshold tau of the best test
    comes from one sample, and gamma <= kappa tau + E[(1 - tau / ratio)_+] from another,
    by an empirical Bernstein bound (Maurer and Pontil 2009). Useless for kappa < 100 /
    samples.

    Source: Hayes, Mahloujifar and Balle 2023, Algorithm 2; margins derived.
    """

    def log_ratios(with_target: bool) -> np.ndarray:
        found = []
        for start in range(0, samples, _CHUNK):
            shape = (min(_CHUNK, samples - start), steps)
            seen = rng.normal(0, noise_multiplier, shape)
            if with_target:
                seen += rng.random(shape) < probability
            with np.errstate(over="ignore"):
                exponent = (seen - 0.5) / noise_multiplier / noise_multiplier
            found.append(_log_mixture(exponent, probability).sum(axis=1))
        return np.concatenate(found)

    log_tau = float(np.quantile(log_ratios(False), 1 - kappa))
    fresh = log_ratios(True)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Equal infinite ratios: the test can't tell them apart, and gains nothing.
        gaps = np.nan_to_num(log_tau - fresh, nan=0.0, neginf=-np.inf)
        base = min(1.0, float(np.exp(min(0.0, np.log(kappa) + log_tau))))
    gains = np.maximum(-np.expm1(np.minimum(gaps, 0)), 0)
    spread, logs = gains.var(ddof=1), math.log(2 / (1 - confidence))
    margin = math.sqrt(2 * spread * logs / samples) + 7 * logs / (3 * (samples - 1))
    # Below: what this threshold reaches, cut down to a false-positive rate of kappa.
    false = int(np.sum(log_ratios(False) > log_tau))
    _, rate = rates.clopper_pearson(false, samples, confidence)
    true = int(np.sum(fresh > log_tau))
    power, _ = rates.clopper_pearson(true, samples, confidence)
    return Simulated(
        gamma=float(np.clip(base + gains.mean(), kappa, 1)),
        low=float(max(kappa, power * min(1.0, kappa / rate))),
        high=float(np.clip(base + gains.mean() + margin, kappa, 1)),
    )


def _log_mixture(exponent: np.ndarray, probability: float) -> np.ndarray:
    """log(1 - q + q e^exponent), without overflow."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-probability), np.log(probability) + exponent)
