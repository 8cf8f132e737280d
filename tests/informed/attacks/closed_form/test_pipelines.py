"""`reconstruct_sklearn`: rows that are planted, and known rows that are wrong."""

import numpy as np
import pytest
from sklearn import datasets, ensemble, linear_model, preprocessing, svm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import informed
from shadow.checks import FieldError

TIGHT = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}


def planted(seed, *, classes=2, size=1.0, count=41, features=4):
    """(rows, labels), the target first."""
    rng = np.random.default_rng(seed)
    rows = size * rng.standard_normal((count, features))
    return rows, np.append(np.arange(count - classes) % classes, np.arange(classes))


def read(model, rows, labels, known=None):
    model.fit(rows, labels)
    known = rows[1:] if known is None else known
    return informed.reconstruct_sklearn(model, known, labels[1:])


def test_the_means_of_a_scaler_are_the_row():
    rows, labels = datasets.load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), linear_model.LogisticRegression())
    answer = read(model, rows, labels)
    assert answer.certified
    assert answer.by == "scaler means"
    assert answer.y == labels[0]
    assert np.all(np.abs(answer.value - rows[0]) <= answer.error)
    np.testing.assert_allclose(answer.value, rows[0], atol=1e-9, rtol=1e-9)


def test_a_scaler_without_means_leaves_the_model_to_read():
    rows, labels = planted(0, classes=3)
    model = make_pipeline(
        StandardScaler(with_mean=False), linear_model.RidgeClassifier()
    ).fit(rows, labels)
    model[0].mean_ = None
    answer = informed.reconstruct_sklearn(model, rows[1:], labels[1:])
    assert answer.by == "closed form"
    np.testing.assert_allclose(answer.value, rows[0], rtol=1e-8)


def test_a_scaler_that_saw_other_rows_is_named():
    rows, labels = planted(1)
    model = make_pipeline(StandardScaler(), linear_model.Ridge()).fit(rows, labels)
    answer = informed.reconstruct_sklearn(model, rows[2:], labels[2:])
    assert not answer.certified
    assert "scaler is of 41 other rows" in answer.why


@pytest.mark.parametrize("count", [41, 60])
def test_a_scaler_of_public_rows_hides_nothing(count):
    rows, labels = planted(2, classes=3)
    scaler = StandardScaler().fit(3 + 2 * planted(3, count=count)[0])
    last = linear_model.RidgeClassifier().fit(scaler.transform(rows), labels)
    model = make_pipeline(scaler, last)
    answer = informed.reconstruct_sklearn(model, rows[1:], labels[1:])
    assert answer.certified
    np.testing.assert_allclose(answer.value, rows[0], rtol=1e-7)


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("seed", range(5))
def test_a_wrong_cell_beside_an_id_of_ten_digits_is_not_certified(column, seed):
    """Each column has its own rounding: that of the id hides nothing elsewhere."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack(
        [rng.integers(10**9, 10**10, 41).astype(float), rng.standard_normal(41)]
    )
    labels = np.arange(41) % 2
    model = make_pipeline(StandardScaler(), linear_model.LogisticRegression())
    assert read(model, rows, labels).certified
    known = rows[1:].copy()
    known[seed, column] = rows[0, column] + np.array([12345.0, 0.1])[column]
    assert not read(model, rows, labels, known).certified


def test_columns_of_few_values_are_not_certified():
    """A wrong known value there may equal the missing one, and no moment can tell."""
    rows, labels = planted(2)
    rows[:, 1] = rows[:, 1] > 0
    model = make_pipeline(StandardScaler(), linear_model.LogisticRegression())
    answer = read(model, rows, labels)
    np.testing.assert_allclose(answer.value, rows[0], atol=1e-12)
    assert not answer.certified
    assert "do not confirm columns 1" in answer.why
    # Of a column that is constant in D_-, a known row may have had the target's value.
    rows[:, 3] = np.arange(len(rows)) == 5
    model.fit(rows, labels)
    rows[5, 3] = 0
    answer = informed.reconstruct_sklearn(model, rows[1:], labels[1:])
    assert answer.value[3] == pytest.approx(1)
    assert np.isinf(answer.error[3])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("size", [1e-3, 1.0])
@pytest.mark.parametrize(
    "model",
    [
        linear_model.LogisticRegression(),
        linear_model.LogisticRegression(**TIGHT),
        linear_model.RidgeClassifier(),
    ],
    ids=["default", "tight", "ridge"],
)
def test_no_certificate_with_one_known_row_of_somebody_else(model, size, classes):
    """With one output a label comes out whole for any known rows."""
    for seed in range(8):
        rows, labels = planted(seed, classes=classes, size=size)
        known = rows[1:].copy()
        known[seed] = size * np.random.default_rng(seed + 99).standard_normal(4)
        assert not read(model, rows, labels, known).certified


def test_several_outputs_certify_the_row():
    for model in (
        linear_model.LogisticRegression(**TIGHT),
        linear_model.RidgeClassifier(),
    ):
        rows, labels = planted(3, classes=4)
        answer = read(model, rows, labels)
        assert answer.certified
        assert answer.y == labels[0]
        assert np.all(np.abs(answer.value - rows[0]) <= answer.error)


@pytest.mark.parametrize(
    "model",
    [
        linear_model.LinearRegression(),
        linear_model.Ridge(),
        linear_model.PoissonRegressor(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_regressions_at_library_defaults(model):
    rows, _ = planted(4)
    outputs = np.round(np.exp(1 + rows @ [0.3, -0.2, 0.1, 0.4]))
    answer = read(model, rows, outputs)
    np.testing.assert_allclose(answer.value, rows[0], atol=1e-6)
    assert np.isclose(answer.y, outputs[0], atol=1e-4)
    assert not answer.certified
    assert "one output" in answer.why


def test_a_solver_that_goes_row_by_row_is_an_estimate_without_a_bound():
    rows, labels = planted(5)
    answer = read(linear_model.Ridge(solver="sag", random_state=0), rows, labels)
    assert np.isinf(answer.error).all()
    assert not answer.certified


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("estimator", [linear_model.Ridge, linear_model.RidgeCV])
def test_two_rows_are_possible_without_an_intercept(estimator, scaled):
    rows, _ = planted(6)
    outputs = rows @ [1.0, 2.0, -1.0, 0.5] + np.random.default_rng(6).normal(size=41)
    model = estimator(fit_intercept=False)
    if scaled:
        model = make_pipeline(StandardScaler(with_mean=False), model)
    model.fit(rows, outputs)
    if scaled:
        model[0].mean_ = None
    answer = informed.reconstruct_sklearn(
        model, rows[1:], outputs[1:], target_label=outputs[0]
    )
    assert not answer.certified
    errors = [np.abs(found.x - rows[0]).max() for found in answer.candidates]
    assert min(errors) < 1e-8
    with pytest.raises(informed.ReconstructionImpossibleError, match="target_label"):
        informed.reconstruct_sklearn(model, rows[1:], outputs[1:])


@pytest.mark.parametrize(
    "model",
    [
        ensemble.RandomForestClassifier(2),
        svm.SVC(),
        linear_model.Lasso(),
        make_pipeline(preprocessing.MinMaxScaler(), linear_model.Ridge()),
        make_pipeline(StandardScaler(), svm.SVC()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_models_are_refused_in_one_line_that_lists_what_is_supported(model):
    rows, labels = planted(7)
    with pytest.raises(FieldError, match=r"LogisticRegression.*StandardScaler") as told:
        read(model, rows, labels)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows, labels: (rows[:, :3], labels), "known_rows of 4 features"),
        (lambda rows, labels: (rows, labels[1:]), "known_labels of 40 rows"),
        (lambda rows, labels: (rows, labels * np.inf), "known_labels without missing"),
        (lambda rows, labels: (np.where(rows > 2, np.nan, rows), labels), "missing"),
        (lambda rows, labels: ([["a"] * 4] * 40, labels), "known_rows to be numbers"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(change, message):
    rows, labels = planted(8)
    rows[5, 2] = 3.0
    model = linear_model.Ridge().fit(rows, labels)
    with pytest.raises(FieldError, match=message):
        informed.reconstruct_sklearn(model, *change(rows[1:], labels[1:]))
    with pytest.raises(FieldError, match="to be fitted"):
        informed.reconstruct_sklearn(linear_model.Ridge(), rows, labels)
    half = make_pipeline(StandardScaler(), model)
    with pytest.raises(FieldError, match="to be fitted"):
        informed.reconstruct_sklearn(half, rows, labels)


@pytest.mark.parametrize(
    "model", [linear_model.LogisticRegression(), linear_model.SGDClassifier()]
)
def test_labels_that_the_model_has_no_class_for_are_refused(model):
    rows, labels = planted(8)
    model.fit(rows, labels)
    with pytest.raises(FieldError, match=r"known_labels of the model's classes.*\[7\]"):
        informed.reconstruct_sklearn(model, rows[1:], np.append(labels[2:], 7))
