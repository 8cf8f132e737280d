"""Levels of digital images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informed.attacks.inversion import pixel_levels as levels


@pytest.mark.parametrize("steps", [1, 3, 16, 255])
def test_the_fewest_levels_are_found(steps):
    images = np.arange(steps + 1, dtype=np.float32).reshape(1, -1, 1, 1) / steps
    assert levels.above_zero(images) == steps


@pytest.mark.parametrize(
    "images",
    [
        np.random.default_rng(0).random((2, 4, 4, 1)),
        np.array([[0.0, 1 / np.pi]]),
        np.array([[-1.0, 1.0]]),
        np.array([[0.0, 2.0]]),
    ],
)
def test_images_without_levels_have_none(images):
    assert levels.above_zero(images) is None


@given(st.integers(1, 255), st.integers(0, 2**32 - 1))
def test_what_is_nearer_than_half_a_level_is_made_right(steps, seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, steps + 1, (5, 5)) / steps
    guess = truth + rng.uniform(-0.49, 0.49, truth.shape) / steps
    np.testing.assert_array_equal(levels.nearest(guess, steps), truth)


def test_levels_are_suggested_by_nearness_that_chance_does_not_bring():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 256, (28, 28, 1)) / 255
    assert levels.suggested(truth + rng.normal(0, 0.0004, truth.shape), 255)
    assert not levels.suggested(truth + rng.normal(0, 0.01, truth.shape), 255)


def test_chance_is_that_of_random_pixels():
    """How often a few pixels anywhere come as near to levels as they do here."""
    rng = np.random.default_rng(0)
    images, free = np.array([0.3, 0.26, 0.9, 0.51]), np.array([True, True, False, True])
    farthest = np.abs(images * 10 - np.round(images * 10))[free].max()
    others = rng.random((200_000, 3)) * 10
    near = (np.abs(others - np.round(others)) <= farthest).all(axis=1)
    assert np.exp(levels.chance(images, 10, free)) == pytest.approx(
        near.mean(), rel=0.05
    )
    assert levels.chance(images, 10, ~(free | True)) == 0


def test_expected_error_is_that_of_simulated_answers():
    rng = np.random.default_rng(0)
    variances = np.array([0.01, 0.02, 0.03]) ** 2
    truth = rng.integers(0, 17, (200_000, 3)) / 16
    answers = np.round((truth + rng.normal(0, np.sqrt(variances), truth.shape)) * 16)
    error = np.mean((answers / 16 - truth) ** 2)
    assert levels.expected_mse(variances, 16) == pytest.approx(error, rel=0.03)


@pytest.mark.parametrize("off", [0.0, 0.06, 0.2])
def test_offsets_agree_with_the_errors_or_the_truth_is_beside(off):
    """A truth beside the levels is told from one on them, if errors are smaller."""
    rng = np.random.default_rng(0)
    deviations = np.full((8, 8), 0.02 / 16)
    for _ in range(200):
        truth = (rng.integers(0, 16, (8, 8)) + off) / 16
        answer = truth + rng.normal(0, deviations)
        assert levels.agree(answer, deviations**2, 16) == (off == 0)
