"""The tables' networks: sizes by hand, ranges, and what doesn't fit."""

import math

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reconn
from reconn import modules
from reconn.enlarging import Enlarging
from reconn.input_layout import InputLayout
from shadow import Knowledge, ShadowModels, publish


def count(init, key):
    leaves = jax.tree.leaves(jax.eval_shape(init, key))
    return sum(math.prod(leaf.shape) for leaf in leaves)


def layout(num_features, image_shape):
    return InputLayout(num_features=num_features, image_shape=image_shape)


def test_table_vii_on_the_weights_of_the_cnn(key):
    network = modules.build(reconn.transposed_cnn(), layout(55_098, (32, 32, 3)))
    dense = 55_098 * 4096 + 4096
    enlarging = 25 * 64 * 32 + 32 + 25 * 32 * 3 + 3
    assert count(network.init, key) == dense + enlarging
    assert round((dense + enlarging) / 1e6) == 226


def test_table_v_on_the_weights_of_the_mlp(key):
    network = modules.build(reconn.mlp(), layout(7960, (28, 28, 1)))
    assert round(count(network.init, key) / 1e6, 1) == 9.7


@pytest.mark.parametrize("shape", [(32, 32, 3), (28, 28, 1), (8, 8, 1)])
def test_images_with_pixels_between_0_and_1(shape, key, rng):
    cells = shape[0] * shape[1] // 16
    builder = reconn.transposed_cnn(widths=(4 * cells,), input_dropout=0.0, dropout=0.5)
    network = modules.build(builder, layout(20, shape))
    features = jnp.asarray(rng.normal(size=(5, 20)), jnp.float32)
    params = network.init(key)
    images = network.apply(params, features)
    assert images.shape == (5, *shape)
    assert ((images > 0) & (images < 1)).all()
    dropped = network.apply_dropout(params, key, features)
    assert not np.allclose(dropped, images)


@pytest.mark.parametrize(
    ("rows", "columns", "own", "channels"), [(8, 8, 6, 3), (1, 5, 2, 1)]
)
def test_enlarging_is_haikus_transposed_convolution(
    rows, columns, own, channels, key, rng
):
    images = jnp.asarray(rng.normal(size=(3, rows, columns, own)), jnp.float32)
    weights = rng.normal(size=(3, 2 * rows, 2 * columns, channels))

    def of(module):
        network = hk.without_apply_rng(hk.transform(lambda x: module(x)))
        params = network.init(key, images)

        def loss(params, images):
            return jnp.sum(weights * jnp.tanh(network.apply(params, images)))

        slopes = jax.grad(loss, (0, 1))(params, images)
        return params, network.apply(params, images), slopes

    ours = of(lambda x: Enlarging(channels)(x))
    theirs = of(lambda x: hk.Conv2DTranspose(channels, 5, stride=2)(x))
    # The same parameters from the same key, bit for bit.
    assert jax.tree.structure(ours[0]) == jax.tree.structure(theirs[0])
    for mine, other in zip(*map(jax.tree.leaves, (ours[0], theirs[0])), strict=True):
        np.testing.assert_array_equal(mine, other)
    for mine, other in zip(*map(jax.tree.leaves, (ours[1:], theirs[1:])), strict=True):
        np.testing.assert_allclose(mine, other, atol=2e-5)


@pytest.mark.parametrize(
    ("shape", "widths", "message"),
    [
        ((30, 30, 1), (64,), "multiples of 4"),
        ((8, 8, 1), (6,), "multiple of 4 for"),
        ((8, 8, 1), (), "multiple of 4 for"),
    ],
)
def test_what_does_not_fit_is_refused(shape, widths, message):
    with pytest.raises(ValueError, match=message):
        modules.build(reconn.transposed_cnn(widths=widths), layout(9, shape))


def test_table_viii_scores_patches(key, rng):
    """Two strides of 2 and one more: 32 x 32 becomes 4 x 4 patches."""
    discriminator = modules.patch_discriminator((32, 32, 3))
    images = jnp.asarray(rng.random((2, 32, 32, 3)), jnp.float32)
    assert discriminator.apply(discriminator.init(key), images).shape == (2, 4, 4)
    expected = 0
    for before, after in ((3, 64), (64, 128), (128, 256), (256, 512), (512, 1)):
        expected += 16 * before * after + after
    assert count(discriminator.init, key) == expected


@pytest.mark.slow
def test_a_planted_target_is_read_back_by_convolutions(digits, key, rng, tmp_path):
    images = digits.images[:300]
    weights = images.reshape(300, 64) @ rng.normal(size=(64, 80)).astype(np.float32)
    models = ShadowModels(
        weights=weights[:250], images=images[:250], labels=digits.labels[:250]
    )
    config = reconn.Network(
        module=reconn.transposed_cnn(widths=(256,)),
        optimiser=reconn.adam_cosine(learning_rate=3e-3),
        epochs=40,
        batch_size=16,
    )
    found = reconn.train(models, config, key=key, workdir=tmp_path, progress=False)
    guess = found(publish(weights[250:]), Knowledge()).images
    error = np.mean((guess - images[250:]) ** 2)
    assert error < 0.4 * np.mean((images.mean(axis=0) - images[250:]) ** 2)
