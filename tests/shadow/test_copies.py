"""Copies: images that are equal as numbers, and such as are nearly so."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shadow
from informed import metrics
from shadow import data


def pictures(images, classes=2):
    images = np.asarray(images, np.float32)
    return data.Examples(
        images=images, labels=np.arange(len(images)) % classes, num_classes=classes
    )


@pytest.fixture
def twice(rng):
    """Fifty images with zeros in them, and the same with minus zeros."""
    images = np.where(rng.random((50, 4, 4, 1)) < 0.5, 0, rng.random((50, 4, 4, 1)))
    images = images.astype(np.float32)
    return np.concatenate([images, np.where(images == 0, np.float32(-0.0), images)])


def test_zero_and_minus_zero_are_one_number(twice):
    parts = data.split(
        pictures(twice), num_fixed=25, num_shadow=10, num_test=15, seed=0
    )
    assert parts.dropped == 50
    for i, target in enumerate(parts.test.images):
        for part in (parts.fixed, parts.shadow):
            assert not (part.images == target).all(axis=(1, 2, 3)).any(), i
    with pytest.raises(ValueError, match="it has 50"):
        data.split(pictures(twice), num_fixed=25, num_shadow=11, num_test=15, seed=0)
    with pytest.raises(ValueError, match=r"50 of 50 test targets.*such as target 0"):
        metrics.refuse_leaks(twice[:50], twice[50:])


def test_shadows_of_another_pool_are_no_copies(twice):
    own, other = pictures(twice[:50]), pictures(twice[50:])
    with pytest.raises(ValueError, match="it has 10"):
        data.split(
            own, num_fixed=30, num_shadow=11, num_test=10, seed=0, shadow_pool=other
        )
    parts = data.split(
        own, num_fixed=30, num_shadow=10, num_test=10, seed=0, shadow_pool=other
    )
    assert parts.dropped == 40


@settings(max_examples=40)
@given(
    side=st.integers(1, 6),
    noise=st.sampled_from([0, 1e-4, 9e-4, 1.1e-3, 1e-2, 0.1]),
    seed=st.integers(0, 99),
)
def test_near_copies_are_those_of_a_loop(side, noise, seed):
    rng = np.random.default_rng(seed)
    others = rng.random((40, side, side, 1), np.float32)
    signs = rng.choice([-1, 1], others[:9].shape)
    targets = np.concatenate([others[:9] + np.float32(noise) * signs, others[9:11]])
    targets = targets.astype(np.float32)
    copies = metrics.nearest_neighbours(targets, others).copies
    wide = targets.astype(np.float64)[:, None] - others[None]
    distances = np.mean(wide**2, axis=(2, 3, 4)).min(axis=1)
    np.testing.assert_array_equal(copies["exact"], distances == 0)
    np.testing.assert_array_equal(copies["near"], (distances > 0) & (distances < 1e-6))


def test_copies_are_found_in_bright_pictures_and_in_time(rng):
    """Large norms cancel in float32; 20,000 pictures of 784 pixels."""
    others = 1 - 0.05 * rng.random((20_000, 28, 28, 1), np.float32)
    targets = others[::400].copy()
    targets[:25] += rng.choice(np.float32([-9e-4, 9e-4]), targets[:25].shape)
    targets[25:40] += rng.choice(np.float32([-1.1e-3, 1.1e-3]), targets[25:40].shape)
    started = time.process_time()
    copies = metrics.nearest_neighbours(targets, others).copies
    assert time.process_time() - started < 10
    assert int(copies["exact"].sum()) == 10
    np.testing.assert_array_equal(np.flatnonzero(copies["near"]), np.arange(25))


def test_a_pool_without_copies_drops_nothing(digits):
    parts = shadow.split(digits, num_fixed=50, num_shadow=50, num_test=50, seed=0)
    distinct = {image.tobytes() for image in digits.images}
    assert parts.dropped == len(digits) - len(distinct)
