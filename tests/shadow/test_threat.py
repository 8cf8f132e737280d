"""Publishing is the developer's act: what the view leaves out is not in the release."""

import dataclasses

import jax
import numpy as np
import pytest

import shadow
from shadow import rounding
from shadow.victims import Slice
from shadow.views import ViewConfig


@pytest.fixture(scope="module")
def weights(victim):
    rng = np.random.default_rng(0)
    return rng.standard_normal((4, victim.num_params)).astype(np.float32)


def arrays(value, seen=None):
    """Every array that can be reached from a value: fields, closures, tuples, dicts."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray | jax.Array):
        yield value
        return
    parts = []
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, tuple | list):
        parts = list(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = list(vars(value).values())
    elif getattr(value, "__closure__", None):
        parts = [cell.cell_contents for cell in value.__closure__]
    for part in parts:
        yield from arrays(part, seen)


@pytest.mark.parametrize("queries", ["images", "components"])
def test_a_black_box_release_holds_no_weights(queries, victim, weights, digits):
    config = ViewConfig(kind="logits", probes=6, queries=queries)
    view = config.view(victim, digits.images)
    view(weights)  # whatever it keeps, it keeps now
    release = shadow.publish(weights, view)
    found = list(arrays(release))
    assert any(each is release.values for each in found), "the search sees fields"
    scalars = np.concatenate([np.ravel(each) for each in found])
    assert not np.isin(weights, scalars).any()
    with pytest.raises(ValueError, match="all weights, got one of logits on 6 queries"):
        _ = release.weights


def test_a_layer_holds_no_other_layer(victim, weights):
    view = shadow.Layers.of(victim.layout, ("output",))
    release = shadow.publish(weights, view)
    left_out = np.setdiff1d(np.arange(victim.num_params), view.columns)
    assert len(left_out) > 100
    scalars = np.concatenate([np.ravel(each) for each in arrays(release)])
    assert not np.isin(weights[:, left_out], scalars).any()
    np.testing.assert_array_equal(release.values, weights[:, view.columns])


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8"])
def test_fewer_bits_are_published_with_their_deviations(precision, victim, weights):
    view = ViewConfig(precision=precision).view(victim, np.empty((0, 8, 8, 1)))
    release = shadow.publish(weights, view)
    errors = release.weights - weights
    assert 0.5 < errors.std() / release.deviations.mean() < 2
    assert len(np.unique(release.weights)) < len(np.unique(weights))
    part = ViewConfig(precision=precision, layers=("output",))
    some = shadow.publish(weights, part.view(victim, np.empty((0, 8, 8, 1))))
    columns = some.view.columns
    np.testing.assert_array_equal(some.values, release.values[:, columns])
    np.testing.assert_array_equal(some.deviations, release.deviations[:, columns])
    exact = shadow.Layers.of(victim.layout, ("output",))
    assert some.view.fingerprint() != exact.fingerprint()


def test_an_array_without_entries_is_rounded_too():
    assert rounding.FORMATS["int8"](np.zeros((3, 0), np.float32))[0].shape == (3, 0)


@pytest.mark.parametrize("form", sorted(rounding.FORMATS))
def test_deviations_follow_from_what_is_published(rng, form):
    """Rounding what is rounded changes nothing: nor may what is said of it."""
    weights = rng.normal(size=(5, 64)).astype(np.float32)
    layout = (Slice(name="w", start=0, stop=64, shape=(64,)),)
    published, deviations = rounding.rounded(weights, form, layout)
    again, of_published = rounding.rounded(published, form, layout)
    np.testing.assert_allclose(again, published, rtol=1e-6)
    np.testing.assert_allclose(of_published, deviations, rtol=1e-6)


def test_rounding_needs_to_know_the_arrays(rng):
    view = shadow.Layers(precision="float16")
    with pytest.raises(shadow.checks.FieldError, match="layout of the 64 parameters"):
        view(rng.normal(size=(5, 64)).astype(np.float32))
