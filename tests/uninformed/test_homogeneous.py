"""Homogeneous networks: the degree, initial values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from uninformed import homogeneous
from uninformed.homogeneous import HomogeneousConfig


@pytest.mark.parametrize("widths", [(7,), (7, 5), (6, 5, 4)])
@pytest.mark.parametrize("biases", ["none", "first"])
def test_scaling_theta_scales_outputs_by_a_power(widths, biases, key, rng):
    config = HomogeneousConfig(widths=widths, biases=biases, first_scale=0.5)
    network = homogeneous.init(config, 3, key)
    points = jnp.asarray(rng.standard_normal((11, 3)), jnp.float32)
    outputs = homogeneous.apply(network, points)
    twice = jax.tree.map(lambda leaf: 2 * leaf, network)
    scaled = homogeneous.apply(twice, points)
    np.testing.assert_allclose(scaled, 2.0 ** (len(widths) + 1) * outputs, rtol=1e-5)


def test_hidden_biases_are_not_homogeneous_and_there(key):
    network = homogeneous.init(
        HomogeneousConfig(widths=(4, 4), biases="hidden"), 3, key
    )
    assert [layer.b is None for layer in network] == [False, False, True]


def test_first_layer_starts_small_and_the_others_within_their_bound(key):
    network = homogeneous.init(HomogeneousConfig(widths=(500, 100)), 400, key)
    assert network[0].b is not None
    for leaf in (network[0].w, network[0].b):
        np.testing.assert_allclose(np.std(leaf), 1e-4, rtol=0.1)
    assert np.abs(network[1].w).max() <= 500**-0.5
    np.testing.assert_allclose(np.std(network[1].w), (500 * 3) ** -0.5, rtol=0.02)
    wide = HomogeneousConfig(widths=(500,), first_scale=None, initialiser="he_normal")
    first = homogeneous.init(wide, 400, key)[0].w
    np.testing.assert_allclose(np.std(first), (2 / 400) ** 0.5, rtol=0.02)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"widths": ()}, "Expected widths to name"),
        ({"biases": "all"}, "Expected biases to be one of"),
        ({"first_scale": 0.0}, "Expected first_scale > 0"),
        ({"initialiser": "he_normall"}, "Did you mean 'he_normal'"),
    ],
)
def test_bad_fields_are_named(fields, named):
    with pytest.raises(ValueError, match=named):
        HomogeneousConfig(**fields)


def test_it_is_a_victim_as_any_other(rng):
    """theta back and forth, and the same outputs for images as for points."""
    config = HomogeneousConfig(widths=(6, 5), outputs=3, first_scale=None)
    network = homogeneous.init(config, 12, jax.random.key(0))
    victim = homogeneous.victim(config, (4, 3, 1))
    again = victim.unflatten(victim.flatten(network))
    jax.tree.map(np.testing.assert_array_equal, again, network)
    np.testing.assert_array_equal(victim.flatten(network), ravel_pytree(network)[0])
    images = rng.random((7, 4, 3, 1)).astype(np.float32)
    np.testing.assert_array_equal(
        victim.apply(again, images),
        homogeneous.apply(network, jnp.asarray(images.reshape(7, 12))),
    )
