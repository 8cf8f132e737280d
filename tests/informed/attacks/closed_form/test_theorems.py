"""The closed form against fitted scikit-learn models: the answer is planted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import datasets, linear_model

from benchmarks.glm import reconstruct
from informed.attacks import closed_form
from informed.attacks.impossible import ReconstructionImpossibleError

TIGHT = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}


def relative_error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9), y


@pytest.mark.parametrize(
    ("data", "model"),
    [
        ("diabetes", linear_model.LinearRegression()),
        ("diabetes", linear_model.Ridge(alpha=3.0)),
        ("breast_cancer", linear_model.LogisticRegression(C=0.01, **TIGHT)),
        (
            "breast_cancer",
            linear_model.LogisticRegression(C=0.01, class_weight="balanced", **TIGHT),
        ),
        (
            "breast_cancer",
            linear_model.LogisticRegression(C=0.01, class_weight={0: 4.0}, **TIGHT),
        ),
        ("digits", linear_model.LogisticRegression(C=0.1, **TIGHT)),
        (
            "digits",
            linear_model.LogisticRegression(C=0.1, class_weight="balanced", **TIGHT),
        ),
    ],
    ids=lambda value: str(value).replace("\n", ""),
)
def test_any_training_point_of_real_data(data, model):
    """Relative error of x at most 1e-6, and the label, for tightly solved models."""
    x, y = load(data)
    x, y = x[:400], y[:400]
    model.fit(x, y)
    for target in (0, 57, 301):
        known = np.arange(len(x)) != target
        found = reconstruct(model, x[known], y[known])
        assert relative_error(found.x, x[target]) < 1e-6
        assert found.y == pytest.approx(y[target], rel=1e-9)
        if data == "diabetes":  # real labels: no redundancy to tell by
            assert found.implied_error is None
        else:
            assert found.implied_error < 1e-5


def test_no_error_is_claimed_where_nothing_tells_it():
    """A loosely solved ridge regression, and a point too few among the known ones."""
    x, y = load("diabetes")
    loose = linear_model.Ridge(alpha=1.0, solver="sag", tol=1e-3, random_state=0)
    found = reconstruct(loose.fit(x, y), x[1:], y[1:])
    assert relative_error(found.x, x[0]) > 1e-4
    assert found.implied_error is None
    assert found.gradient_norm is None
    tight = linear_model.Ridge(alpha=1.0).fit(x, y)
    found = reconstruct(tight, x[2:], y[2:])
    assert relative_error(found.x, x[0]) > 1e-2
    assert found.implied_error is None


def test_poisson_recovers_the_count():
    x, y = load("diabetes")
    counts = np.round(y / 20)
    model = linear_model.PoissonRegressor(alpha=1e-3, **TIGHT).fit(x, counts)
    found = reconstruct(model, x[1:], counts[1:])
    assert relative_error(found.x, x[0]) < 1e-6
    assert found.y == counts[0]


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_theorem_8_names_two_candidates_and_both_refit(alpha):
    x, y = load("diabetes")
    model = (
        linear_model.Ridge(alpha=alpha, fit_intercept=False)
        if alpha
        else linear_model.LinearRegression(fit_intercept=False)
    ).fit(x, y)
    candidates = closed_form.reconstruct_without_intercept(
        model.coef_, x[1:], y[1:], target_label=y[0], penalty=alpha
    )
    errors = [relative_error(found.x, x[0]) for found in candidates]
    assert min(errors) < 1e-6
    assert max(errors) > 1e-2
    assert np.linalg.norm(candidates[0].x) < np.linalg.norm(candidates[1].x)
    for found in candidates:
        again = model.fit(np.vstack([found.x, x[1:]]), y).coef_.copy()
        np.testing.assert_allclose(again, model.fit(x, y).coef_, rtol=1e-6)


@given(seed=st.integers(0, 10_000), penalty=st.sampled_from([0.1, 1.0, 30.0]))
def test_ridge_in_closed_form_with_penalised_intercept(seed, penalty):
    """Solved here by the normal equations; both conventions of the intercept."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    ones = np.column_stack([np.ones(20), x])
    for of_intercept in (0.0, penalty):
        ridge = np.diag([of_intercept, *[penalty] * 4])
        solution = np.linalg.solve(ones.T @ ones + ridge, ones.T @ y)
        found = closed_form.reconstruct_glm(
            solution[1:],
            solution[0],
            x[1:],
            y[1:],
            link="identity",
            penalty=penalty,
            intercept_penalty=of_intercept,
        )
        assert relative_error(found.x, x[0]) < 1e-9 / min(found.residual, 1)
        assert found.y == pytest.approx(y[0], abs=1e-7 / min(found.residual, 1))


def test_liblinear_penalises_the_intercept():
    """Read as the other solvers do it, the label is no class, and x far off."""
    x, y = load("breast_cancer")
    model = linear_model.LogisticRegression(
        C=0.01, solver="liblinear", tol=1e-14, max_iter=100_000
    ).fit(x, y)
    right = reconstruct(model, x[1:], y[1:])
    wrong = closed_form.reconstruct_glm(
        model.coef_[0],
        model.intercept_[0],
        x[1:],
        y[1:].astype(float),
        link="logit",
        penalty=100.0,
    )
    assert relative_error(right.x, x[0]) < right.implied_error < 0.02
    assert relative_error(wrong.x, x[0]) > 0.5
    assert wrong.implied_error > 0.5


def test_a_loosely_solved_model_says_so():
    """The attack's own estimate tells."""
    x, y = load("digits")
    x, y = x[:400], y[:400]
    errors, implied = [], []
    for tol in (1e-2, 1e-4, 1e-10):
        model = linear_model.LogisticRegression(C=0.1, tol=tol, max_iter=10_000)
        found = reconstruct(model.fit(x, y), x[1:], y[1:])
        errors.append(relative_error(found.x, x[0]))
        implied.append(found.implied_error)
    assert errors[0] > errors[1] > errors[2]
    for error, bound in zip(errors, implied, strict=True):
        assert 0.1 < bound / error < 100


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            linear_model.LogisticRegression(fit_intercept=False),
            "without intercept.*residual is unknown",
        ),
        (linear_model.LogisticRegression(l1_ratio=1.0, solver="saga"), "l1 penalty"),
        (linear_model.PoissonRegressor(fit_intercept=False), "without intercept"),
        (linear_model.LinearRegression(fit_intercept=False), "without intercept"),
        (linear_model.LinearRegression(positive=True), "positive=True"),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.filterwarnings("ignore")
def test_models_that_cannot_be_inverted_are_refused(model, message):
    x, y = load("breast_cancer")
    with pytest.raises(ReconstructionImpossibleError, match=message):
        reconstruct(model.fit(x, y), x[1:], y[1:])


def test_a_model_that_interpolates_is_refused(rng):
    x, y = rng.normal(size=(10, 12)), rng.normal(size=10)
    model = linear_model.LinearRegression().fit(x, y)
    with pytest.raises(ReconstructionImpossibleError, match="lost in rounding"):
        reconstruct(model, x[1:], y[1:])


def test_a_label_that_no_target_can_have_is_refused():
    x, y = load("diabetes")
    model = linear_model.LinearRegression(fit_intercept=False).fit(x, y)
    with pytest.raises(ReconstructionImpossibleError, match="No target with label 0"):
        closed_form.reconstruct_without_intercept(
            model.coef_, x[1:], y[1:], target_label=0.0
        )


def test_what_does_not_belong_together_is_refused():
    x, y = load("diabetes")
    model = linear_model.Ridge().fit(x, y)
    arguments = model.coef_, model.intercept_, x[1:, :9], y[1:]
    with pytest.raises(ValueError, match=r"fixed set of 10 features.*\(441, 9\)"):
        closed_form.reconstruct_glm(*arguments, link="identity")
    with pytest.raises(ValueError, match=r"link to be one of identity.*'logit'"):
        closed_form.reconstruct_glm(
            model.coef_, model.intercept_, x[1:], y[1:], link="logitt"
        )
    classifier = linear_model.LogisticRegression().fit(x, y > 150)
    with pytest.raises(ValueError, match=r"labels among the model's classes"):
        reconstruct(classifier, x[1:], np.full(441, 7))
