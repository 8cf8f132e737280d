"""Measured success against bounds: exact intervals, and tests for violations.

A trial is a fresh target, fresh noise and one attack; thresholds and settings of the
attack are fixed on other trials. A violation means that the bound, the noise or the
attack's honesty is wrong. None proves nothing.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy import stats

from dp import checks
from dp.checks import Number


def clopper_pearson(
    successes: int, trials: int, confidence: Number = 0.95
) -> tuple[float, float]:
    """Two-sided exact confidence interval of a rate (Clopper and Pearson 1934).

    Raises: ValueError: successes aren't whole and in [0, trials], or confidence not in
      [0, 1].
    """
    _counted(successes, trials)
    half = (1 - float(checks.probability("confidence", confidence))) / 2
    low = stats.beta.ppf(half, successes, trials - successes + 1) if successes else 0.0
    high = (
        stats.beta.ppf(1 - half, successes + 1, trials - successes)
        if successes < trials
        else 1.0
    )
    return float(low), float(high)


def violation(successes: int, trials: int, gamma: Number) -> float:
    """The probability of at least so many successes if gamma bounds their rate.

    Small values speak against the bound. Over several bounds multiply by their number.

    Raises: ValueError: successes aren't whole and in [0, trials], or gamma isn't in
      [0, 1].
    """
    _counted(successes, trials)
    gamma = float(checks.probability("gamma", gamma))
    return float(stats.binom.sf(successes - 1, trials, gamma))


def _counted(successes: int, trials: int) -> None:
    """Raises ValueError unless 0 <= successes <= trials, both whole, trials >= 1."""
    checks.whole("trials", trials, 1)
    checks.whole("successes", successes, 0)
    most = f"<= {trials}, the number of trials"
    checks.require("successes", successes, successes <= trials, most)


def roc_violations(
    positives: Float[np.ndarray, " trials"],
    negatives: Float[np.ndarray, " others"],
    gamma_of: Callable[[float], float],
    thresholds: Float[np.ndarray, " thresholds"],
    *,
    confidence: Number = 0.95,
) -> Float[np.ndarray, " violated"]:
    """Thresholds at which true positives are too many for the false positives.

    Needs no kappa: it is the attack's own false-positive rate.

    Args:
      positives: scores of the attack, higher for nearer, of models trained on their own
        target.
      negatives: scores of fresh targets against models of the reference: trained with
        the target's gradient zeroed or without it ("zero_out"), or on another draw of
        the prior ("replace_one"); `gamma_of` has to be of that relation.
      gamma_of: false-positive rate -> the largest true-positive rate.
      thresholds: thresholds on the scores, fixed before looking at them.
      confidence: the probability that nothing is reported where nothing is violated,
        over all thresholds; in [0, 1].
    Raises: ValueError: a score or threshold is NaN (an attempt that failed scores
      -inf), there are no scores, or gamma_of gives no probability.
    """
    level = 1 - (1 - float(checks.probability("confidence", confidence))) / max(
        1, len(thresholds)
    )
    positives, negatives = (
        _scores("positives", positives),
        _scores("negatives", negatives),
    )
    thresholds = checks.numbers("thresholds", thresholds)
    checks.require("thresholds", thresholds, ~np.isnan(thresholds), "to be no NaN")
    found = []
    for threshold in thresholds:
        true, false = (
            int(np.sum(positives >= threshold)),
            int(np.sum(negatives >= threshold)),
        )
        low, _ = clopper_pearson(true, len(positives), level)
        _, high = clopper_pearson(false, len(negatives), level)
        if low > checks.probability("gamma_of(rate)", gamma_of(high)):
            found.append(threshold)
    return np.array(found, float)


def _scores(field: str, scores: Float[np.ndarray, " trials"]) -> np.ndarray:
    """As float64. Raises ValueError where there are none, or one is NaN."""
    found = checks.some(field, checks.numbers(field, scores))
    good = ~np.isnan(found)
    checks.require(field, found, good, "to be no NaN (-inf for an attempt that failed)")
    return found
