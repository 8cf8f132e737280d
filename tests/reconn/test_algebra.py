"""What an accelerator computes is what NumPy does; both on this CPU."""

import numpy as np
import pytest

from reconn import algebra, kernel
from reconn.kernel import Kernel
from shadow import devices


@pytest.fixture
def on_device(accelerator, monkeypatch):
    monkeypatch.setattr(algebra, "_is_faster", lambda: True)
    monkeypatch.setattr(algebra, "_LITTLE", 0)


@pytest.fixture
def matrix(rng):
    factors = rng.standard_normal((40, 60))
    return factors @ factors.T / 60 + 0.1 * np.eye(40)


def test_inverse_and_solution(on_device, matrix, rng):
    values = rng.standard_normal((40, 3))
    identity = algebra.inverse(matrix) @ matrix
    np.testing.assert_allclose(identity, np.eye(40), atol=1e-12)
    np.testing.assert_allclose(
        matrix @ algebra.solve(matrix.copy(), values), values, atol=1e-12
    )
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        algebra.inverse(np.zeros((3, 3)))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        algebra.solve(-matrix, values)


def test_products_are_in_full_float32(on_device, rng):
    left, right = (rng.standard_normal((n, 300), np.float32) for n in (5, 7))
    exact = left.astype(float) @ right.T.astype(float)
    np.testing.assert_allclose(algebra.products(left, right), exact, atol=1e-4)


def test_the_regression_is_the_same(on_device, rng, digits, monkeypatch):
    images = digits.images[:400]
    mixing = rng.normal(size=(64, 30)).astype(np.float32)
    features = images.reshape(400, -1) @ mixing
    seen, unseen = slice(0, 350), slice(350, None)
    data = features, images, digits.labels[:400]

    def guesses():
        fitted, _ = kernel.fit(
            *(part[seen] for part in data),
            Kernel(),
            validation=tuple(part[unseen] for part in data),
            progress=False,
        )
        return fitted(features[unseen])

    there = guesses()
    monkeypatch.setattr(devices, "cache_bound", lambda: True)
    np.testing.assert_allclose(there, guesses(), atol=1e-4)


def test_numpy_does_it_where_the_device_is_slower_or_full(matrix, monkeypatch):
    monkeypatch.setattr(algebra, "_in_float64", None)
    algebra.inverse(matrix)  # on a CPU
    with devices.as_on_an_accelerator(1 << 40):
        algebra.inverse(matrix)  # too small to be worth compiling for
    monkeypatch.setattr(algebra, "_LITTLE", 0)
    for free, faster in ((1 << 10, True), (1 << 40, False)):
        monkeypatch.setattr(algebra, "_is_faster", lambda faster=faster: faster)
        with devices.as_on_an_accelerator(free):
            algebra.inverse(matrix)
