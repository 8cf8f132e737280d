"""The span of the first layer of networks: what the attack needs to be told."""

import jax
import jax.numpy as jnp
import pytest

import informed
import shadow
from informed.attacks.attack_row import NotApplicableError
from informed.attacks.span import SpanAttack
from shadow import publish
from tests.informed.developers import developer, parts_of

KEY = jax.random.key(0)


def test_span_needs_to_be_told_where_training_began(digits):
    parts = parts_of(digits, fixed=40)
    for initialisation, reads in (("shared", True), ("random", False)):
        factory = developer(parts, epochs=5, initialisation=initialisation)
        release = publish(factory.train(parts.test))
        told = factory.knowledge(public=parts.shadow)
        if reads:
            found = SpanAttack()(release, told, key=KEY)
            assert informed.mse(parts.test.images, found.images).max() < 1e-6
        else:
            with pytest.raises(NotApplicableError, match="begins where nobody told"):
                SpanAttack()(release, told, key=KEY)


def test_span_takes_a_function_whose_key_decides_nothing(digits):
    parts = parts_of(digits, fixed=40)

    def train(images, labels, key):
        x = images.reshape(len(images), -1)

        def step(w, _):
            slope = x.T @ (jax.nn.softmax(x @ w) - jax.nn.one_hot(labels, 10))
            return w - 0.5 * slope / len(x), None

        return jax.lax.scan(step, jnp.zeros((64, 10)), length=5)[0]

    algorithm = shadow.JaxFunction(train=train, version="1", key_is_public=False)
    factory = shadow.Factory(
        algorithm=algorithm, fixed=parts.fixed, key=KEY, role="released", width=2
    )
    told = factory.knowledge(public=parts.shadow)
    assert told.training_key is None
    found = SpanAttack()(publish(factory.train(parts.test)), told, key=KEY)
    assert informed.mse(parts.test.images, found.images).max() < 1e-6


def test_span_looks_past_copies_among_the_first_records(digits):
    parts = parts_of(digits, fixed=40)
    images, labels = parts.fixed.images.copy(), parts.fixed.labels.copy()
    images[1], labels[1] = images[0], labels[0]
    fixed = shadow.Examples(images=images, labels=labels, num_classes=10)
    factory = developer(parts.__class__(**{**vars(parts), "fixed": fixed}), epochs=5)
    release = publish(factory.train(parts.test))
    found = SpanAttack()(release, factory.knowledge(), key=KEY)
    assert informed.mse(parts.test.images, found.images).max() < 1e-6
