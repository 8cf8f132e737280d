"""Inversion of training that can only be run: scikit-learn's, and gradients of none."""

import jax
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

import informed
import shadow
from informed.attacks.inversion import Inversion
from informed.attacks.inversion.derivatives import (
    Differentiated,
    DifferentiatedPrograms,
)
from informed.attacks.inversion.finite_differences import Repeated
from informed.attacks.inversion.retraining import Programs
from informed.experiment.training_settings import TrainingConfig

KEY = jax.random.key(0)


def sklearn_mlp(images, labels, seed):
    assert images.dtype == np.float32, "as PyTorch needs it"
    model = MLPClassifier(
        (8,),
        activation="tanh",
        solver="sgd",
        learning_rate_init=0.2,
        max_iter=30,
        batch_size=len(images),
        random_state=seed,
    )
    with pytest.warns(ConvergenceWarning):  # thirty epochs are meant
        model.fit(images.reshape(len(images), -1).astype(np.float64), labels)
    return [model.coefs_, model.intercepts_]


@pytest.fixture(scope="module")
def parts(digits):
    return shadow.split(digits, num_fixed=60, num_shadow=300, num_test=3, seed=0)


def test_finite_differences_are_slopes(parts, rng):
    """Against forward mode through the same training."""
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(6,)), image_shape=(8, 8, 1), num_classes=10
    )
    training = TrainingConfig(epochs=15)
    factory = shadow.Factory(
        algorithm=training.algorithm(victim), fixed=parts.fixed, key=KEY, width=4
    )
    told = factory.knowledge()
    settings = {"width": 8, "draws": 2, "key": KEY}
    basis = rng.normal(size=(5, 64))
    images, labels = parts.test.images[:2].astype(np.float64), parts.test.labels[:2]
    exact = Differentiated(DifferentiatedPrograms(told, rank=64, **settings))
    runs = Repeated(Programs(told, **settings))
    expected = exact.slopes(images, labels, basis)
    found = runs.slopes(images, labels, basis)
    assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)
    assert runs.runs == 4 + 2 * 5 + 1


@pytest.mark.slow
def test_exactness_does_not_need_derivatives(parts):
    """scikit-learn's own network; neither its gradients nor the label are told."""
    factory = shadow.Factory(
        algorithm=shadow.PythonFunction(train=sklearn_mlp, version="1"),
        fixed=parts.fixed,
        key=KEY,
        role="released",
    )
    targets = parts.test.take(slice(0, 1))
    told = factory.knowledge(public=parts.shadow)
    release = shadow.publish(factory.train(targets))
    found = Inversion()(release, told, key=KEY)
    assert informed.mse(targets.images, found.images).max() == 0
    assert found.certified.all()
    np.testing.assert_array_equal(found.labels, targets.labels)
