import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.neighbors import NearestNeighbors

from informed import metrics
from informed.metrics import pixels


def images(rng, count):
    return rng.random((count, 5, 4, 3), dtype=np.float32)


def test_mse_by_hand():
    targets = np.zeros((2, 1, 2, 1), np.float32)
    guesses = np.array([[0.5, 0], [1, 1]], np.float32).reshape(2, 1, 2, 1)
    np.testing.assert_allclose(metrics.mse(targets, guesses), [0.125, 1])
    with pytest.raises(ValueError, match=r"shape \(2, 1, 2, 1\), got \(1, 1, 2, 1\)"):
        metrics.mse(targets, guesses[:1])


@pytest.mark.parametrize("block", [1, 7, 64])
def test_the_oracle_against_scikit_learn(rng, block, monkeypatch):
    targets, pool = images(rng, 30), images(rng, 200)
    monkeypatch.setattr(pixels, "_BLOCK", block)
    found = metrics.nearest_neighbours(targets, pool)
    search = NearestNeighbors(n_neighbors=200).fit(pool.reshape(200, -1))
    distances, indices = search.kneighbors(targets.reshape(30, -1))
    every = distances**2 / 60
    np.testing.assert_array_equal(found.index, indices[:, 0])
    np.testing.assert_allclose(found.mse, every[:, 0], rtol=1e-5)
    np.testing.assert_allclose(
        found.percentiles, np.percentile(every, (1, 10, 50), axis=1).T, rtol=1e-4
    )
    assert found.histogram.sum() == pytest.approx(1)
    centres = (found.edges[1:] + found.edges[:-1]) / 2
    assert found.histogram @ centres == pytest.approx(every.mean(), rel=0.05)


def test_a_target_among_the_pool_is_its_own_neighbour(rng):
    pool = images(rng, 50)
    found = metrics.nearest_neighbours(pool[[3, 40]], pool)
    np.testing.assert_array_equal(found.index, [3, 40])
    np.testing.assert_array_equal(found.mse, 0)


@given(
    successes=st.integers(0, 40),
    failures=st.integers(0, 40),
    confidence=st.sampled_from([0.9, 0.95, 0.999]),
)
def test_success_rate_against_scipy(successes, failures, confidence):
    outcomes = np.array([True] * successes + [False] * failures)
    if not len(outcomes):
        with pytest.raises(ValueError, match="at least one trial"):
            metrics.success_rate(outcomes)
        return
    found = metrics.success_rate(outcomes, confidence=confidence)
    exact = stats.binomtest(successes, len(outcomes)).proportion_ci(confidence)
    assert found.rate == successes / len(outcomes)
    assert found.low == pytest.approx(exact.low, abs=1e-9)
    assert found.high == pytest.approx(exact.high, abs=1e-9)


def test_an_exact_copy_is_nearer_than_a_near_record(rng):
    """Far from the origin, rounded distances of both are the same number, or less."""
    pool = (1000 + rng.random((50, 4, 4, 1))).astype(np.float32)
    near = pool + np.float32(1e-3)
    found = metrics.nearest_neighbours(pool, np.concatenate([near, pool]))
    np.testing.assert_array_equal(found.index, 50 + np.arange(50))
    assert not found.mse.any()
