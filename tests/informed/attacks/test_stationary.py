"""Stationary points: planted gradients, an independent float64 network, real digits."""

import dataclasses

import jax
import numpy as np
import pytest

import informed
import shadow
from dp.gradient import PrivacyConfig
from informed.attacks.stationary import StationaryAttack, StationaryConfig
from informed.attacks.stationary.gradients import PenalisedGradients, Spread
from informed.experiment.training_settings import TrainingConfig
from shadow import checks

KEY = jax.random.key(0)
DECAY = 0.02


@pytest.fixture(scope="module")
def parts(digits):
    return shadow.split(digits, num_fixed=60, num_shadow=600, num_test=6, seed=0)


def developer(parts, *, architecture="mlp", widths=(5,), **fields):
    victim = shadow.build_victim(
        shadow.VictimConfig(architecture=architecture, widths=widths),
        image_shape=parts.fixed.image_shape,
        num_classes=10,
    )
    training = {"initialisation": "random", "weight_decay": DECAY} | fields
    return shadow.Factory(
        algorithm=TrainingConfig(**training).algorithm(victim),
        fixed=parts.fixed,
        key=jax.random.key(3),
        role="released",
        width=8,
    )


def loss_by_hand(theta, images, labels):
    """Summed cross-entropy of 64-5-10 with ELU, in NumPy's float64."""
    first_b, first_w = theta[:5], theta[5:325].reshape(64, 5)
    second_b, second_w = theta[325:335], theta[335:].reshape(5, 10)
    hidden = images.reshape(len(images), -1) @ first_w + first_b
    hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
    logits = hidden @ second_w + second_b
    of_truth = logits[np.arange(len(labels)), labels]
    return np.sum(np.log(np.exp(logits).sum(axis=1)) - of_truth)


def differences(function, at, step=1e-5):
    rows = np.eye(len(at)) * step
    return np.array([(function(at + row) - function(at - row)) for row in rows]) / (
        2 * step
    )


@pytest.fixture
def theta(rng):
    return 0.3 * rng.standard_normal(385)


def test_gradients_are_those_of_a_network_written_by_hand(parts, theta):
    descent = developer(parts).descent
    images = parts.fixed.images.astype(np.float64)
    penalty = DECAY * (len(images) + 1)

    def whole(at):
        return loss_by_hand(at, images, parts.fixed.labels) + penalty * at @ at / 2

    with jax.enable_x64(True):
        gradients = PenalisedGradients(descent, parts.fixed)
        known = gradients.known(theta)
        hessian = gradients.hessian(theta)
        np.testing.assert_allclose(known, differences(whole, theta), atol=1e-6)
        some = np.r_[2, 40, 330, 380]
        for i in some:
            step = 1e-5 * np.eye(len(theta))[i]
            column = gradients.known(theta + step) - gradients.known(theta - step)
            np.testing.assert_allclose(hessian[:, i], column / 2e-5, atol=1e-5)
        image = parts.test.images[:1].astype(np.float64)
        slopes = gradients.slopes(theta, image[0], 3)
        label = np.array([3])
        for pixel in (20, 43):
            moved = np.stack([image[0], image[0]])
            moved.reshape(2, -1)[:, pixel] += 1e-6, -1e-6
            pair = gradients.target(theta, moved, np.repeat(label, 2))
            np.testing.assert_allclose(
                slopes[:, pixel], (pair[0] - pair[1]) / 2e-6, atol=1e-6
            )


def test_the_closed_form_reads_a_point_out_of_its_gradient(parts, theta):
    """The gradient is a finite difference of the network written by hand."""
    images, labels = parts.test.images.astype(np.float64), parts.test.labels
    with jax.enable_x64(True):
        gradients = PenalisedGradients(developer(parts).descent, parts.fixed)
    for image, label in zip(images, labels, strict=True):

        def loss(at, image=image, label=label):
            return loss_by_hand(at, image[None], np.array([label]))

        gradient = differences(loss, theta)
        x, scores = gradients.closed_form(gradient)
        np.testing.assert_allclose(x, image.ravel(), atol=1e-6)
        assert scores.argmax() == label


def test_a_planted_spread_is_learned(rng):
    curvatures = 10.0 ** rng.uniform(-3, 2, (20, 500))
    truth = 1e-4 * curvatures**-1.5
    spread = Spread.learned(
        curvatures, rng.standard_normal(truth.shape) * np.sqrt(truth)
    )
    at = 10.0 ** np.linspace(-2.5, 1.5, 9)
    quotients = spread(at) / (1e-4 * at**-1.5)
    assert ((quotients > 0.6) & (quotients < 1.6)).all()
    assert spread(np.array([0.0]))[0] == spread(np.array([1e-9]))[0]


@pytest.fixture(scope="module")
def released(parts):
    factory = developer(parts, epochs=600)
    return factory, shadow.publish(factory.train(parts.test))


def test_no_seed_is_needed_near_a_stationary_point(parts, released):
    factory, release = released
    told = factory.knowledge(public=parts.shadow)
    assert told.initialisation is None
    found = StationaryAttack(StationaryConfig(models=6))(release, told, key=KEY)
    np.testing.assert_array_equal(found.labels, parts.test.labels)
    assert np.median(informed.mse(parts.test.images, found.images)) < 1e-4
    assert (found.expected_mse > 0).all()
    assert found.certified is None, "no certificate is claimed"


@pytest.mark.slow
def test_far_from_one_nothing_comes_out(parts):
    factory = developer(parts, epochs=20, weight_decay=0.0)
    release = shadow.publish(factory.train(parts.test))
    told = factory.knowledge(public=parts.shadow)
    found = StationaryAttack(StationaryConfig(models=6))(release, told, key=KEY)
    errors = informed.mse(parts.test.images, found.images)
    assert np.median(errors) > 0.02
    assert np.median(found.expected_mse) > 0.02, "and the attack knows"


def test_what_it_cannot_attack_is_named(parts, released):
    factory, release = released
    told = factory.knowledge(public=parts.shadow)
    attack = StationaryAttack()
    private = dataclasses.replace(
        factory.descent, privacy=PrivacyConfig(clip_norm=1.0, noise_multiplier=1.0)
    )
    with pytest.raises(checks.FieldError, match="without privacy"):
        attack(release, dataclasses.replace(told, algorithm=private), key=KEY)
    small = StationaryAttack(StationaryConfig(most_params=100))
    with pytest.raises(checks.FieldError, match="at most 100 parameters, got 385"):
        small(release, told, key=KEY)
    function = shadow.JaxFunction(
        train=lambda images, labels, key: images.sum(axis=0), version="1"
    )
    with pytest.raises(checks.FieldError, match="dense first layer"):
        attack(
            shadow.publish(np.zeros((1, 64), np.float32)),
            dataclasses.replace(told, algorithm=function),
            key=KEY,
        )
