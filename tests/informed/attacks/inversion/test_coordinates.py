import numpy as np
import pytest

from informed.attacks.inversion import coordinates


@pytest.fixture
def images(rng):
    images = rng.random((40, 4, 4, 1), dtype=np.float32)
    images[:, 0] = 0  # pixels that never vary
    return images


def test_there_and_back(images, rng):
    made = coordinates.principal_components(images)
    others = rng.random((2, 3, 4, 4, 1))  # with values where public images have none
    u = made.of(others)
    assert u.shape == (2, 3, 16)
    np.testing.assert_allclose(made.images(u), others, atol=1e-12)
    np.testing.assert_allclose(
        made.images(np.zeros(16)), images.mean(axis=0), atol=1e-6
    )
    assert np.linalg.matrix_rank(made.basis) == 16


def test_public_images_are_standard_normal_in_components(images):
    u = coordinates.principal_components(images).of(images)
    np.testing.assert_allclose(np.cov(u[:, :12], rowvar=False), np.eye(12), atol=1e-9)
    np.testing.assert_allclose(u[:, 12:], 0, atol=1e-9)
