"""Bounds on expected errors, against simulation."""

import math

import numpy as np
import pytest

from dp import expected_error


def test_the_unbiased_attack_on_a_gaussian_release(rng):
    """theta = z + noise; z-hat = theta is unbiased and has the noise's error."""
    sigma, width = 2.0, 1.0
    error = np.mean((sigma * rng.normal(size=100_000)) ** 2)
    divergence = (width / sigma) ** 2  # Renyi, order 2, replacing 0 by 1
    bound = math.exp(expected_error.unbiased_log_mse([width], divergence))
    assert bound < error
    # Where the divergence is small the bound is nearly a quarter of it.
    assert bound == pytest.approx(error / 4, rel=0.15)
    fisher = float(expected_error.fisher_mse(1 / sigma**2, 1))
    assert fisher == pytest.approx(error, rel=0.02)


def test_no_overflow():
    assert expected_error.unbiased_log_mse(np.ones(784), 1e5) == pytest.approx(
        -1e5 - math.log(4)
    )


def test_reading_a_linear_layer(rng):
    d, mu = 20, 6.0
    x = rng.random(d)
    norm = float(np.linalg.norm(x))
    guesses = x + norm / mu * rng.normal(size=(50_000, d))
    errors = np.mean((guesses - x) ** 2, axis=1)
    for threshold in np.quantile(errors, [0.1, 0.5, 0.9]):
        found = expected_error.linear_layer_success(
            float(threshold), norm=norm, mu=mu, d=d
        )
        assert float(found) == pytest.approx(np.mean(errors <= threshold), abs=0.01)
