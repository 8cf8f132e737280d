"""Derivatives by the answer of the known points: against those of training itself."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import shadow
from informed.attacks.inversion import response
from informed.attacks.inversion.derivatives import (
    Differentiated,
    DifferentiatedPrograms,
)
from informed.attacks.inversion.inversion_config import InversionConfig
from informed.attacks.inversion.shared_measurements import SharedMeasurements
from informed.experiment.training_settings import TrainingConfig
from shadow.training import cross_entropy
from shadow.training import gram_form as span


@pytest.fixture
def slopes(split, rng, monkeypatch):
    """Of theta, by known points repeated so often, and by whether they answer."""

    def made(repeats, *, answering, **fields):
        monkeypatch.setattr(response, "_FEWEST", 0 if answering else 10**9)
        fixed = dataclasses.replace(
            split.fixed,
            images=np.tile(split.fixed.images, (repeats, 1, 1, 1)),
            labels=np.tile(split.fixed.labels, repeats),
        )
        factory = shadow.Factory(
            algorithm=TrainingConfig(**({"epochs": 20} | fields)).algorithm(
                shadow.build_victim(
                    shadow.VictimConfig(widths=(6,)),
                    image_shape=(8, 8, 1),
                    num_classes=10,
                )
            ),
            fixed=fixed,
            key=jax.random.key(7),
            role="released",
        )
        runs = Differentiated(
            DifferentiatedPrograms(
                factory.knowledge(), rank=64, width=4, draws=3, key=jax.random.key(5)
            )
        )
        target = split.test.images[:1].astype(np.float64)
        with jax.enable_x64():
            found = runs.slopes(target, split.test.labels[:1], np.eye(64))
        assert runs.by_response == answering
        return found

    return made


@pytest.mark.parametrize("fields", [{}, {"momentum": 0.0, "weight_decay": 0.02}])
def test_what_is_neglected_falls_with_the_target_s_share(slopes, fields):
    """Known points said k times train alike, and the target weighs 1 / k of it."""
    errors = []
    for repeats in (1, 8):
        exact = slopes(repeats, answering=False, **fields)
        found = slopes(repeats, answering=True, **fields)
        errors.append(np.abs(found - exact).max() / np.abs(exact).max())
    assert errors[1] < errors[0] / 5
    assert errors[1] < 0.02


def test_one_step_has_nothing_to_answer(slopes):
    """After one step theta is theta_0 less the gradients, each its own."""
    exact = slopes(1, answering=False, epochs=1)
    np.testing.assert_allclose(
        slopes(1, answering=True, epochs=1), exact, atol=1e-6 * np.abs(exact).max()
    )


@pytest.fixture
def pieces(split):
    """A loss, and what of D_- and theta_0 it is asked at, in float64."""
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(3,), activation="tanh"),
        image_shape=(8, 8, 1),
        num_classes=10,
    )
    with jax.enable_x64():
        params = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, float), victim.init(jax.random.key(0))
        )
        w, rest = span.split_first(victim.first, params)
        flat, unravel = ravel_pytree(rest)
        images = jnp.asarray(split.fixed.images.reshape(len(split.fixed), -1), float)
        labels = jnp.asarray(split.fixed.labels)
        yield (
            response.Loss(victim.first, unravel, len(images) + 1),
            w,
            flat,
            (images, labels),
        )


def plain(loss, w, rest, images, labels):
    """The same loss in the weights themselves."""
    logits = loss.first.after(loss.unravel(rest), w.T @ images.T)
    return cross_entropy(logits, labels).sum() / loss.count


def test_the_trajectory_is_that_of_plain_gradient_descent(pieces):
    loss, w, rest, data = pieces
    train = functools.partial(response.trajectory_of, loss, optax.sgd(0.3), 4)
    found = jax.jit(train)(w, rest, *data)
    slopes = jax.jit(jax.grad(lambda w, rest: plain(loss, w, rest, *data), (0, 1)))
    for step in range(4):
        np.testing.assert_allclose(found.weights[step], w.T, atol=1e-12)
        np.testing.assert_allclose(found.rest[step], rest, atol=1e-12)
        of_w, of_rest = slopes(w, rest)
        w, rest = w - 0.3 * of_w, rest - 0.3 * of_rest


def test_the_curvature_is_the_hessian_in_the_first_directions(pieces, rng):
    """By `jax.hessian` of the plain loss, along five orthonormal directions."""
    loss, w, rest, (images, labels) = pieces
    lead = np.linalg.qr(rng.normal(size=(64, 5)))[0].T
    size = w.shape[1] * len(lead)

    def along(moves):
        moved = w + lead.T @ moves[:size].reshape(w.shape[1], -1).T
        return plain(loss, moved, rest + moves[size:], images, labels)

    def gradients(rest, outputs):
        return loss.gradients(rest, outputs, labels)

    curvature = jax.jit(lambda *at: response.curvature(gradients, *at))
    found = curvature(rest, w.T @ images.T, images @ lead.T)
    expected = jax.jit(jax.hessian(along))(jnp.zeros(size + len(rest)))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("misleading", "answering", "prefer_clouds"),
    [(0.2, False, False), (0.4, False, True), (0.4, True, False), (0.6, True, True)],
)
def test_derivatives_by_response_may_be_farther_off(
    misleading, answering, prefer_clouds, split, monkeypatch
):
    monkeypatch.setattr(response, "_FEWEST", 0 if answering else 10**9)
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(6,)), image_shape=(8, 8, 1), num_classes=10
    )
    training = TrainingConfig(epochs=2)
    factory = shadow.Factory(
        algorithm=training.algorithm(victim), fixed=split.fixed, key=jax.random.key(7)
    )
    told = factory.knowledge(public=split.shadow)
    shared = SharedMeasurements(InversionConfig(), told, jax.random.key(5))
    shared.__dict__ |= {"curvature": 0.05, "misleading": misleading}
    assert shared.prefer_clouds is prefer_clouds
