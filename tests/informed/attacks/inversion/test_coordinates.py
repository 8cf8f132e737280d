import numpy as np
import pytest

from informed.attacks.inversion import coordinates, gauss_newton
from informed.attacks.inversion.coordinates import principal_components


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


def _space(images, black):
    of_one = coordinates.principal_components(images)
    means = images.mean(axis=0, dtype=np.float64)[None]
    return coordinates.Space(of_one, np.zeros(1, np.int64), means, black)


def test_what_the_worst_image_would_lose(images):
    """Slopes for all components but one: each image loses its part along that one."""
    space = _space(images, np.zeros(16, bool))
    missing = space.basis[3] / np.linalg.norm(space.basis[3])
    kept = np.delete(np.eye(16), 3, axis=0)
    slopes = gauss_newton.Slopes(gauss_newton.Linearised(1e9 * np.eye(15), kept))
    flat = images.reshape(40, 16).astype(np.float64)
    lost = ((flat - flat.mean(axis=0)) @ missing)[:, None] * missing
    worst = np.mean(lost**2, axis=1).argmax()
    found = space.unseen(slopes, images)
    np.testing.assert_allclose(found.ravel(), lost[worst] ** 2, atol=1e-9)


def test_directions_of_black_pixels_are_left_out(images):
    """Four pixels never vary: as many components move nothing once they are black."""
    black = np.arange(16) < 4
    space = _space(images, black)
    slopes = gauss_newton.Slopes(gauss_newton.Linearised(np.eye(16), np.eye(16)))
    moving = space.moving(slopes)
    assert moving.directions.shape == (12, 16)
    moves = space.moves(moving.directions)
    assert moves.shape == (12, 1, 4, 4, 1)
    assert np.linalg.matrix_rank(moves.reshape(12, 16)) == 12
    # All components of a space are these directions from the beginning.
    directions, moves = space.first(16)
    np.testing.assert_allclose(directions @ directions.T, np.eye(12), atol=1e-12)
    np.testing.assert_allclose(moves, directions @ space.basis, atol=1e-12)
    assert np.linalg.matrix_rank(np.concatenate([directions, moving.directions])) == 12
    already = gauss_newton.Slopes(gauss_newton.Linearised(np.eye(12), directions))
    assert space.moving(already) is already


def test_one_known_record_tells_no_spread():
    with pytest.raises(ValueError, match="at least two known records"):
        principal_components(np.zeros((1, 2, 2, 1)))
