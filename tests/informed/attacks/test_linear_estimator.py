"""The closed form on scikit-learn's linear models."""

import jax
import numpy as np
import pytest
from informed.attacks.linear_estimator import LinearEstimatorAttack
from sklearn.datasets import load_wine
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge

import shadow
from informed.threat import Knowledge
from shadow import publish, released


@pytest.fixture(scope="module")
def records():
    """Rows of wines in [0, 1], as images of one row, and whole labels."""
    data, labels = load_wine(return_X_y=True)
    scaled = (data - data.min(axis=0)) / np.ptp(data, axis=0)
    order = np.random.default_rng(0).permutation(len(scaled))
    return shadow.Examples(
        images=scaled[order][:, None, :, None].astype(np.float32),
        labels=labels[order],
        num_classes=3,
    )


KEY = jax.random.key(0)


def flat(examples):
    return examples.images.reshape(len(examples), -1).astype(np.float64)


def with_target(records, make):
    """Fits on 60 known records and one of the next three."""
    known, rows = records.take(slice(0, 60)), []
    for i in range(60, 63):
        target = records.take(slice(i, i + 1))
        x = np.concatenate([flat(known), flat(target)])
        rows.append(make().fit(x, np.append(known.labels, target.labels)))
    return rows


@pytest.mark.parametrize(
    "make", [LinearRegression, lambda: Ridge(0.1), PoissonRegressor]
)
def test_a_regressors_intercept_is_released(records, make):
    """It is a single number there; without it the template's was used."""
    fitted = with_target(records, make)
    names = [part.name for part in released.parts(fitted[0])]
    assert "intercept_" in names
    theta = np.concatenate([np.ravel(p.array) for p in released.parts(fitted[1])])
    again = released.with_theta(fitted[0], theta)
    x = flat(records)
    np.testing.assert_array_equal(again.predict(x), fitted[1].predict(x))


def test_the_closed_form_reads_every_target_of_a_regression(records):
    fitted = with_target(records, lambda: Ridge(0.1))
    thetas = np.stack(
        [np.concatenate([np.ravel(p.array) for p in released.parts(f)]) for f in fitted]
    )
    found = LinearEstimatorAttack(template=fitted[0])(
        shadow.publish(thetas),
        Knowledge(fixed=records.take(slice(0, 60))),
        key=KEY,
    )
    errors = np.abs(found.images - records.images[60:63]).max(axis=(1, 2, 3))
    assert (errors < 1e-3).all()


def examples(rows, labels, num_classes):
    images = np.asarray(rows, np.float32).reshape(len(rows), 1, -1, 1)
    return shadow.Examples(
        images=images, labels=np.asarray(labels, np.int32), num_classes=num_classes
    )


def test_outputs_of_a_regression_are_labels_to_rounding(rng):
    wrong = 0
    for _ in range(10):
        rows, labels = rng.random((40, 6)).astype(np.float32), rng.integers(0, 10, 40)
        model = LinearRegression().fit(rows.astype(np.float64), labels)
        arrays = [np.ravel(part.array) for part in released.parts(model)]
        release = publish(np.concatenate(arrays)[None])
        told = Knowledge(fixed=examples(rows[1:], labels[1:], 10))
        found = LinearEstimatorAttack(template=model)(release, told, key=KEY)
        wrong += found.labels[0] != labels[0]
    assert wrong == 0
