"""Derivatives of whole training runs: against differences, and each other."""

import dataclasses

import jax
import numpy as np
import pytest

import shadow
from informed.attacks.inversion.derivatives import (
    Differentiated,
    DifferentiatedPrograms,
)
from informed.attacks.inversion.finite_differences import Repeated
from informed.attacks.inversion.retraining import Programs
from informed.experiment.training_settings import TrainingConfig


def make(split, *, widths=(6,), architecture="mlp", **fields):
    return shadow.Factory(
        algorithm=TrainingConfig(**({"epochs": 8} | fields)).algorithm(
            shadow.build_victim(
                shadow.VictimConfig(architecture=architecture, widths=widths),
                image_shape=(8, 8, 1),
                num_classes=10,
            )
        ),
        fixed=split.fixed,
        key=jax.random.key(7),
        role="released",
        width=4,
    )


def retraining(factory, *, rank=64, plain=False, **told):
    knowledge = dataclasses.replace(factory.knowledge(), **told)
    if plain:
        victim = dataclasses.replace(factory.descent.victim, first=None)
        plainly = dataclasses.replace(factory.descent, victim=victim)
        knowledge = dataclasses.replace(knowledge, algorithm=plainly)
    return Differentiated(
        DifferentiatedPrograms(
            knowledge, rank=rank, width=4, draws=3, key=jax.random.key(5)
        )
    )


@pytest.fixture
def points(split, rng):
    """Two unknown points, and some directions, without pixels that are always black.

    There Adam's first step is a sign, which has no slope.
    """
    images = split.test.images[:2].astype(np.float64)
    alive = split.fixed.images.std(axis=0).ravel() > 0
    return images, split.test.labels[:2], rng.normal(size=(7, 64)) * alive[None]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"weight_decay": 0.02, "momentum": 0.0},
        {"optimiser": "adam", "learning_rate": 0.01},
        {"batch_size": 11},
        {"architecture": "affine"},
        {"widths": (6, 5)},
    ],
    ids=str,
)
@pytest.mark.parametrize("unknown", [1, 2])
def test_slopes_are_slopes(fields, unknown, split, points):
    """In float64, against central differences; one unknown point and two."""
    images, labels, basis = points[0][:unknown], points[1][:unknown], points[2]
    with jax.enable_x64():
        runs = retraining(make(split, **fields))
        slopes = runs.slopes(images, labels, basis)
        step = 1e-5
        for point in range(unknown):
            for column in (0, 6):
                near = np.stack([images, images])
                move = step * basis[column].reshape(8, 8, 1)
                near[0, point] += move
                near[1, point] -= move
                up, down = runs.thetas(near, np.stack([labels, labels]))
                np.testing.assert_allclose(
                    slopes[:, point * len(basis) + column],
                    (up - down) / (2 * step),
                    rtol=2e-5,
                    atol=2e-7,
                )


@pytest.mark.parametrize("rank", [64, 10])
def test_slopes_in_span_and_plain(rank, split, points):
    """Equal at full rank; at a smaller one right where the basis is that small."""
    images, labels, basis = points
    with jax.enable_x64():
        factory = make(split, weight_decay=0.01)
        plain = retraining(factory, plain=True)
        assert plain.span is None
        expected = plain.slopes(images, labels, basis)
        thin = retraining(factory, rank=rank)
        assert thin.span is not None
        found = thin.slopes(images, labels, basis)
    atol = 1e-9 if rank == 64 else 0.05 * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=atol)


@pytest.mark.parametrize("unknown", [1, 2])
def test_what_is_known_of_slopes_leaves_inner_products(unknown, split, points):
    """All but the known part of the Jacobian is a mixture of the features' slopes."""
    images, labels = points[0][:unknown], points[1][:unknown]
    with jax.enable_x64():
        runs = retraining(make(split, weight_decay=0.01), rank=55)
        local = runs.local(images, labels, np.eye(64))
        slopes = runs.slopes(images, labels, np.eye(64)).T
        assert runs.local(images, labels, np.eye(64)[:55]) is None, "enough clouds"
    assert local is not None

    def outside(rows):
        found = np.linalg.lstsq(local.features, rows)[0]
        return np.linalg.norm(rows - local.features @ found) / np.linalg.norm(slopes)

    assert outside(slopes - local.known) < 1e-3
    assert outside(slopes) > 0.03


def test_pushes_and_pulls_are_the_jacobian_and_its_transpose(split, points, rng):
    images, labels, _ = points
    with jax.enable_x64():
        runs = retraining(make(split, batch_size=20))
        jacobian = runs.slopes(images, labels, np.eye(64))
        tangent, slope = rng.normal(size=images.shape), rng.normal(size=len(jacobian))
        np.testing.assert_allclose(
            runs.pushes(images, labels, tangent), jacobian @ tangent.ravel(), atol=1e-9
        )
        np.testing.assert_allclose(
            runs.pulls(images, labels, slope).ravel(), jacobian.T @ slope, atol=1e-9
        )


def test_theta_is_the_developers(split):
    """Several unknown points: the same as a fixed set that holds all but the last."""
    factory = make(split, batch_size=20)
    runs = retraining(factory)
    one = runs.thetas(split.test.images[:3, None], split.test.labels[:3, None])
    np.testing.assert_allclose(one, factory.train(split.test)[:3], atol=2e-6)

    larger = dataclasses.replace(
        factory,
        fixed=dataclasses.replace(
            split.fixed,
            images=np.concatenate([split.fixed.images, split.test.images[:1]]),
            labels=np.concatenate([split.fixed.labels, split.test.labels[:1]]),
        ),
    )
    both = runs.thetas(split.test.images[None, :2], split.test.labels[None, :2])
    expected = larger.train(split.test.take(slice(1, 2)))
    np.testing.assert_allclose(both, expected, atol=2e-6)


@pytest.mark.slow
def test_randomness_that_is_not_told_is_averaged(split):
    factory = make(split, batch_size=20)
    images, labels = split.test.images[:1], split.test.labels[:1]
    for untold in ({"initialisation": None}, {"training_key": None}):
        runs = retraining(factory, **untold)
        assert runs.random
        draws = runs.draws(images, labels)
        assert draws.shape == (3, factory.descent.victim.num_params)
        assert draws.std(axis=0).max() > 1e-3
        mean = runs.thetas(images[None], labels[None])[0]
        np.testing.assert_allclose(mean, draws.mean(axis=0), atol=1e-5)
    assert not retraining(factory).random


def test_what_it_needs_to_be_told(split):
    with pytest.raises(ValueError, match="told fixed, algorithm; this adversary isn't"):
        retraining(make(split), fixed=None, algorithm=None)


def test_points_that_were_asked_for_lately_are_not_trained_on_again(split):
    runs = retraining(make(split))
    rows = np.arange(24) % len(split.test)
    images = split.test.images[rows][:, None]
    images = images * np.linspace(0.5, 1, 24)[:, None, None, None, None]
    labels = split.test.labels[rows][:, None]
    first = runs.thetas(images[:8], labels[:8])
    assert runs.runs == 8
    np.testing.assert_array_equal(runs.thetas(images[:8], labels[:8]), first)
    np.testing.assert_array_equal(runs.thetas(images[:1], labels[:1])[0], first[0])
    assert runs.runs == 8
    # One of several is new; then one has another label.
    runs.thetas(images[1:9], labels[1:9])
    assert runs.runs == 16
    other = runs.thetas(images[:1], (labels[:1] + 1) % 10)
    assert runs.runs == 17
    assert not np.array_equal(other[0], first[0])
    # The oldest are forgotten, and come out the same.
    runs.thetas(images[9:24], labels[9:24])
    assert runs.runs == 32
    np.testing.assert_array_equal(runs.thetas(images[:8], labels[:8]), first)
    assert runs.runs == 40


def test_rounding_is_measured_once_for_each_start(split):
    runs = retraining(make(split))
    image, label = split.test.images[:1], split.test.labels[:1]
    first, trained = runs.rounding(image, label), runs.runs
    spacing = np.finfo(np.float32).eps
    assert 0 < first < (100 * spacing) ** 2 * runs.num_params
    runs.thetas(split.test.images[1:20, None], split.test.labels[1:20, None])
    before = runs.runs
    assert runs.rounding(image, label) == first
    assert runs.runs == before
    runs.rounding(image, (label + 1) % 10)
    assert runs.runs == before + trained


def test_what_is_kept_is_of_one_start(split):
    factory = make(split)
    starts = np.stack([factory.initialisation, 2 * factory.initialisation])
    runs = retraining(factory, initialisation=starts)
    images, labels = split.test.images[:1, None], split.test.labels[:1, None]
    first = runs.thetas(images, labels)
    first[:] = 0  # Whoever asked may do what they like with the answer.
    other = runs.at(1)
    assert not np.array_equal(other.thetas(images, labels), runs.thetas(images, labels))
    assert runs.thetas(images, labels).any()
    assert (runs.runs, other.runs) == (1, 1)


def test_training_that_is_not_deterministic_is_run_again(split):
    def shape(images, labels, key):
        return images.sum(axis=0)

    factory = shadow.Factory(
        algorithm=shadow.PythonFunction(train=shape, version="1", deterministic=False),
        fixed=split.fixed,
        key=jax.random.key(7),
    )
    told = factory.knowledge()
    runs = Repeated(Programs(told, width=2, draws=1, key=jax.random.key(5)))
    for count in (1, 2, 3):
        runs.thetas(split.test.images[:1, None], split.test.labels[:1, None])
        assert runs.runs == count
