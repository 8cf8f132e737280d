"""Whitening against dense covariances."""

import numpy as np
import pytest
from sklearn import covariance

from informed.attacks.inversion import noise as noises


def test_independent_noise(rng):
    noise = noises.Independent(rng.uniform(0.1, 2, size=9))
    differences = rng.normal(size=(2, 3, 9))
    white = noise.whiten(differences)
    np.testing.assert_allclose(white * noise.deviations, differences)
    level = noise.levelled().deviations
    np.testing.assert_allclose(level, level[0])
    assert np.sum(level**2) == pytest.approx(np.sum(noise.deviations**2))


def test_projected_noise_is_white(rng):
    """Against scikit-learn's covariance, whitened with a dense inverse root."""
    mixing, slopes = rng.normal(size=(9, 9)), rng.normal(size=(9, 4))
    samples = rng.normal(size=(40, 9)) @ mixing
    noise = noises.estimate(samples, slopes)
    np.testing.assert_allclose(
        noise.onto @ noise.onto.T @ slopes, slopes, atol=1e-12
    )  # nothing of the slopes is lost
    along = samples @ noise.onto
    scaled = along / along.std(axis=0)
    shrunk = covariance.LedoitWolf().fit(scaled).covariance_
    shrunk = along.std(axis=0)[:, None] * shrunk * along.std(axis=0)[None] * 41 / 40
    difference = rng.normal(size=9)
    white = noise.whiten(difference)
    assert white @ white == pytest.approx(
        difference @ noise.onto @ np.linalg.solve(shrunk, noise.onto.T @ difference)
    )
    assert noise.whiten(np.stack([difference] * 3)).shape == (3, 4)


def test_directions_without_noise(rng):
    samples = np.tile(rng.normal(size=(1, 6)), (8, 1))
    samples[:, 0] += rng.normal(size=8)
    noise = noises.estimate(samples, np.eye(6)[:, :3])
    assert np.isfinite(noise.whiten(rng.normal(size=6))).all()
