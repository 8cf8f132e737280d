"""What every mechanism answers, against likelihood ratios drawn at random."""

import numpy as np
import pytest

from benchmarks import dp_oracles


@pytest.mark.parametrize("kind", dp_oracles.KINDS)
def test_no_answer_is_below_the_truth_nor_far_above(kind):
    """By exact intervals; Renyi curves alone say less of a mechanism than it does."""
    rng = np.random.default_rng(7)
    checked = [dp_oracles.check(rng, kind) for _ in range(3)]
    assert all(good for good, _ in checked)
    ratios = [ratio for _, ratio in checked if not np.isnan(ratio)]
    loose = kind in ("RenyiDP", "ZeroConcentratedDP")
    assert max(ratios, default=1.0) < (1.8 if loose else 1.15)


def test_an_answer_that_flatters_is_caught(monkeypatch):
    """Half of the noise is accounted for as if it were all."""
    import dp

    monkeypatch.setattr(dp.Gaussian, "mu", property(lambda run: 0.5))
    rng = np.random.default_rng(7)
    assert not all(dp_oracles.check(rng, "Gaussian")[0] for _ in range(5))
