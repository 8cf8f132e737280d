"""Stripped copies predict the same, bit for bit; what they still tell is measured."""

import numpy as np
import pytest
from sklearn import (
    calibration,
    decomposition,
    discriminant_analysis,
    ensemble,
    gaussian_process,
    linear_model,
    model_selection,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
)

import informed
from artefacts import sanitise
from tests.artefacts.planted import answer, check, fitted, table

MODELS = [
    pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression()
    ),
    pipeline.make_pipeline(preprocessing.MinMaxScaler(), svm.SVC()),
    pipeline.make_pipeline(decomposition.PCA(3), naive_bayes.GaussianNB()),
    pipeline.make_pipeline(
        discriminant_analysis.LinearDiscriminantAnalysis(), linear_model.Ridge()
    ),
    discriminant_analysis.LinearDiscriminantAnalysis(),
    naive_bayes.MultinomialNB(),
    naive_bayes.CategoricalNB(min_categories=100_000),
    neighbors.KNeighborsClassifier(),
    gaussian_process.GaussianProcessRegressor(optimizer=None),
    neural_network.MLPClassifier((4,), max_iter=3, random_state=1),
    calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=2),
    ensemble.BaggingClassifier(naive_bayes.GaussianNB(), 3, random_state=0),
    model_selection.GridSearchCV(linear_model.Ridge(), {"alpha": [1, 2]}, cv=2),
    linear_model.LassoCV(cv=2),
]


def outputs(model, x):
    return [
        getattr(model, name)(x)
        for name in ("predict", "predict_proba", "decision_function")
        if hasattr(model, name)
    ]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_predictions_are_equal_bit_for_bit(model):
    x, y = table("wine")
    if isinstance(model, naive_bayes.CategoricalNB):
        x = np.round(x)
    fitted(model, x, y)
    before = set(vars(model))
    stripped = sanitise(model, x[:40])
    assert stripped.equal
    for left, right in zip(
        outputs(model, x), outputs(stripped.estimator, x), strict=True
    ):
        np.testing.assert_array_equal(left, right)
    assert set(vars(model)) == before


def test_what_goes_and_what_stays():
    x, y = table("wine")
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression()
    )
    made = sanitise(fitted(model, x, y))
    assert not hasattr(made.estimator[0], "n_samples_seen_")
    assert not hasattr(made.estimator[0], "var_")
    actions = {each.field: each.action for each in made.removed}
    assert actions["standardscaler.var_"] == "removed"
    assert actions["standardscaler.mean_"] == "kept: predictions need it"


def test_a_step_keeps_what_its_transform_needs():
    """LDA as a model can lose its means; as a step it needs its projection."""
    x, y = table("wine")
    alone = sanitise(discriminant_analysis.LinearDiscriminantAnalysis().fit(x, y))
    assert not hasattr(alone.estimator, "scalings_")
    step = pipeline.make_pipeline(
        discriminant_analysis.LinearDiscriminantAnalysis(), linear_model.Ridge()
    ).fit(x, y)
    assert hasattr(sanitise(step).estimator[0], "scalings_")


@pytest.mark.parametrize(
    "model",
    [
        preprocessing.StandardScaler(),
        naive_bayes.GaussianNB(),
        linear_model.RidgeClassifier(),
        neighbors.KNeighborsClassifier(),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_stripped_count_does_not_hide_the_row(model):
    x, y = table("wine")
    made = informed.sanitise(model.fit(x, y))
    found = answer(made.estimator, x, y, 50)
    check(found, x[50])
    assert found.exact


def test_stripped_means_of_a_discriminant_do_not_hide_the_row():
    """Its coefficients tell the row, to who fits again."""
    x, y = table("iris")
    made = sanitise(discriminant_analysis.LinearDiscriminantAnalysis().fit(x, y))
    found = answer(made.estimator, x, y, 70)
    check(found, x[70])
    assert found.exact
    assert found.y == y[70]


@pytest.mark.parametrize("target", range(0, 100, 5))
def test_a_scaler_that_is_folded_in_hides_nothing(target):
    """StandardScaler and Ridge as one model: the row from what that model stores.

    The penalty acts on standardised columns, so it is alpha times their variances,
    which the missing row x is part of: with m, y_0 the known rows' means, S their
    scatter and n rows, the conditions of the optimum are a quadratic equation for each
    feature of x - m. The intercept gives the residual in them; no label is needed.
    """
    x, y = table("diabetes")
    x, y, alpha = x[:100], y[:100].astype(float), 1.0
    scaler, model = preprocessing.StandardScaler(), linear_model.Ridge(alpha=alpha)
    model.fit(scaler.fit_transform(x), y)
    w = model.coef_[0] if model.coef_.ndim > 1 else model.coef_
    w = w / scaler.scale_
    intercept = float(np.ravel(model.intercept_)[0] - w @ scaler.mean_)

    known, labels = np.delete(x, target, axis=0), np.delete(y, target)
    n, centre, level = len(x), known.mean(axis=0), labels.mean()
    a, c, centred = alpha / n, (n - 1) / n, known - centre
    residual = n * (intercept - level + centre @ w)
    scatter = centred.T @ centred
    left = scatter @ w + a * np.diag(scatter) * w - centred.T @ (labels - level)
    # a w d^2 - residual d + left / c = 0; of the two roots the nearer one.
    root = np.sqrt(residual**2 - 4 * a * w * left / c)
    moved = 2 * left / c / (residual + np.sign(residual) * root)
    np.testing.assert_allclose(centre + moved, x[target], atol=1e-8 * x.std())


def test_wrong_inputs():
    with pytest.raises(ValueError, match="to be a fitted scikit-learn estimator"):
        sanitise("model.pkl")
    model = preprocessing.OneHotEncoder().fit([["a"], ["b"]])
    with pytest.raises(ValueError, match="probe with some real rows"):
        sanitise(model)
    assert sanitise(model, np.array([["a"]], object)).equal
