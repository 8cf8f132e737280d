"""Test measured attack success against a bound, and give exact confidence intervals.

Runs (`informed.experiment.protection`), audits (`informed.audit.noise_game`), metrics,
`guessing` and `priors` call these. A trial is a fresh target, fresh noise and one
attack; thresholds and settings of the attack are fixed on other trials. A violation
beyond chance means that the bound or the noise is wrong, or that the attack knew too
much. Seeing no violation proves nothing.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import stats

from dp import domain
from dp.domain import Number


def clopper_pearson(
    successes: int, trials: int, confidence: Number = 0.95
) -> tuple[float, float]:
    """Return the two-sided exact confidence interval of a rate (Clopper, Pearson 1934).

    Raises: ValueError: successes aren't whole and in [0, trials], or confidence not in
      [0, 1].
    """
    _counted(successes, trials)
    half = (1 - float(domain.probability("confidence", confidence))) / 2
    failures, low, high = trials - successes, 0.0, 1.0
    if successes:
        low = float(stats.beta.ppf(half, successes, failures + 1))
    if failures:
        high = float(stats.beta.ppf(1 - half, successes + 1, failures))
    return low, high


def violation(successes: int, trials: int, gamma: Number) -> float:
    """Return the probability of at least so many successes if gamma bounds their rate.

    Small values speak against the bound. Over several bounds multiply by their number.

    Raises: ValueError: successes aren't whole and in [0, trials], or gamma isn't in
      [0, 1].
    """
    _counted(successes, trials)
    gamma = float(domain.probability("gamma", gamma))
    return float(stats.binom.sf(successes - 1, trials, gamma))


def _counted(successes: int, trials: int) -> None:
    """Raise FieldError unless 0 <= successes <= trials, both whole, trials >= 1."""
    domain.integer("trials", trials, 1)
    domain.integer("successes", successes, 0)
    most = f"<= {trials}, the number of trials"
    domain.require("successes", successes, successes <= trials, most)


def roc_violations(
    positives: Float[np.ndarray, " trials"],
    negatives: Float[np.ndarray, " others"],
    gamma_of: Callable[[float], float],
    thresholds: Float[np.ndarray, " thresholds"],
    *,
    confidence: Number = 0.95,
) -> Float[np.ndarray, " violated"]:
    """Return the thresholds at which true positives are too many for the false ones.

    Needs no kappa: the attack's false-positive rate takes its place.

    Args:
      positives: scores of the attack, higher for nearer, on models that were trained
        with the target.
      negatives: scores of fresh targets against models of the reference: trained with
        the target's gradient zeroed ("zero_out"), without it ("add_or_remove"; the same
        where others stay in their batches, but not with batches of fixed size, where
        another record fills its slot), or on another draw of the prior ("replace_one");
        `gamma_of` has to hold for that relation and for tests: 1 - tradeoff.
      gamma_of: false-positive rate -> the largest true-positive rate.
      thresholds: thresholds on the scores, fixed before looking at them.
      confidence: the probability that nothing is reported where nothing is violated,
        over all thresholds; in [0, 1].
    Raises: ValueError: a score or threshold is NaN (an attempt that failed scores
      -inf), there are no scores, or gamma_of gives no probability.
    """
    level = 1 - (1 - float(domain.probability("confidence", confidence))) / max(
        1, len(thresholds)
    )
    failed = " (-inf for an attempt that failed)"
    positives = domain.some("positives", _no_nan("positives", positives, failed))
    negatives = domain.some("negatives", _no_nan("negatives", negatives, failed))
    thresholds = _no_nan("thresholds", thresholds)
    violated = []
    for threshold in thresholds:
        true = int(np.sum(positives >= threshold))
        false = int(np.sum(negatives >= threshold))
        low, _ = clopper_pearson(true, len(positives), level)
        _, high = clopper_pearson(false, len(negatives), level)
        if low > domain.probability("gamma_of(rate)", gamma_of(high)):
            violated.append(threshold)
    return np.array(violated, float)


def _no_nan(field: str, given: np.ndarray, instead: str = "") -> np.ndarray:
    values = domain.numbers(field, given)
    domain.require(field, values, ~np.isnan(values), f"to be no NaN{instead}")
    return values
