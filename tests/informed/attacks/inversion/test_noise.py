"""Whitening against dense covariances."""

import numpy as np
import pytest
from sklearn import covariance

from informed.attacks.inversion import weight_noise as noises


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
    noise = noises.estimate(samples, slopes, averaged=len(samples))
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
    noise = noises.estimate(samples, np.eye(6)[:, :3], averaged=len(samples))
    assert np.isfinite(noise.whiten(rng.normal(size=6))).all()


def test_correlated_noise_is_white(rng):
    """Against a dense inverse covariance; opposite and several differences too."""
    samples, deviations = rng.normal(size=(12, 30)), rng.uniform(0.1, 2, size=30)
    noise = noises.correlated(samples * deviations, deviations)
    inner = noise.rest * np.eye(30) + (noise.onto * noise.variances) @ noise.onto.T
    dense = deviations[:, None] * inner * deviations
    differences = rng.normal(size=(3, 30))
    white = noise.whiten(differences)
    np.testing.assert_allclose(
        white @ white.T, differences @ np.linalg.solve(dense, differences.T), atol=1e-9
    )
    np.testing.assert_allclose(noise.onto.T @ noise.onto, np.eye(12), atol=1e-9)


def test_few_strong_directions_are_told_from_the_rest(rng):
    """Planted: three directions, and a hundredth of the variance in all others."""
    mixing = np.linalg.qr(rng.normal(size=(400, 3)))[0].T
    deviations = rng.uniform(0.5, 2, size=400)

    def draw(count):
        strong = rng.normal(size=(count, 3)) @ mixing * np.sqrt(400 / 3)
        return deviations * (strong + 0.1 * rng.normal(size=(count, 400)))

    noise = noises.correlated(draw(60), deviations)
    assert 0.005 < noise.rest < 0.02
    across = rng.normal(size=400)
    across -= mixing.T @ (mixing @ across)
    along = mixing.T @ rng.normal(size=3)
    long = np.linalg.norm(noise.whiten(deviations * across)) / np.linalg.norm(across)
    short = np.linalg.norm(noise.whiten(deviations * along)) / np.linalg.norm(along)
    assert long > 30 * short
    assert 0.5 < np.mean(noise.whiten(draw(500)) ** 2) < 2


def test_no_samples_worth_the_name():
    for samples in (np.zeros((8, 5)), np.ones((1, 5))):
        noise = noises.correlated(samples, np.full(5, 2.0))
        np.testing.assert_allclose(noise.whiten(np.ones(5)), 0.5)
