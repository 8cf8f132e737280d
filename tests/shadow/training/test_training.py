import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from informed.experiment.training_settings import TrainingConfig
from shadow import training, victims
from shadow.training import gram_form as gram


def enlarged(split):
    """12 x 12 digits, with a black border: large enough for the CNN."""
    border = ((0, 0), (2, 2), (2, 2), (0, 0))
    return dataclasses.replace(
        split,
        **{
            part: dataclasses.replace(
                getattr(split, part), images=np.pad(getattr(split, part).images, border)
            )
            for part in ("fixed", "test")
        },
    )


def concatenated(split):
    """D_- + z as one data set, z last."""
    images = np.concatenate([split.fixed.images, split.test.images[:1]])
    labels = np.concatenate([split.fixed.labels, split.test.labels[:1]])
    return jnp.asarray(images), jnp.asarray(labels)


def plain_loop(victim, config, split, init, key):
    """The same algorithm, written the usual way: one model, one data set, a loop."""
    images, labels = concatenated(split)
    images = images.astype(jax.tree.leaves(init)[0].dtype)
    if config.optimiser == "sgd":
        optimiser = optax.sgd(config.learning_rate, momentum=config.momentum)
    else:
        optimiser = optax.adam(config.learning_rate)
    optimiser = optax.chain(optax.add_decayed_weights(config.weight_decay), optimiser)
    params, state = init, optimiser.init(init)

    @jax.jit
    def step(params, state, images, labels):
        def loss(params):
            logits = victim.apply(params, images)
            return optax.softmax_cross_entropy_with_integer_labels(
                logits, labels
            ).mean()

        change, state = optimiser.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, change), state

    for epoch in range(config.epochs):
        if config.batch_size is None:
            batches = [np.arange(len(images))]
        else:
            order = jax.random.permutation(jax.random.fold_in(key, epoch), len(images))
            cuts = range(config.batch_size, len(images), config.batch_size)
            batches = np.split(np.asarray(order), cuts)
        for rows in batches:
            params, state = step(params, state, images[rows], labels[rows])
    return params


@pytest.mark.parametrize("architecture", ["mlp", "cnn"])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"momentum": 0.0, "weight_decay": 0.01},
        {"optimiser": "adam", "learning_rate": 0.01},
        {"batch_size": 17},
        {"batch_size": 1000},
        {"batch_size": 10, "optimiser": "adam", "learning_rate": 0.01},
    ],
    ids=str,
)
def test_against_a_plain_optax_loop(fields, architecture, split, key):
    victim = victims.build(
        victims.VictimConfig(architecture=architecture, widths=(5,)),
        image_shape=(12, 12, 1),
        num_classes=10,
    )
    split = enlarged(split)
    config = TrainingConfig(epochs=8, **fields)
    with jax.enable_x64():
        found, expected, moved = both_ways(victim, config, split, key, np.float64)
    assert moved > 0.01
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, atol=1e-9 * max(1, moved))
    # Compiling a CNN takes seconds; its rounding is the same for each optimiser but
    # Adam, which divides by gradients near zero and moves single weights by 3e-5.
    if architecture == "mlp" or not fields:
        found, expected, _ = both_ways(victim, config, split, key, np.float32)
        np.testing.assert_allclose(found, expected, atol=2e-5 * max(1, moved))


def both_ways(victim, config, split, key, dtype):
    """Theta by the toolkit's A and by a plain loop, and how far a weight moved."""
    init = jax.tree.map(lambda leaf: leaf.astype(dtype), jax.jit(victim.init)(key))
    train = jax.jit(config.algorithm(victim).train)
    target = (split.test.images[0].astype(dtype), split.test.labels[0])
    fixed = (split.fixed.images.astype(dtype), split.fixed.labels)
    found = np.asarray(victim.flatten(train(init, fixed, target, key)))
    with jax.default_matmul_precision("highest"):
        expected = victim.flatten(plain_loop(victim, config, split, init, key))
    expected = np.asarray(expected)
    return found, expected, np.abs(expected - victim.flatten(init)).max()


@pytest.mark.parametrize("architecture", ["mlp", "affine"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.02])
def test_training_in_the_span_of_the_data_is_the_same_algorithm(
    architecture, momentum, weight_decay, split, key
):
    """With the first layer told apart (Gram form) and without: equal in float64."""
    victim = victims.build(
        victims.VictimConfig(architecture=architecture, widths=(6, 5)),
        image_shape=(8, 8, 1),
        num_classes=10,
    )
    assert gram.pays(len(split.fixed), 64)
    config = TrainingConfig(epochs=60, momentum=momentum, weight_decay=weight_decay)
    with jax.enable_x64():
        arguments = (
            jax.tree.map(lambda leaf: leaf.astype(jnp.float64), victim.init(key)),
            (split.fixed.images.astype(np.float64), split.fixed.labels),
            (split.test.images[0].astype(np.float64), split.test.labels[0]),
            key,
        )
        plain = dataclasses.replace(victim, first=None)
        found, expected = (
            jax.jit(config.algorithm(each).train)(*arguments)
            for each in (victim, plain)
        )
        assert found[victim.first.name]["w"].dtype == jnp.float64
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    np.testing.assert_allclose(
        victim.flatten(found), victim.flatten(expected), atol=1e-10
    )


def test_the_gram_form_is_as_precise_in_float32(rng, key):
    """At MNIST's size: no further from float64 than twice the plain form."""
    victim = victims.build(
        victims.VictimConfig(), image_shape=(28, 28, 1), num_classes=10
    )
    images = rng.random((400, 28, 28, 1)) * (rng.random((400, 28, 28, 1)) < 0.2)
    labels = rng.integers(0, 10, 400).astype(np.int32)
    config = TrainingConfig(learning_rate=0.05, epochs=50)
    init = victim.init(key)

    def theta(victim, dtype):
        train = jax.jit(config.algorithm(victim).train)
        params = jax.tree.map(lambda leaf: leaf.astype(dtype), init)
        pixels = images.astype(dtype)
        found = train(params, (pixels[1:], labels[1:]), (pixels[0], labels[0]), key)
        return np.asarray(victim.flatten(found), np.float64)

    plain = dataclasses.replace(victim, first=None)
    with jax.enable_x64():
        exact = theta(plain, np.float64)
    errors = [
        np.sqrt(np.mean((theta(each, np.float32) - exact) ** 2))
        for each in (victim, plain)
    ]
    assert errors[0] < max(2 * errors[1], 1e-7)


def test_the_gram_form_is_taken_where_it_is_less_work():
    assert gram.pays(1_000, 784)
    assert not gram.pays(10_000, 784)
    assert not gram.pays(300, 64)


def test_the_target_matters_in_every_batch_size(victim, split, key):
    """z is seen exactly once an epoch, whatever the batches."""
    fixed = (split.fixed.images, split.fixed.labels)
    for batch_size in (None, 1, 7, 51):
        config = TrainingConfig(epochs=2, batch_size=batch_size)
        train = jax.jit(config.algorithm(victim).train)
        one, other = (
            victim.flatten(train(victim.init(key), fixed, target, key))
            for target in zip(split.test.images[:2], split.test.labels[:2], strict=True)
        )
        assert jnp.abs(one - other).max() > 1e-4


@pytest.mark.parametrize(("count", "size"), [(51, 7), (51, 51), (51, 1), (6, 3)])
def test_an_epoch_goes_through_everything_once(count, size, key):
    batches = np.asarray(training.epoch_batches(key, count, size))
    members = batches[batches < count]
    np.testing.assert_array_equal(np.sort(members), np.arange(count))
    assert batches.shape == (-(-count // size), size)
    assert (batches[:-1] < count).all(), "only the last batch may be short"


def test_the_order_of_batches_is_the_keys(victim, split, key):
    config = TrainingConfig(epochs=2, batch_size=10)
    train = jax.jit(config.algorithm(victim).train)
    fixed = (split.fixed.images, split.fixed.labels)
    target = (split.test.images[0], split.test.labels[0])
    first, again, other = (
        victim.flatten(train(victim.init(key), fixed, target, order))
        for order in (key, key, jax.random.key(1))
    )
    np.testing.assert_array_equal(first, again)
    assert jnp.abs(first - other).max() > 1e-5


def test_cross_entropy_is_optaxs(rng):
    logits = rng.normal(0, 30, (200, 10)).astype(np.float32)
    labels = rng.integers(0, 10, 200).astype(np.int32)
    np.testing.assert_allclose(
        training.cross_entropy(jnp.asarray(logits), jnp.asarray(labels)),
        optax.softmax_cross_entropy_with_integer_labels(logits, labels),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"optimiser": "sdg"}, r"optimiser.*Did you mean 'sgd'"),
        ({"learning_rate": 0.0}, r"learning_rate > 0 and finite, got 0\.0"),
        ({"momentum": 1.0}, r"momentum in \[0, 1\), got 1\.0"),
        ({"epochs": -1}, r"epochs >= 0, got -1"),
        ({"batch_size": 0}, r"batch_size >= 1, got 0"),
        ({"initialisation": "shard"}, r"Did you mean 'shared'"),
        ({"shuffling": "secret"}, r"shuffling to be one of"),
        ({"weight_decay": -1.0}, r"weight_decay >= 0"),
    ],
)
def test_bad_configurations_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**fields)


def test_a_subclass_whose_overrides_training_would_ignore_is_refused():
    with pytest.raises(TypeError, match=r"Smoothed overrides.*shadow\.JaxFunction"):
        type("Smoothed", (training.GradientDescent,), {"losses": None})
