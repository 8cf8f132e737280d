"""Model inversion on a network whose extremes are known."""

import jax
import jax.numpy as jnp
import numpy as np

from uninformed import model_inversion
from uninformed.homogeneous import Layer
from uninformed.model_inversion import InversionOfModel


def test_extremes_of_a_linear_network_are_corners_of_the_box(key):
    """relu(w x) - relu(-w x) = w x."""
    w = jnp.array([[1.0], [-2.0], [0.5]])
    network = (
        Layer(jnp.concatenate([w, -w], axis=1), None),
        Layer(jnp.array([[1.0], [-1.0]]), None),
    )
    config = InversionOfModel(count=6, prior_weight=1000.0, steps=4000)
    found = model_inversion.invert(config, network, key=key)
    corner = np.sign(np.asarray(w)[:, 0])
    expected = np.where(found.labels[:, None] == 1, corner, -corner)
    np.testing.assert_allclose(found.points, expected, atol=0.02)
    np.testing.assert_array_equal(found.labels, [0, 0, 0, 1, 1, 1])


def test_every_class_leads_its_points(key, rng):
    weights = [rng.standard_normal(shape) for shape in ((4, 20), (20, 3))]
    network = tuple(Layer(jnp.asarray(w, jnp.float32), None) for w in weights)
    found = model_inversion.invert(InversionOfModel(count=9), network, key=key)
    outputs = np.maximum(found.points @ weights[0], 0) @ weights[1]
    np.testing.assert_array_equal(outputs.argmax(axis=1), found.labels)


def test_first_layer_has_one_image_a_unit(rng):
    w = rng.standard_normal((4, 7)).astype(np.float32)
    rows = model_inversion.first_layer((Layer(jnp.asarray(w), None),))
    np.testing.assert_array_equal(rows, w.T)
    assert jax.tree.leaves(rows)[0].shape == (7, 4)
