"""Training inversion: planted answers on real digits, and failures it must notice."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import informed
import shadow
from informed.attacks import inversion
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.threat import Knowledge, Release

QUICK = TrainingInversion(InversionConfig(components=(16,)))


@pytest.fixture(scope="module")
def parts(digits):
    return shadow.split(digits, num_fixed=100, num_shadow=600, num_test=3, seed=0)


def make(parts, *, architecture="mlp", **fields):
    config = shadow.VictimConfig(architecture=architecture, widths=(8,))
    return shadow.Factory(
        victim=shadow.build_victim(config, image_shape=(8, 8, 1), num_classes=10),
        training=shadow.TrainingConfig(**fields),
        fixed=parts.fixed,
        key=jax.random.key(7),
        role="released",
        width=4,
    )


def attack(factory, parts, targets, **told):
    knowledge = Knowledge.informed(factory, public=parts.shadow)
    release = Release(weights=factory.train(targets))
    return QUICK(release, dataclasses.replace(knowledge, **told), key=jax.random.key(0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [{"epochs": 60}, {"epochs": 10, "batch_size": 25, "learning_rate": 0.05}],
    ids=str,
)
def test_the_target_is_read_back_exactly_and_the_attack_knows(parts, fields):
    """Without its label; full batch, and mini-batches in a known order."""
    targets = parts.test.take(slice(0, 2))
    found = attack(make(parts, **fields), parts, targets)
    assert informed.mse(targets.images, found.images).max() < 1e-10
    np.testing.assert_array_equal(found.labels, targets.labels)
    assert found.certified.all()


def test_a_wrong_initialisation_is_not_certified(parts):
    """A planted failure: what the adversary was told is not what happened."""
    factory = make(parts, epochs=20)
    other = np.asarray(factory.victim.flatten(factory.victim.init(jax.random.key(1))))
    targets = parts.test.take(slice(0, 1))
    found = attack(factory, parts, targets, initialisation=other, labels=targets.labels)
    assert not found.certified.any()
    assert informed.mse(targets.images, found.images).min() > 1e-3


def test_one_step_of_an_affine_victim_in_closed_form(parts):
    """theta - theta_0 = -(lr / n) (known sum + z r^T): z is a quotient."""
    factory = make(parts, architecture="affine", epochs=1, momentum=0.0)
    targets = parts.test.take(slice(0, 1))
    found = attack(factory, parts, targets, labels=targets.labels)

    init = shadow.shared_initialisation(factory.victim, factory.key)
    trained = factory.victim.unflatten(jnp.asarray(factory.train(targets)[0]))
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
    np.testing.assert_allclose(found.images.ravel(), z, atol=2e-3)
    assert found.certified.all()


def test_derivatives_of_the_training_against_differences(parts):
    """In float64: the Jacobian's columns are slopes of A."""
    factory = make(parts, epochs=5)
    with jax.enable_x64():
        problem = inversion._Problem(
            Knowledge.informed(factory), InversionConfig(tangents=16)
        )
        u = np.random.default_rng(0).normal(size=64)
        value, jacobian = problem.jacobian(u, 3, 20)
        step = 1e-6
        for column in (0, 7, 19):
            near = np.stack([u, u])
            near[0, column] += step
            near[1, column] -= step
            up, down = problem.thetas(near, 3)
            np.testing.assert_allclose(
                jacobian[:, column], (up - down) / (2 * step), atol=1e-6
            )
        np.testing.assert_allclose(value, problem.thetas(u[None], 3)[0], atol=1e-12)


def test_components_span_all_images(rng):
    images = rng.random((40, 4, 4, 1), dtype=np.float32)
    images[:, 0] = 0  # pixels that never vary
    mean, basis = inversion.principal_components(images)
    assert np.linalg.matrix_rank(basis) == 16
    np.testing.assert_allclose(mean, images.mean(axis=0).ravel(), atol=1e-6)
    centred = images.reshape(40, -1) - mean
    coordinates = centred @ np.linalg.inv(basis)
    np.testing.assert_allclose(coordinates[:, :12].std(axis=0, ddof=1), 1, rtol=1e-3)
    np.testing.assert_allclose(coordinates[:, 12:], 0, atol=1e-3)


def test_what_it_needs_to_be_told(parts):
    factory = make(parts, epochs=1, batch_size=10)
    knowledge = dataclasses.replace(
        Knowledge.informed(factory), initialisation=None, shuffling_key=None
    )
    release = Release(weights=np.zeros((1, factory.victim.num_params), np.float32))
    with pytest.raises(ValueError, match="told initialisation, shuffling_key"):
        QUICK(release, knowledge, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"inversion\.steps >= 1, got 0"):
        InversionConfig(steps=0)
