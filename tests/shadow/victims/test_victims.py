import dataclasses

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from shadow import records, training, victims
from shadow.factory import Factory
from shadow.victims import architectures
from shadow.victims.activations import ACTIVATIONS


def build(**config):
    shape = config.pop("image_shape", (28, 28, 1))
    return victims.build(
        victims.VictimConfig(**config), image_shape=shape, num_classes=10
    )


def test_table_v_counts_of_parameters():
    assert build().num_params == 7_960
    cnn = {"architecture": "cnn", "image_shape": (32, 32, 3)}
    assert build(**cnn).num_params == 55_208  # Table VI: a hidden layer of 10 units
    assert build(**cnn, widths=(20,)).num_params == 101_398  # "100K" of Table II
    convolutions = [part for part in build(**cnn).layout if "conv" in part.name]
    assert sum(part.stop - part.start for part in convolutions) == 9_008
    assert build(architecture="affine").num_params == 784 * 10 + 10


def haiku_mlp(images):
    net = hk.nets.MLP((10, 10), activation=jax.nn.elu)
    return net(images.reshape(len(images), -1))


def haiku_cnn(images):
    for channels, stride in ((16, 2), (32, 1)):
        images = jax.nn.elu(hk.Conv2D(channels, 4, stride, padding="VALID")(images))
    hidden = jax.nn.elu(hk.Linear(10)(images.reshape(len(images), -1)))
    return hk.Linear(10)(hidden)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "image_shape", "reference"),
    [("mlp", (28, 28, 1), haiku_mlp), ("cnn", (32, 32, 3), haiku_cnn)],
)
def test_the_same_as_plain_haiku(architecture, image_shape, reference, key, rng):
    """The same initialisation to the bit, and the same function."""
    victim = build(architecture=architecture, image_shape=image_shape)
    images = rng.random((7, *image_shape), dtype=np.float32)
    plain = hk.without_apply_rng(hk.transform(reference))
    params, expected = victim.init(key), plain.init(key, images)
    theirs, ours = (
        {leaf.shape: leaf for leaf in jax.tree.leaves(tree)}
        for tree in (expected, params)
    )
    assert theirs.keys() == ours.keys()
    for shape, leaf in theirs.items():
        np.testing.assert_array_equal(leaf, ours[shape])
    with jax.default_matmul_precision("highest"):
        np.testing.assert_allclose(
            victim.apply(params, images), plain.apply(expected, images), atol=1e-5
        )


@pytest.mark.parametrize(
    ("initialiser", "variance"),
    [
        ("lecun_normal", 0.7737 / 784),  # Haiku cuts at 2 sigma and doesn't make up
        ("he_normal", 2 / 784),
        ("glorot_uniform", 2 / (784 + 200)),
    ],
)
def test_initialisers_have_their_variance(initialiser, variance, key):
    victim = build(widths=(200,), initialiser=initialiser)
    weights = victim.init(key)["hidden_0"]["w"]
    # 156,800 draws: the sample variance is within 1 % with 5 standard errors to spare.
    assert float(jnp.var(weights)) == pytest.approx(variance, rel=0.02)
    assert not jnp.any(victim.init(key)["hidden_0"]["b"])


@pytest.mark.parametrize("architecture", victims.ARCHITECTURES)
def test_flatten_and_unflatten_are_inverse(architecture, key):
    victim = build(architecture=architecture, widths=(4, 3, 5), image_shape=(12, 12, 2))
    params = victim.init(key)
    theta = victim.flatten(params)
    assert theta.shape == (victim.num_params,)
    back = victim.unflatten(theta)
    assert jax.tree.structure(back) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, params, back)
    for entry in victim.layout:
        module, _, name = entry.name.rpartition("/")
        np.testing.assert_array_equal(
            theta[entry.start : entry.stop].reshape(entry.shape), params[module][name]
        )
    with pytest.raises(ValueError, match=f"shape \\({victim.num_params},\\)"):
        victim.unflatten(theta[:-1])


def test_a_cnn_needs_room_for_its_convolutions():
    build(architecture="cnn", image_shape=(10, 10, 1))
    with pytest.raises(
        ValueError, match=r"architecture is 'cnn'.*at least 10 x 10.*Use 'mlp'"
    ):
        build(architecture="cnn", image_shape=(9, 28, 1))


def test_every_activation_gives_another_model(key, rng):
    images = rng.random((3, 28, 28, 1), dtype=np.float32) * 4 - 2
    logits = [
        build(activation=name).apply(build().init(key), images) for name in ACTIVATIONS
    ]
    for i, left in enumerate(logits):
        for right in logits[:i]:
            assert np.abs(left - right).max() > 1e-4


def test_a_network_of_ones_own(key, rng):
    victim = victims.from_haiku(
        lambda images: hk.Linear(3)(images.mean(axis=(1, 2))),
        image_shape=(5, 4, 2),
        num_classes=3,
    )
    assert [entry.name for entry in victim.layout] == ["linear/b", "linear/w"]
    logits = victim.apply(victim.init(key), rng.random((6, 5, 4, 2), dtype=np.float32))
    assert logits.shape == (6, 3)


def test_a_network_that_mixes_images_is_refused(split, key):
    victim = victims.from_haiku(
        lambda images: hk.Linear(10)(
            images.reshape(len(images), -1) - images.mean(axis=0).reshape(1, -1)
        ),
        image_shape=(8, 8, 1),
        num_classes=10,
    )
    algorithm = training.GradientDescent(victim=victim, epochs=1)
    with pytest.raises(ValueError, match="victim to classify each image by itself"):
        Factory(algorithm, split.fixed, key=key).train(split.test)


def test_a_network_with_another_function_trains_as_itself(split, key):
    victim = build(image_shape=(8, 8, 1))
    assert dataclasses.replace(victim, groups=None).first is victim.first

    def apply(params, images):
        return victim.apply(params, jnp.flip(images, axis=1))

    changed = dataclasses.replace(victim, apply=apply)
    plain = victims.from_functions(
        victim.init, apply, image_shape=(8, 8, 1), num_classes=10
    )
    theta = [
        Factory(
            training.GradientDescent(victim=v, epochs=2), split.fixed, key=key
        ).train(split.test.take(slice(0, 2)))
        for v in (changed, plain)
    ]
    np.testing.assert_array_equal(*theta)


def test_a_network_is_another_if_its_settings_or_its_slopes_are():
    @jax.custom_vjp
    def scaled(values):
        return values

    settings = {"scale": 1.0, "slope": 1.0}
    scaled.defvjp(lambda values: (values, None), lambda _, g: (settings["slope"] * g,))

    def apply(params, images):
        return settings["scale"] * scaled(images.reshape(len(images), -1) @ params)

    fingerprints = set()
    for name, value in (("scale", 1.0), ("scale", 2.0), ("slope", 3.0)):
        settings[name] = value
        fingerprints.add(
            victims.from_functions(
                lambda key: jnp.ones((4, 2)),
                apply,
                image_shape=(2, 2, 1),
                num_classes=2,
            ).fingerprint
        )
    assert len(fingerprints) == 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"architecture": "mpl"}, r"architecture.*Did you mean 'mlp'"),
        ({"activation": "rleu"}, r"activation.*Did you mean 'relu'"),
        ({"initialiser": "he"}, r"initialiser to be one of"),
        ({"architecture": "resnet"}, r"architecture to be one of affine"),
        ({"widths": (10, 0)}, r"widths >= 1, got 0"),
    ],
)
def test_bad_configurations_are_refused(config, message):
    with pytest.raises(ValueError, match=message):
        victims.VictimConfig(**config)


def test_victims_from_other_libraries(digits, key):
    """Flax, Equinox and two functions: the same weights give the same logits."""
    import equinox
    import flax.linen as nn

    shapes = {"image_shape": digits.image_shape, "num_classes": 10}
    images = jnp.asarray(digits.images[:4])
    flat = images.reshape(4, -1)

    class Dense(nn.Module):
        @nn.compact
        def __call__(self, images):
            return nn.Dense(10)(images.reshape(len(images), -1))

    class Linear(equinox.Module):
        layer: equinox.nn.Linear
        name: str = "static"

        def __call__(self, image):
            return self.layer(image.ravel())

    def make(key):
        return Linear(equinox.nn.Linear(64, 10, key=key))

    pair = victims.from_functions(
        lambda key: {"w": jax.random.normal(key, (64, 10))},
        lambda params, images: images.reshape(len(images), -1) @ params["w"],
        **shapes,
    )
    flax, other = (
        victims.from_flax(Dense(), **shapes),
        victims.from_equinox(make, **shapes),
    )
    for victim in (flax, other, pair):
        params = victim.init(key)
        again = victim.unflatten(victim.flatten(params))
        np.testing.assert_array_equal(
            victim.apply(params, images), victim.apply(again, images)
        )
    kernel = flax.init(key)["Dense_0"]["kernel"]
    np.testing.assert_allclose(
        flax.apply(flax.init(key), images), flat @ kernel, atol=1e-5
    )
    layer = make(key).layer
    np.testing.assert_allclose(
        other.apply(other.init(key), images),
        flat @ layer.weight.T + layer.bias[None],
        atol=1e-5,
    )
    assert {part.name for part in flax.layout} == {"Dense_0/bias", "Dense_0/kernel"}

    class Normalised(nn.Module):
        @nn.compact
        def __call__(self, images):
            flat = images.reshape(len(images), -1)
            return nn.BatchNorm(use_running_average=False)(nn.Dense(10)(flat))

    with pytest.raises(ValueError, match="holds no state"):
        victims.from_flax(Normalised(), **shapes)
    with pytest.raises(ValueError, match=r"logits of shape \(examples, 10\)"):
        victims.from_functions(lambda key: {}, lambda p, x: x[:, 0, 0], **shapes)


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.hidden = nnx.Linear(64, 8, rngs=rngs)
        self.output = nnx.Linear(8, 10, rngs=rngs)

    def __call__(self, images):
        return self.output(nnx.tanh(self.hidden(images.reshape(len(images), -1))))


class NnxWithDropout(Nnx):
    def __init__(self, rngs):
        super().__init__(rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)


def test_a_victim_from_an_nnx_module(digits, key):
    shapes = {"image_shape": digits.image_shape, "num_classes": 10}
    victim = victims.from_flax(Nnx, **shapes)
    images = jnp.asarray(digits.images[:4])
    logits = jax.jit(victim.apply)(victim.init(key), images)
    np.testing.assert_allclose(logits, Nnx(nnx.Rngs(key))(images), atol=1e-6)
    assert [part.name for part in victim.layout][:2] == ["hidden/bias", "hidden/kernel"]
    with pytest.raises(ValueError, match="got also dropout/rngs"):
        victims.from_flax(NnxWithDropout, **shapes)
    with pytest.raises(ValueError, match="a module that is made already"):
        victims.from_flax(Nnx(nnx.Rngs(0)), **shapes)


def test_stores_of_the_cnn_without_its_hidden_layer_are_refused_by_name():
    """Revision 1 had 55,098 parameters, one dense layer (Table VI)."""
    configuration = {"victim": {"architecture": "cnn"}}
    wanted = records.Record.of(configuration, **architectures.revisions(configuration))
    with pytest.raises(records.VersionMismatchError, match="revision of cnn"):
        records.require_same(records.Record.of(configuration), wanted, "The store")
    for other in ({"victim": {"architecture": "mlp"}}, {"victim": "own"}, {}):
        assert architectures.revisions(other) == {}


def test_parameters_in_half_precision_are_refused():
    def init(key):
        return {"w": jnp.zeros((4, 2), jnp.bfloat16)}

    def apply(params, images):
        return images.reshape(len(images), -1) @ params["w"].astype(jnp.float32)

    with pytest.raises(ValueError, match="got bfloat16 in w"):
        victims.from_functions(init, apply, image_shape=(2, 2, 1), num_classes=2)
