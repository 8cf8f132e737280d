"""Which optimisers may train in the span of the data: those that are linear."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from informed.experiment.training_settings import TrainingConfig
from shadow import training, victims
from shadow.training.linearity import is_linear, rests

PARAMS = {
    "hidden": {"w": jnp.ones((4, 3)), "b": jnp.ones(3)},
    "output": jnp.ones((3, 2)),
}
LINEAR = {
    "sgd": optax.sgd(0.2),
    "momentum": optax.sgd(0.2, momentum=0.9),
    "nesterov": optax.sgd(0.2, momentum=0.9, nesterov=True),
    "weight decay": optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.2)),
    "schedule": optax.sgd(optax.cosine_decay_schedule(0.2, 50), momentum=0.9),
    "trace after decay": optax.chain(optax.trace(0.5), optax.scale(-0.1)),
}
OTHERS = {
    "adam": optax.adam(1e-3),
    "adamw": optax.adamw(1e-3),
    "rmsprop": optax.rmsprop(1e-3),
    "sign": optax.chain(optax.scale_by_sign(), optax.scale(-0.1)),
    "clipped by value": optax.chain(optax.clip(1e6), optax.sgd(0.1)),
    "clipped by norm": optax.chain(optax.clip_by_global_norm(1e9), optax.sgd(0.1)),
    "of one layer": optax.masked(
        optax.sgd(0.1), {"hidden": {"w": True, "b": True}, "output": False}
    ),
    "two rates": optax.partition(
        {"fast": optax.sgd(0.2), "slow": optax.sgd(0.1)},
        {"hidden": "fast", "output": "slow"},
    ),
    "one rate that ends": optax.partition(
        {
            "ends": optax.sgd(optax.piecewise_constant_schedule(0.2, {15: 0.0})),
            "stays": optax.sgd(0.2),
        },
        {"hidden": "ends", "output": "stays"},
    ),
    "of large arrays": optax.masked(
        optax.sgd(0.1), lambda tree: jax.tree.map(lambda leaf: leaf.size > 6, tree)
    ),
    "centred": optax.chain(optax.centralize(), optax.sgd(0.1)),
    "noisy": optax.chain(optax.add_noise(0.1, 0.5, 0), optax.sgd(0.1)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_optimisers_are_known(name):
    assert is_linear(LINEAR[name], PARAMS, steps=20)


@pytest.mark.parametrize("name", OTHERS)
def test_no_other_is_taken_for_one(name):
    assert not is_linear(OTHERS[name], PARAMS, steps=20)


def test_weights_without_gradients_rest_unless_they_decay():
    """Closed forms took decay inside an optimiser for no penalty, without a word."""
    every = LINEAR | OTHERS
    moving = {name for name, one in every.items() if not rests(one, PARAMS)}
    assert moving == {"weight decay", "adamw", "noisy"}
    victim = victims.build(victims.VictimConfig(), image_shape=(2, 2, 1), num_classes=2)
    descent = training.GradientDescent(victim=victim, optimiser=every["adamw"])
    with pytest.raises(ValueError, match=r"weight_decay= instead"):
        descent.require_plain_penalty()


def test_any_optimiser_trains_as_the_plain_loop_does(split, key):
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.lion(3e-3))
    victim = victims.build(
        victims.VictimConfig(widths=(6,)), image_shape=(8, 8, 1), num_classes=10
    )
    descent = training.GradientDescent(victim=victim, optimiser=optimiser, epochs=5)
    assert not descent.in_span
    assert TrainingConfig().algorithm(victim).in_span
    images = np.concatenate([split.fixed.images, split.test.images[:1]])
    labels = np.concatenate([split.fixed.labels, split.test.labels[:1]])

    def loss(params):
        logits = victim.apply(params, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    params = victim.init(key)
    state = optimiser.init(params)
    with jax.default_matmul_precision("highest"):
        for _ in range(5):
            change, state = optimiser.update(jax.grad(loss)(params), state, params)
            params = optax.apply_updates(params, change)
    found = descent.train(
        victim.init(key),
        (split.fixed.images, split.fixed.labels),
        (split.test.images[0], split.test.labels[0]),
        key,
    )
    np.testing.assert_allclose(victim.flatten(found), victim.flatten(params), atol=2e-5)
