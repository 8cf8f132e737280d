"""Readers against fitted scikit-learn estimators: the answer is planted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import (
    cluster,
    covariance,
    decomposition,
    discriminant_analysis,
    dummy,
    gaussian_process,
    impute,
    kernel_ridge,
    linear_model,
    naive_bayes,
    neighbors,
    preprocessing,
    svm,
)
from sklearn.feature_extraction.text import (
    CountVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)

from artefacts import reconstruct
from artefacts.glm import ReconstructionImpossibleError
from artefacts.readers import order, rows
from tests.artefacts.planted import answer, check, fitted, table

NEWTON = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
WHOLE = [
    (preprocessing.StandardScaler(), "breast_cancer", True),
    (preprocessing.PowerTransformer(), "wine", True),
    (preprocessing.QuantileTransformer(), "wine", False),
    (impute.SimpleImputer(), "diabetes", False),
    (decomposition.PCA(3), "wine", True),
    (decomposition.IncrementalPCA(3), "wine", True),
    (covariance.EmpiricalCovariance(), "diabetes", True),
    (covariance.LedoitWolf(), "wine", True),
    (cluster.KMeans(4, n_init=1, random_state=0), "wine", True),
    (naive_bayes.GaussianNB(), "wine", True),
    (naive_bayes.MultinomialNB(), "digits", False),
    (naive_bayes.ComplementNB(), "digits", False),
    (naive_bayes.CategoricalNB(), "digits", False),
    (discriminant_analysis.LinearDiscriminantAnalysis(), "wine", True),
    (discriminant_analysis.QuadraticDiscriminantAnalysis(), "wine", True),
    (neighbors.NearestCentroid(), "wine", True),
    (neighbors.KNeighborsClassifier(), "digits", True),
    (neighbors.LocalOutlierFactor(), "wine", True),
    (kernel_ridge.KernelRidge(kernel="rbf"), "diabetes", True),
    (
        gaussian_process.GaussianProcessRegressor(optimizer=None, normalize_y=True),
        "diabetes",
        True,
    ),
    (linear_model.LinearRegression(), "diabetes", True),
    (linear_model.Ridge(), "diabetes", False),
    (linear_model.RidgeCV(), "diabetes", False),
    (linear_model.BayesianRidge(), "diabetes", False),
    (linear_model.RidgeClassifier(class_weight="balanced"), "wine", True),
    (linear_model.PoissonRegressor(**NEWTON), "diabetes", False),
    (linear_model.GammaRegressor(), "diabetes", False),
    (linear_model.TweedieRegressor(power=1.5, link="log"), "diabetes", False),
    (
        svm.LinearSVR(loss="squared_epsilon_insensitive", dual=False),
        "diabetes",
        False,
    ),
]
LABELLED = (
    "GaussianNB",
    "MultinomialNB",
    "ComplementNB",
    "CategoricalNB",
    "LinearDiscriminantAnalysis",
    "NearestCentroid",
    "KNeighborsClassifier",
    "KernelRidge",
    "GaussianProcessRegressor",
    "LinearRegression",
    "Ridge",
    "RidgeClassifier",
    "PoissonRegressor",
    "LinearSVR",
)


def name_of(value):
    return type(value).__name__ if hasattr(value, "fit") else None


@pytest.mark.parametrize(("estimator", "data", "confirmed"), WHOLE, ids=name_of)
def test_the_whole_row(estimator, data, confirmed):
    """Every feature to rounding, the label where there is one, with a certificate."""
    x, y = table(data, 300)
    fitted(estimator, x, y)
    for target in (11, 123):
        found = answer(estimator, x, y, target)
        check(found, x[target])
        assert found.exact
        assert found.certified is confirmed
        if name_of(estimator) in LABELLED:
            assert found.y == pytest.approx(y[target], rel=1e-6)


@pytest.mark.parametrize(
    ("estimator", "data"),
    [(e, d) for e, d, confirmed in WHOLE if confirmed],
    ids=name_of,
)
def test_other_rows_are_not_confirmed(estimator, data):
    """A known row of the target's own class is another one: nothing is determined."""
    x, y = table(data, 300)
    fitted(estimator, x, y)
    target = 11
    rest = np.arange(len(x)) != target
    known, labels = x[rest], y[rest]
    groups = estimator.predict(x) if name_of(estimator) == "KMeans" else y
    near = np.argsort(np.abs(groups[rest] - groups[target]), kind="stable")[:2]
    known = known.copy()
    known[near[0]] = known[near[1]]
    found = reconstruct(estimator, known, labels)
    assert not found.certified
    assert found.refuted
    assert not found.determined.any()


# Finding 34: of 6 rows of 10 features, how many must be bounded, and determined.
# Extremes bound all, and three rows hold one each; a median that moved bounds its
# column on one side; coefficients that are not zero bound, or determine, features.
INTERVALS = [
    (preprocessing.MinMaxScaler(), 60, 3),
    (preprocessing.MaxAbsScaler(), 60, 0),
    (preprocessing.RobustScaler(), 30, 0),
    (preprocessing.KBinsDiscretizer(), 60, 3),
    (impute.SimpleImputer(strategy="median"), 10, 0),
    (linear_model.Lasso(alpha=0.1), 60, 0),
    (linear_model.ElasticNet(alpha=0.01), 60, 30),
    (linear_model.LassoCV(), 60, 0),
]


@pytest.mark.parametrize(("estimator", "bounded", "exact"), INTERVALS, ids=name_of)
@pytest.mark.filterwarnings("ignore")
def test_intervals_hold_the_row_and_extremes_are_exact(estimator, bounded, exact):
    x, y = table("diabetes", 150)
    fitted(estimator, x, y)
    told = limited = 0
    for target in (0, 40, 80, *x.argmax(axis=0)[2:5]):
        found = answer(estimator, x, y, target)
        check(found, x[target])
        told += found.determined.sum()
        limited += (np.isfinite(found.lower) | np.isfinite(found.upper)).sum()
    assert limited >= bounded
    assert told >= exact


@settings(max_examples=40)
@given(
    known=st.lists(st.integers(-20, 20), min_size=3, max_size=12),
    x=st.integers(-25, 25),
    q=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]),
)
def test_the_preimage_of_a_percentile_holds_x_and_nothing_else(known, x, q):
    """Against numpy's percentile, on a fine grid of candidates."""
    stored = np.quantile([*known, x], q)
    f, bends = order.percentile(np.sort(np.array(known, float)), q)
    parts = order.preimage(f, bends, float(stored), 1e-9)
    for candidate in np.linspace(-30, 30, 41):
        inside = any(low <= candidate <= high for low, high in parts)
        gives = abs(np.quantile([*known, candidate], q) - stored) <= 1e-9
        assert inside == gives


def test_support_vectors_tell_the_row_if_it_is_one():
    x, y = table("wine")
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    model = svm.SVC().fit(x, y)
    kept = set(model.support_.tolist())
    for target in (3, 40, 90, 120, 150):
        found = answer(model, x, y, target)
        check(found, x[target])
        assert found.exact == (target in kept)
        assert found.y == (y[target] if target in kept else None)


def test_a_row_that_equals_a_known_one_is_found():
    stored = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [5.0, 6.0]])
    assert rows.unmatched(stored, stored[[0, 1, 3]]).tolist() == [2]
    assert rows.unmatched(stored, stored[[1, 3]]).tolist() == [0, 2]


def test_an_imputer_says_nothing_where_the_value_may_be_missing():
    x, _ = table("diabetes", 100)
    x = x.copy()
    x[7, 2] = np.nan
    model = impute.SimpleImputer().fit(x)
    rest = np.arange(100) != 7
    found = reconstruct(model, x[rest])
    assert not found.determined[2]
    assert found.determined.sum() == 9
    np.testing.assert_allclose(found.value[found.determined], np.delete(x[7], 2))


def test_a_scaler_knows_whether_a_value_is_missing():
    x, _ = table("diabetes", 100)
    x = x.copy()
    x[7, 2] = x[30, 4] = np.nan
    model = preprocessing.StandardScaler().fit(x)
    found = reconstruct(model, np.delete(x, 7, axis=0))
    assert found.determined.tolist() == [j != 2 for j in range(10)]
    np.testing.assert_allclose(found.value[4], x[7, 4])


@pytest.mark.parametrize("kind", ["MultinomialNB", "CategoricalNB", "BernoulliNB"])
def test_counts_that_no_row_explains_refute_the_known_rows(kind):
    x, y = table("digits", 100)
    model = getattr(naive_bayes, kind)().fit(x, y)
    rest = np.arange(100) != 30
    known = x[rest].copy()
    same = np.flatnonzero(y[rest] == y[30])
    known[same[0]] = 16 - known[same[0]]
    assert reconstruct(model, known, y[rest]).refuted


def test_presences_of_a_bernoulli_model():
    x, y = table("digits", 100)
    found = answer(naive_bayes.BernoulliNB().fit(x, y), x, y, 30)
    check(found, x[30])
    np.testing.assert_array_equal(found.lower > 0, x[30] > 0)
    np.testing.assert_array_equal(found.upper == 0, x[30] == 0)
    assert found.y == y[30]


def test_words_of_the_missing_text():
    texts = ["the cat sat", "a dog sat there", "the bird sang", "cat and dog"]
    known = texts[:1] + texts[2:]
    counts = reconstruct(CountVectorizer().fit(texts), known)
    assert counts.words == {"there"}
    for smooth in (True, False):
        model = TfidfVectorizer(smooth_idf=smooth).fit(texts)
        found = reconstruct(model, known)
        assert found.words == {"dog", "sat", "there"}
    refuted = reconstruct(TfidfVectorizer().fit(texts), ["the cat", *known[1:]])
    assert refuted.refuted


def test_idf_tells_which_counts_are_zero():
    x, _ = table("digits", 100)
    found = answer(TfidfTransformer().fit(x), x, None, 4)
    np.testing.assert_array_equal(found.lower > 0, x[4] > 0)
    check(found, x[4])


def test_a_category_that_nobody_else_has():
    x = np.array([["red", "s"], ["blue", "m"], ["red", "l"], ["blue", "s"]], object)
    model = preprocessing.OneHotEncoder().fit(x)
    found = reconstruct(model, x[[0, 1, 3]])
    assert found.value.tolist() == [None, "l"]
    assert found.determined.tolist() == [False, True]


def test_the_label_alone():
    x, y = table("wine")
    found = answer(dummy.DummyClassifier().fit(x, y), x, y, 100)
    assert found.y == y[100]
    assert not found.determined.any()
    found = answer(dummy.DummyRegressor().fit(x, y * 1.5), x, y * 1.5, 100)
    assert found.y == pytest.approx(y[100] * 1.5)


@pytest.mark.parametrize("weight", [None, "balanced", {0: 3.0}], ids=str)
def test_logistic_regression_with_class_weights(weight):
    x, y = table("breast_cancer", 300)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    model = linear_model.LogisticRegression(C=0.1, class_weight=weight, **NEWTON)
    model.fit(x, y)
    for target in (5, 200):
        found = answer(model, x, y, target)
        check(found, x[target])
        assert found.exact
        assert found.certified
        assert found.y == y[target]


@pytest.mark.parametrize(
    "estimator",
    [
        linear_model.Ridge(),
        linear_model.PoissonRegressor(alpha=0.1, **NEWTON),
        linear_model.LinearRegression(),
    ],
    ids=name_of,
)
def test_sample_weights(estimator):
    x, y = table("diabetes", 200)
    weights = np.linspace(0.5, 2.0, 200)
    estimator.fit(x, y, sample_weight=weights)
    rest = np.arange(200) != 30
    found = reconstruct(
        estimator,
        x[rest],
        y[rest],
        sample_weight=weights[rest],
        target_weight=weights[30],
    )
    check(found, x[30])
    assert found.exact
    assert found.y == pytest.approx(y[30])
    unweighted = reconstruct(estimator, x[rest], y[rest])
    assert np.abs(unweighted.value - x[30]).max() > 1e-3


def test_several_outputs_confirm_each_other():
    x, y = table("diabetes", 200)
    both = np.column_stack([y, x @ np.arange(10)])
    model = linear_model.Ridge(alpha=0.1).fit(x, both)
    found = answer(model, x, both, 9)
    check(found, x[9])
    assert found.certified
    np.testing.assert_allclose(found.y, both[9])


def test_a_tight_lasso_determines_its_active_features():
    x, y = table("diabetes")
    model = linear_model.Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(x, y)
    found = answer(model, x, y, 20)
    check(found, x[20])
    np.testing.assert_array_equal(found.determined, model.coef_ != 0)
    assert found.y == pytest.approx(y[20])


def test_a_loose_solver_gives_an_estimate_and_says_so():
    x, y = table("digits", 300)
    model = fitted(linear_model.LogisticRegression(max_iter=30), x, y)
    found = answer(model, x, y, 20)
    assert not found.determined.any()
    assert not found.certified


def test_what_cannot_be_inverted_is_refused():
    x, y = table("breast_cancer", 200)
    hinge = fitted(svm.LinearSVC(loss="hinge", dual=True), x, y)
    with pytest.raises(ReconstructionImpossibleError, match="only the squared hinge"):
        answer(hinge, x, y, 3)
    lasso = fitted(linear_model.Lasso(positive=True), x, y)
    with pytest.raises(ReconstructionImpossibleError, match="positive=True"):
        answer(lasso, x, y, 3)
    with pytest.raises(ReconstructionImpossibleError, match=r"means of classes need"):
        reconstruct(naive_bayes.GaussianNB().fit(x, y), x[1:])
    with pytest.raises(
        ReconstructionImpossibleError, match=r"says 200 rows; 198 known rows and one"
    ):
        reconstruct(preprocessing.StandardScaler().fit(x), x[2:])


def test_several_labels_a_row_and_sparse_coefficients_do_not_crash():
    rng = np.random.default_rng(0)
    rows, labels = rng.integers(0, 3, (41, 20)).astype(float), np.arange(41) % 2
    several = np.stack([labels, rng.integers(0, 2, 41)], axis=1)
    model = linear_model.RidgeClassifier().fit(rows, several)
    with pytest.raises(ReconstructionImpossibleError, match="several labels a row"):
        reconstruct(model, rows[:-1], several[:-1])
    model = linear_model.LogisticRegression(tol=1e-12, max_iter=10_000)
    model.fit(rows, labels).sparsify()
    answer = reconstruct(model, rows[:-1], labels[:-1])
    assert np.abs(answer.value - rows[-1]).max() < 1e-3
