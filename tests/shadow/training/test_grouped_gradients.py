"""The CNN by groups of examples: against XLA's convolution, and the plain form."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from informed.experiment.training_settings import TrainingConfig
from shadow import training, victims
from shadow.training import grouped_gradients as grouped
from shadow.victims import toom_cook


def build(shape, activation="elu", widths=(10,)):
    return victims.build(
        victims.VictimConfig(architecture="cnn", activation=activation, widths=widths),
        image_shape=shape,
        num_classes=10,
    )


def doubled(tree):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def by_convolution(params, images):
    """The network in XLA's own convolutions."""
    for name, stride in (("conv_0", 2), ("conv_1", 1)):
        images = jax.lax.conv_general_dilated(
            images,
            params[name]["w"],
            (stride, stride),
            "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        images = jax.nn.elu(images + params[name]["b"][None, None, None])
    values = images.reshape(len(images), -1)
    for name in [n for n in params if n.startswith("hidden")]:
        values = values @ params[name]["w"] + params[name]["b"][None]
        values = jax.nn.elu(values)
    return values @ params["output"]["w"] + params["output"]["b"][None]


def test_toom_cook_is_a_correlation(rng):
    inputs, taps = rng.normal(size=6), rng.normal(size=4)
    np.testing.assert_allclose(
        toom_cook.A @ ((toom_cook.G @ taps) * (toom_cook.B @ inputs)),
        np.correlate(inputs, taps),
        atol=1e-13,
    )


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((32, 32, 3), marks=pytest.mark.slow),
        pytest.param((28, 28, 1), marks=pytest.mark.slow),
        pytest.param((13, 16, 2), marks=pytest.mark.slow),
        (10, 10, 1),
    ],
    ids=str,
)
def test_outputs_and_gradients_are_the_convolutions(shape, key, rng):
    """Sides that fill tiles and windows, and sides that don't; in float64."""
    victim = build(shape)
    with jax.enable_x64():
        params = doubled(victim.init(key))
        images, slopes = rng.random((7, *shape)), rng.normal(size=(7, 10))
        form = victim.groups

        def by_groups(params, images):
            return form.apply(form.convert(params), form.prepare(images))

        for found, expected in zip(
            *(
                jax.tree.leaves((logits, pull(slopes)))
                for logits, pull in (
                    jax.vjp(network, params, images)
                    for network in (by_groups, by_convolution)
                )
            ),
            strict=True,
        ):
            assert found.dtype == jnp.float64
            np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("size", [4, 50])
def test_the_size_of_groups_and_empty_images_dont_matter(size, key, rng):
    """Seven examples of weights 0 to 6, cut into groups that they don't fill."""
    victim = build((12, 12, 1))
    form = dataclasses.replace(victim.groups, size=size)
    params, weights = victim.init(key), jnp.arange(7.0)
    images = rng.random((7, 12, 12, 1), dtype=np.float32)
    labels = jnp.asarray(rng.integers(0, 10, 7), jnp.int32)

    def loss(params):
        each = training.cross_entropy(victim.apply(params, images), labels)
        return (weights * each).sum()

    pieces = grouped.cut(form.size, form.prepare(images), labels, weights)
    found = grouped.gradient(form, training.cross_entropy, params, pieces)
    expected = jax.grad(loss)(params)
    jax.tree.map(
        lambda f, e: np.testing.assert_allclose(f, e, atol=2e-5), found, expected
    )


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "batch_size"), [("elu", None), ("relu", 12)])
def test_derivatives_of_training_are_those_of_the_plain_form(
    activation, batch_size, key, rng
):
    """Forward and reverse, in the target: what inversion takes."""
    victim = build((10, 10, 1), activation)
    config = TrainingConfig(epochs=3, learning_rate=0.05, batch_size=batch_size)
    labels = rng.integers(0, 10, 24).astype(np.int32)
    with jax.enable_x64():
        start = doubled(victim.init(key))
        images = rng.random((24, 10, 10, 1))
        tangent = rng.normal(size=images.shape[1:])

        def theta(victim, image):
            train = config.algorithm(victim).train
            fixed = (images[1:], labels[1:])
            return victim.flatten(train(start, fixed, (image, labels[0]), key))

        found, expected = (
            (
                *jax.jit(
                    lambda image, v=each: jax.jvp(
                        lambda z: theta(v, z), (image,), (tangent,)
                    )
                )(images[0]),
                jax.jit(jax.grad(lambda image, v=each: (theta(v, image) ** 2).sum()))(
                    images[0]
                ),
            )
            for each in (victim, dataclasses.replace(victim, groups=None))
        )
    assert np.abs(expected[1]).max() > 1e-5
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("batch_size", [None, 1_300])
def test_a_large_fixed_set_trains_by_groups_of_a_thousand(batch_size, key, rng):
    victim = victims.build(
        victims.VictimConfig(widths=(5,)), image_shape=(3, 3, 1), num_classes=4
    )
    config = TrainingConfig(epochs=3, batch_size=batch_size)
    images = rng.random((2_301, 3, 3, 1))
    labels = rng.integers(0, 4, 2_301).astype(np.int32)
    with jax.enable_x64():
        start = doubled(victim.init(key))

        def theta(victim):
            train = jax.jit(config.algorithm(victim).train)
            fixed = (images[1:], labels[1:])
            trained = train(start, fixed, (images[0], labels[0]), key)
            return np.asarray(victim.flatten(trained))

        found, expected = map(theta, (victim, dataclasses.replace(victim, groups=None)))
        begun = np.asarray(victim.flatten(start))
    assert np.abs(found - begun).max() > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-12)
