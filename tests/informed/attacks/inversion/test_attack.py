"""Training inversion: planted answers on real digits, and failures it must notice."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import informed
import shadow
from dp.gradient import PrivacyConfig
from informed.attacks.inversion import (
    Inversion,
    InversionConfig,
    retraining,
    solving,
    training_inversion,
)
from informed.attacks.inversion.problem import Published
from informed.attacks.inversion.shared_measurements import SharedMeasurements
from informed.experiment.training_settings import TrainingConfig
from shadow import publish
from shadow.threat import Reconstruction

QUICK = Inversion(config=InversionConfig(stages=(16,), levels=False, clouds=5))
ON_LEVELS = Inversion(config=InversionConfig(stages=(16,)))
SHUFFLED = {"batch_size": 51, "momentum": 0.0, "shuffling": "unknown"}
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def parts(digits):
    return shadow.split(digits, num_fixed=100, num_shadow=600, num_test=4, seed=0)


def make(parts, *, architecture="mlp", activation="elu", widths=(8,), **fields):
    config = shadow.VictimConfig(
        architecture=architecture, widths=widths, activation=activation
    )
    return shadow.Factory(
        algorithm=TrainingConfig(**fields).algorithm(
            shadow.build_victim(config, image_shape=(8, 8, 1), num_classes=10)
        ),
        fixed=parts.fixed,
        key=jax.random.key(7),
        role="released",
        width=4,
    )


def in_fewer_bits(factory, targets, form):
    view = shadow.Layers.of(factory.descent.victim.layout, precision=form)
    return publish(factory.train(targets), view)


def invert(factory, parts, targets, *, using=QUICK, release=None, **told):
    knowledge = factory.knowledge(public=parts.shadow)
    release = release or publish(factory.train(targets))
    return using(release, dataclasses.replace(knowledge, **told), key=KEY)


@pytest.mark.parametrize(
    "fields",
    [
        {"epochs": 60},
        {"epochs": 10, "batch_size": 25, "learning_rate": 0.05},
        {"epochs": 40, "weight_decay": 0.01},
        {"epochs": 40, "optimiser": "adam", "learning_rate": 0.01},
        {"epochs": 40, "widths": (8, 8)},
    ],
    ids=str,
)
def test_the_target_is_read_back_exactly_and_the_attack_knows(fields, parts):
    """Without its label."""
    targets = parts.test.take(slice(0, 2))
    reconstruction = invert(make(parts, **fields), parts, targets)
    errors = informed.mse(targets.images, reconstruction.images)
    assert errors.max() < 1e-10
    np.testing.assert_array_equal(reconstruction.labels, targets.labels)
    assert reconstruction.certified.all()
    assert (reconstruction.label_margins >= 1).all()
    # It even knows how exact: to within an order of magnitude.
    quotients = errors / reconstruction.expected_mse
    assert ((quotients > 0.05) & (quotients < 20)).all()


def test_levels_make_it_exact_to_the_last_bit(parts):
    targets = parts.test.take(slice(0, 2))
    reconstruction = invert(make(parts, epochs=60), parts, targets, using=ON_LEVELS)
    np.testing.assert_array_equal(reconstruction.images, targets.images)
    assert reconstruction.certified.all()


def test_a_target_between_the_levels_of_public_images_stays_there(parts):
    targets = parts.test.take(slice(0, 2))
    darker = dataclasses.replace(targets, images=targets.images * np.float32(0.97))
    reconstruction = invert(make(parts, epochs=60), parts, darker, using=ON_LEVELS)
    assert informed.mse(darker.images, reconstruction.images).max() < 1e-10
    assert reconstruction.certified.all()


@pytest.mark.slow
def test_a_run_that_was_cut_off_goes_on_with_the_rest(parts):
    """What is found for a release doesn't depend on those before it."""
    factory, targets = make(parts, epochs=20), parts.test.take(slice(0, 2))
    release = publish(factory.train(targets))
    told = factory.knowledge(public=parts.shadow)
    whole = QUICK(release, told, key=KEY)
    first = next(QUICK.each(release, told, key=KEY))
    rest = QUICK(publish(release.weights[1:]), told, key=KEY)
    joined = Reconstruction.joined([first, rest])
    # What releases share is counted for the first of a call, so the last but trainings.
    for field in dataclasses.fields(Reconstruction)[:-1]:
        np.testing.assert_array_equal(
            getattr(joined, field.name), getattr(whole, field.name)
        )
    with pytest.raises(ValueError, match="no reconstruction"):
        Reconstruction.joined([])


@pytest.mark.slow
def test_kinks(parts):
    """ReLU by derivatives: near, seldom exact, and the attack knows. Clouds: exact."""
    targets = parts.test
    factory = make(parts, epochs=40, activation="relu")
    derivatives = InversionConfig(engine="derivatives")
    reconstruction = invert(
        factory,
        parts,
        targets,
        using=Inversion(config=derivatives),
        labels=targets.labels,
    )
    errors = informed.mse(targets.images, reconstruction.images)
    assert np.median(errors) < 1e-3
    inexact = errors > 1e-6
    assert inexact.any(), "the mask below is not empty"
    assert not reconstruction.certified[inexact].any()


def test_fewer_directions_of_the_data_lead_to_the_same_target(parts, monkeypatch):
    monkeypatch.setattr(retraining, "RANK", 20)
    config = InversionConfig(stages=(16, 32))
    targets = parts.test.take(slice(0, 1))
    reconstruction = invert(
        make(parts, epochs=30),
        parts,
        targets,
        using=Inversion(config=config),
        labels=targets.labels,
    )
    assert informed.mse(targets.images, reconstruction.images).max() < 1e-10
    assert reconstruction.certified.all()
    assert reconstruction.label_margins is None


@pytest.mark.slow
def test_matrix_free(parts, monkeypatch):
    """Where the Jacobian would be too large: a Krylov space of fewer dimensions."""
    targets = parts.test.take(slice(0, 1))
    factory = make(parts, epochs=30, batch_size=30, learning_rate=0.05)
    monkeypatch.setattr(solving, "LARGEST_JACOBIAN", 0)
    monkeypatch.setattr(solving, "KRYLOV", 40)
    config, told = InversionConfig(stages=(16,)), factory.knowledge(public=parts.shadow)
    shared = SharedMeasurements(config, told, KEY)
    published = Published.of(publish(factory.train(targets)), 0)
    certificates = training_inversion.certificates(
        shared, published, targets.labels[:, None]
    )
    reconstruction = next(each for each in certificates if each.explained)
    assert informed.mse(targets.images, reconstruction.images).max() < 1e-8


def test_several_unknown_points(parts):
    """Two at once, of one label: found in some order."""
    label = parts.test.labels[0]
    other = np.flatnonzero(parts.shadow.labels == label)[0]
    first, last = parts.test.take(slice(0, 1)), parts.shadow.take(np.array([other]))
    public = parts.shadow.take(np.delete(np.arange(600), other))
    factory = make(parts, epochs=40)
    larger = dataclasses.replace(factory, fixed=parts.fixed.joined(first))
    release = publish(larger.train(last))
    (reconstruction,) = QUICK.several(
        release, factory.knowledge(public=public), np.array([[label, label]]), key=KEY
    )
    truth = np.concatenate([first.images, last.images])
    either = [
        informed.mse(truth, reconstruction.images[order]).max()
        for order in ([0, 1], [1, 0])
    ]
    assert min(either) < 1e-9
    assert reconstruction.certified.all()


@pytest.mark.parametrize("form", ["float16", "bfloat16", "int8"])
def test_rounded_weights(form, parts):
    """No longer exact, and the attack knows by how much."""
    targets = parts.test.take(slice(0, 3))
    factory = make(parts, epochs=60)
    release = in_fewer_bits(factory, targets, form)
    assert np.abs(release.weights - factory.train(targets)).max() > 1e-5
    reconstruction = invert(
        factory, parts, targets, release=release, labels=targets.labels
    )
    errors = informed.mse(targets.images, reconstruction.images)
    assert 1e-8 < np.median(errors) < 0.02
    quotient = np.median(errors) / np.median(reconstruction.expected_mse)
    assert 0.1 < quotient < 10
    np.testing.assert_array_equal(
        reconstruction.certified, 4 * reconstruction.expected_mse <= 1e-6
    )


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_levels_undo_the_rounding_of_weights(form, parts):
    """What rounding leaves unknown is less than half a level of 1/16."""
    targets = parts.test.take(slice(0, 2))
    factory = make(parts, epochs=60)
    release = in_fewer_bits(factory, targets, form)
    reconstruction = invert(
        factory, parts, targets, release=release, labels=targets.labels, using=ON_LEVELS
    )
    np.testing.assert_array_equal(reconstruction.images, targets.images)
    assert reconstruction.certified.all()


@pytest.fixture
def unordered(parts):
    """Half batches in an order that nobody is told, and four targets."""
    targets, public = parts.shadow.take(slice(0, 4)), parts.shadow.take(slice(4, None))
    factory = make(parts, epochs=20, learning_rate=0.02, **SHUFFLED)
    assert factory.knowledge().training_key is None
    return factory, dataclasses.replace(parts, shadow=public), targets


@pytest.mark.slow
def test_an_order_of_batches_that_is_not_told(unordered):
    """The maximum a posteriori lies so near to the levels that these are the truth."""
    factory, parts, targets = unordered
    reconstruction = invert(
        factory, parts, targets, labels=targets.labels, using=ON_LEVELS
    )
    np.testing.assert_array_equal(reconstruction.images, targets.images)
    # Without levels: the error that it reports.
    plain = invert(factory, parts, targets, labels=targets.labels)
    errors = informed.mse(targets.images, plain.images)
    assert errors.max() < 1e-4
    assert not plain.certified.any()
    assert 0.3 < errors.mean() / plain.expected_mse.mean() < 3


@pytest.mark.slow
def test_levels_certify_nothing_where_the_order_is_not_told(parts):
    """A target 0.08 of a level beside the grid looks like one on it.

    Small steps hide little, so that theta tells pixels to a sixth of a level.
    """
    one = parts.shadow.take(slice(0, 1))
    parts = dataclasses.replace(parts, shadow=parts.shadow.take(slice(4, None)))
    factory = make(parts, epochs=40, learning_rate=0.001, widths=(32,), **SHUFFLED)
    beside = np.where(one.images < 1, one.images + np.float32(0.08 / 16), one.images)
    both = one.joined(dataclasses.replace(one, images=beside))
    using = dataclasses.replace(
        ON_LEVELS, config=dataclasses.replace(ON_LEVELS.config, exact_mse=2e-6)
    )
    reconstruction = invert(factory, parts, both, labels=both.labels, using=using)
    errors = informed.mse(both.images, reconstruction.images)
    assert not reconstruction.certified.any()
    # What it expects doesn't rest on the levels either.
    assert (errors < 10 * reconstruction.expected_mse).all()
    assert errors[0] <= 2e-6 < errors[1], "else the case isn't the one reported"
    np.testing.assert_array_equal(reconstruction.exact_if_levels, [True, False])


@pytest.mark.slow
def test_private_training(parts):
    """A maximum a posteriori: near where there is little noise, and never certain."""
    targets = parts.test.take(slice(0, 2))
    errors = {}
    for noise in (0.01, 3.0):
        private = PrivacyConfig(clip_norm=1.0, noise_multiplier=noise)
        factory = make(parts, epochs=30, learning_rate=0.2, privacy=private)
        reconstruction = invert(factory, parts, targets, labels=targets.labels)
        assert not reconstruction.certified.any()
        errors[noise] = informed.mse(targets.images, reconstruction.images)
        quotient = np.median(errors[noise]) / np.median(reconstruction.expected_mse)
        assert 0.1 < quotient < 10
    mean = parts.shadow.images.mean(axis=0)
    of_mean = informed.mse(targets.images, np.stack([mean, mean]))
    assert errors[0.01].max() < 0.4 * of_mean.min()
    assert errors[3.0].max() < 2 * of_mean.max()


@pytest.mark.slow
def test_an_initialisation_that_is_not_told(parts):
    """Nothing is to be had, and the attack expects nothing."""
    targets = parts.test.take(slice(0, 2))
    factory = make(parts, epochs=20, initialisation="random")
    using = Inversion(config=InversionConfig(draws=12))
    reconstruction = invert(factory, parts, targets, using=using, labels=targets.labels)
    assert not reconstruction.certified.any()
    assert informed.mse(targets.images, reconstruction.images).min() > 5e-3
    assert (reconstruction.expected_mse > 5e-3).all()


@pytest.mark.long
def test_a_random_training_takes_its_jacobian_however_large(parts, monkeypatch):
    """The covariance over draws has no matrix-free form; other trainings do without."""
    targets = parts.test.take(slice(0, 1))
    options = {"epochs": 2, "initialisation": "random", "architecture": "affine"}
    using = Inversion(config=InversionConfig(draws=6))

    def fitted() -> np.ndarray:
        factory = make(parts, **options)
        return invert(
            factory, parts, targets, using=using, labels=targets.labels
        ).images

    images = fitted()
    monkeypatch.setattr(solving, "LARGEST_JACOBIAN", 0)
    monkeypatch.setattr(solving, "KRYLOV", 1)
    np.testing.assert_array_equal(fitted(), images)


def test_a_wrong_initialisation_is_not_certified(parts):
    """A planted failure: what the adversary was told is not what happened."""
    factory = make(parts, epochs=20)
    other = np.asarray(factory.algorithm.initialise(jax.random.key(1)))
    targets = parts.test.take(slice(0, 1))
    reconstruction = invert(
        factory, parts, targets, initialisation=other, labels=targets.labels
    )
    assert not reconstruction.certified.any()
    assert informed.mse(targets.images, reconstruction.images).min() > 1e-3
    # What is not explained counts as noise.
    assert reconstruction.expected_mse.min() > 1e-6


def test_a_fixed_set_that_lacks_a_point_is_not_certified(parts):
    factory = make(parts, epochs=20)
    targets = parts.test.take(slice(0, 1))
    fewer = parts.fixed.take(slice(1, None))
    reconstruction = invert(factory, parts, targets, fixed=fewer, labels=targets.labels)
    assert not reconstruction.certified.any()


def test_one_step_of_an_affine_victim_in_closed_form(parts):
    """theta - theta_0 = -(lr / n) (known sum + z r^T): z is a quotient."""
    factory = make(parts, architecture="affine", epochs=1, momentum=0.0)
    targets = parts.test.take(slice(0, 1))
    reconstruction = invert(factory, parts, targets, labels=targets.labels)

    victim = factory.descent.victim
    init = victim.unflatten(jnp.asarray(factory.initialisation))
    trained = victim.unflatten(jnp.asarray(factory.train(targets)[0]))
    x = parts.fixed.images.reshape(100, -1).astype(np.float64)
    errors = np.asarray(jax.nn.softmax(x @ np.asarray(init["output"]["w"], np.float64)))
    errors = errors - np.eye(10)[parts.fixed.labels]
    moved = {
        name: -(np.asarray(trained["output"][name]) - np.asarray(init["output"][name]))
        * (101 / 0.2)
        for name in ("w", "b")
    }
    residual = moved["b"] - errors.sum(axis=0)
    z = (moved["w"] - x.T @ errors) @ residual / (residual @ residual)
    np.testing.assert_allclose(z, targets.images.ravel(), atol=1e-3)
    np.testing.assert_allclose(reconstruction.images.ravel(), z, atol=2e-3)
    assert reconstruction.certified.all()


def test_bad_fields():
    with pytest.raises(ValueError, match=r"steps >= 1, got 0"):
        InversionConfig(steps=0)
    with pytest.raises(ValueError, match=r"engine.*Did you mean 'clouds'"):
        InversionConfig(engine="cloud")
