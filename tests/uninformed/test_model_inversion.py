"""Model inversion on a network whose extremes are known."""

import jax.numpy as jnp
import numpy as np
import pytest

from uninformed import max_margin, model_inversion
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
    expected = np.stack([-corner] * 3 + [corner] * 3)
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_every_class_leads_its_points(key, rng):
    weights = [rng.standard_normal(shape) for shape in ((4, 20), (20, 3))]
    network = tuple(Layer(jnp.asarray(w, jnp.float32), None) for w in weights)
    found = model_inversion.invert(InversionOfModel(count=9), network, key=key)
    outputs = np.maximum(found @ weights[0], 0) @ weights[1]
    labels = max_margin.equal_shares(9, 3)
    np.testing.assert_array_equal(outputs.argmax(axis=1), labels)


def test_first_layer_has_each_unit_both_ways_whatever_its_size(rng):
    """As large as images are: beside the mean image small weights vanish."""
    w = rng.standard_normal((400, 7)).astype(np.float32)
    points = model_inversion.first_layer((Layer(jnp.asarray(w), None),))
    assert points.shape == (14, 400)
    for unit in range(7):
        assert np.corrcoef(points[unit], w[:, unit])[0, 1] == pytest.approx(1)
        np.testing.assert_array_equal(points[7 + unit], -points[unit])
    tiny = model_inversion.first_layer((Layer(jnp.asarray(1e-3 * w), None),))
    np.testing.assert_allclose(tiny, points, rtol=1e-5)
