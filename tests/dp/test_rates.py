"""Intervals and tests for violations."""

import numpy as np
import pytest
from scipy import stats

from dp import rates


def test_clopper_pearson_is_scipys():
    for successes, trials in [(0, 10), (3, 10), (10, 10), (37, 1000)]:
        theirs = stats.binomtest(successes, trials).proportion_ci(0.9, method="exact")
        ours = rates.clopper_pearson(successes, trials, 0.9)
        np.testing.assert_allclose(ours, theirs)


def test_power_of_the_test_for_violations(rng):
    """Twice the bound is seen in most of 300 trials, the bound itself seldom."""

    def share(rate):
        counts = rng.binomial(300, rate, 400)
        return np.mean([rates.violation(int(k), 300, 0.1) <= 0.05 for k in counts])

    assert share(0.1) <= 0.08
    assert share(0.15) == pytest.approx(0.81, abs=0.06)
    assert share(0.2) > 0.95


def test_a_roc_on_the_bound_passes_and_one_above_is_caught(rng):
    def gamma_of(mu):
        return lambda rate: float(stats.norm.cdf(stats.norm.ppf(rate) + mu))

    negatives = rng.normal(size=20_000)
    positives = rng.normal(1.5, size=20_000)
    thresholds = np.linspace(-1, 4, 20)
    assert not len(
        rates.roc_violations(positives, negatives, gamma_of(1.5), thresholds)
    )
    assert len(rates.roc_violations(positives, negatives, gamma_of(1.3), thresholds))
