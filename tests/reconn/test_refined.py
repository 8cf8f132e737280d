"""A network on the kernel's guess: what it sees, gains and may not lose."""

import dataclasses

import haiku as hk
import jax.numpy as jnp
import numpy as np
import pytest

import reconn
from reconn import features, kernel
from reconn.input_layout import InputLayout, Pictures
from shadow import ConfigurationMismatchError, Knowledge, ShadowModels, checks, publish
from shadow.victims import Slice
from shadow.views import EVERYTHING, Layers
from tests.reconn.planted import part, train

SHAPE, UNITS = (4, 4, 1), 3
LAYOUT = (
    Slice("dense/b", 0, UNITS, (UNITS,)),
    Slice("dense/w", UNITS, UNITS + 48, (16, UNITS)),
    Slice("output/w", UNITS + 48, UNITS + 54, (UNITS, 2)),
)


@pytest.fixture
def planted(digits, rng):
    """Weights whose first layer is the target times a function of the target."""
    images = digits.images[:420, 2:6, 2:6]
    flat = images.reshape(len(images), 16)
    slopes = np.tanh(2 * flat @ rng.normal(size=(16, UNITS)))
    first = flat[:, :, None] * slopes[:, None]
    weights = np.concatenate(
        [slopes, first.reshape(len(flat), -1), rng.normal(size=(len(flat), 6))], axis=1
    )
    weights += 0.02 * rng.normal(size=weights.shape)
    labels = digits.labels[:420]
    return ShadowModels(
        weights=weights.astype(np.float32), images=images, labels=labels, layout=LAYOUT
    )


def refined(**fields):
    defaults = {"module": reconn.residual_cnn(channels=16, blocks=1), "epochs": 20}
    return reconn.Refined(**defaults | fields)


def errors(images, models):
    return np.square(images - models.images).mean(axis=(1, 2, 3))


def test_it_is_nearer_than_the_kernel_on_unseen_targets(planted, key, tmp_path):
    seen, unseen = part(planted, slice(0, 360)), part(planted, slice(360, None))
    method = refined(validation_fraction=0.15)
    attack = train(seen, method, key=key, workdir=tmp_path)
    release = publish(unseen.weights)
    guess = attack(release, Knowledge())
    alone, labels = attack.model.kernel.labelled(attack.standardiser(unseen.weights))
    gains = errors(alone, unseen) - errors(guess.images, unseen)
    assert gains.mean() > 2 * gains.std() / np.sqrt(len(gains))
    np.testing.assert_array_equal(guess.labels, labels)
    again = reconn.load(tmp_path)(release, Knowledge())
    np.testing.assert_array_equal(again.images, guess.images)
    resumed = train(seen, method, key=key, workdir=tmp_path)
    np.testing.assert_array_equal(resumed(release, Knowledge()).images, guess.images)


def test_where_theta_says_nothing_it_is_the_kernel(planted, key, rng):
    weights = rng.normal(size=planted.weights.shape).astype(np.float32)
    models = dataclasses.replace(planted, weights=weights)
    attack = train(models, refined(epochs=2), key=key)
    assert attack.model.weight == 0
    inputs = attack.standardiser(weights[:20])
    np.testing.assert_array_equal(
        attack.model(inputs), attack.model.kernel.labelled(inputs)[0]
    )


@pytest.mark.parametrize("across", [True, False])
def test_pictures_are_the_first_layers_weights(planted, across):
    """Of (pixels, units) and (units, pixels), all weights or that layer alone."""
    weights, layout = planted.weights.copy(), list(LAYOUT)
    weights[:, UNITS + 4] = 7.0  # pixel 1, unit 1: dropped, since it doesn't vary
    expected = weights[:, UNITS : UNITS + 48].copy().reshape(-1, *SHAPE[:2], UNITS)
    if not across:
        layout[1] = dataclasses.replace(LAYOUT[1], shape=(UNITS, 16))
        swapped = expected.reshape(-1, 16, UNITS).swapaxes(1, 2)
        weights[:, UNITS : UNITS + 48] = swapped.reshape(-1, 48)
    models = dataclasses.replace(planted, weights=weights)
    for view in (EVERYTHING, Layers.of(layout, ("dense",))):
        standardiser = features.fit(models, view, num_models=400, clip=1e3)
        pictures = Pictures.of(layout, view, standardiser, SHAPE)
        deviations = expected[:400].std(axis=0)
        standard = (expected - expected[:400].mean(axis=0)) / np.sqrt(
            np.mean(np.square(deviations), axis=(0, 1))
        )
        inputs = jnp.asarray(standardiser(view(weights)))
        np.testing.assert_allclose(pictures(inputs), standard, atol=1e-4)
        assert len(pictures.rest) == inputs.shape[1] - 47
    assert Pictures.of((), view, standardiser, SHAPE).index.shape == (4, 4, 0)


def test_left_out_looks_are_those_of_a_kernel_without_the_model(planted):
    """For its label and for its image, by fitting again; widths differ a little.

    A model's own target doesn't enter its left-out image.
    """
    x = planted.weights[:150]
    rows = [x, planted.images[:150], np.arange(150) % 2]
    settings = {"kernel": reconn.Kernel(ridge=0.1), "validation": tuple(rows)}
    _, left_out = kernel.fit(*rows, leave_out=True, **settings)
    for i in (3, 80):
        others = [np.delete(values, i, axis=0) for values in rows]
        model, _ = kernel.fit(*others, **settings)
        votes = model.votes(x[[i]])
        np.testing.assert_allclose(left_out.votes[i], votes[0], atol=0.02)
        look = model.of_label[i % 2](x[[i]])[0]
        np.testing.assert_allclose(left_out.first[i], np.clip(look, 0, 1), atol=0.02)
        other = rows[1].copy()
        other[i] = 1 - other[i]
        _, changed = kernel.fit(x, other, rows[2], leave_out=True, **settings)
        np.testing.assert_allclose(changed.first[i], left_out.first[i], atol=1e-6)


def test_a_module_of_ones_own_corrects_the_guess(planted, key):
    def module(images, vectors, *, training):
        del training
        shift = hk.Linear(1, w_init=jnp.zeros)(vectors)[:, None, None]
        return shift + 0 * images[..., :1]

    method = refined(module=hk.transform(module), epochs=1)
    attack = train(planted, method, key=key)
    assert attack(publish(planted.weights[:3]), Knowledge()).images.shape == (3, *SHAPE)
    for channels in (slice(None), slice(0, 0)):
        wrong = refined(module=lambda images, *_, training, c=channels: images[..., c])
        with pytest.raises(checks.FieldError, match=r"a correction of shape"):
            train(planted, wrong, key=key)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kernel", reconn.Kernel(models=5), r"kernel\.models to be left at None"),
        ("module", reconn.mlp(), "module to be a Haiku function"),
    ],
)
def test_parts_that_do_not_fit_are_refused(field, value, message):
    with pytest.raises(checks.FieldError, match=message):
        refined(**{field: value})


def test_another_layout_is_another_training(planted, key, tmp_path):
    """The same numbers with other arrays as pictures aren't gone on with."""
    module = reconn.residual_cnn(channels=4, blocks=1)
    method = reconn.Network(module=module, epochs=1)
    settings = {"key": key, "workdir": tmp_path}
    train(planted, method, **settings)
    bias, dense, output = LAYOUT
    moved = dataclasses.replace(dense, start=2, stop=50)
    layout = (dataclasses.replace(bias, stop=2, shape=(2,)), moved, output)
    other = dataclasses.replace(planted, layout=layout)
    with pytest.raises(ConfigurationMismatchError, match="pictures"):
        train(other, method, **settings)


def test_a_network_sees_pictures_too(planted, key):
    seen, unseen = part(planted, slice(0, 360)), part(planted, slice(360, None))
    module = reconn.residual_cnn(channels=16, blocks=1)
    rate = reconn.adam_cosine(learning_rate=3e-3)
    method = reconn.Network(module=module, optimiser=rate, epochs=20, batch_size=32)
    attack = train(seen, method, key=key)
    guess = attack(publish(unseen.weights), Knowledge()).images
    mean = np.broadcast_to(seen.images.mean(axis=0), guess.shape)
    assert errors(guess, unseen).mean() < 0.5 * errors(mean, unseen).mean()


def test_a_layout_of_other_weights_is_refused(planted):
    with pytest.raises(checks.FieldError, match="layout to end at 57, the number of"):
        dataclasses.replace(planted, layout=LAYOUT[:2])


def test_a_kernel_that_is_loaded_keeps_its_metrics(planted, key, tmp_path):
    settings = {"key": key, "workdir": tmp_path}
    train(planted, reconn.Kernel(), **settings)
    metrics = (tmp_path / "metrics.jsonl").read_bytes()
    train(planted, reconn.Kernel(), **settings)
    assert (tmp_path / "metrics.jsonl").read_bytes() == metrics


def test_a_row_holds_features_guesses_and_votes(rng):
    layout = InputLayout(
        num_features=5, image_shape=(2, 3, 2), num_guesses=2, num_votes=4
    )
    parts = [rng.normal(size=(3, n)).astype(np.float32) for n in (5, 12, 12, 4)]
    rows = jnp.concatenate(parts, axis=1)
    assert rows.shape[1] == layout.num_inputs
    guesses = np.concatenate([p.reshape(3, 2, 3, 2) for p in parts[1:3]], axis=-1)
    np.testing.assert_array_equal(layout.images(rows), guesses)
    np.testing.assert_array_equal(
        layout.vectors(rows), np.concatenate([parts[0], parts[3]], axis=1)
    )
