"""Categories, quantiles, holes, trees without bootstrap; copies as they are shipped."""

import pickle

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import Lasso, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.semi_supervised import LabelSpreading
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from artefacts import page, reconstruct, sanitise
from artefacts.findings import ReconstructionImpossibleError

pd = pytest.importorskip("pandas")


def without(rows, at):
    if hasattr(rows, "drop"):
        return rows.drop(index=at)
    return np.delete(rows, at, axis=0)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def people():
    """Words and numbers, and classes that both tell."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "town": rng.choice(["ulm", "bonn", "jena"], 120),
            "job": rng.choice(["a", "b", "c", "d"], 120),
            "age": rng.integers(18, 80, 120).astype(float),
            "pay": rng.normal(3, 1, 120),
        }
    )
    return table, ((table.age > 45) ^ (table.pay > 3)).astype(int).to_numpy()


WORDS, NUMBERS = ["town", "job"], ["age", "pay"]


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(drop="first"),
        OneHotEncoder(handle_unknown="ignore"),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
        make_pipeline(OrdinalEncoder(), StandardScaler()),
    ],
    ids=["dropped", "ignored", "imputed", "ordinal"],
)
@pytest.mark.parametrize("target", [7, 50])
def test_categories_come_back_by_name(encoder, target, people):
    rows, labels = people
    steps = make_column_transformer((encoder, WORDS), (StandardScaler(), NUMBERS))
    model = make_pipeline(steps, RidgeClassifier()).fit(rows, labels)
    found = reconstruct(model, without(rows, target), without(labels, target))
    truth = rows.iloc[target]
    for value, sure, name in zip(found.value, found.determined, rows, strict=True):
        if name in WORDS:
            # What an imputer puts in the place of missing values may have been missing.
            frequent = "Imputer" in str(encoder) and truth[name] == rows[name].mode()[0]
            assert sure != frequent
            assert frequent or value == truth[name]
        else:
            assert value == pytest.approx(truth[name])


@pytest.mark.parametrize("output", ["uniform", "normal"])
def test_quantiles_are_carried_back(output, wine):
    rows, labels = wine
    scaler = QuantileTransformer(n_quantiles=20, output_distribution=output)
    model = make_pipeline(scaler, StandardScaler(), RidgeClassifier())
    model.fit(rows, labels)
    for target in (3, 50, 120):
        found = reconstruct(model, without(rows, target), without(labels, target))
        truth, scale = rows[target], rows.std(axis=0)
        inside = (found.lower <= truth) & (truth <= found.upper)
        assert inside.all()
        ends = (truth == rows.min(axis=0)) | (truth == rows.max(axis=0))
        assert found.determined[~ends].all()
        off = np.abs(found.value.astype(float) - truth) / scale
        assert off[found.determined].max() < 1e-6


def test_a_known_missing_value_hides_no_extreme(wine):
    rows = wine[0].copy()
    target = 50
    others = np.delete(np.arange(len(rows)), target)
    holes = np.random.default_rng(0).choice(others, rows.shape[1])
    rows[holes, np.arange(rows.shape[1])] = np.nan
    rows[target, :2] = 99.0, -3.0
    found = reconstruct(MinMaxScaler().fit(rows), without(rows, target))
    assert found.value[:2].tolist() == [99.0, -3.0]
    assert not found.determined[2:].any()
    assert not np.isfinite(found.lower[2:]).any(), "the others may be missing"
    found = reconstruct(MaxAbsScaler().fit(rows), without(rows, target))
    assert (found.lower[0], found.upper[0]) == pytest.approx((-99.0, 99.0))


@pytest.mark.parametrize("scaler", [MinMaxScaler(), MaxAbsScaler()])
def test_constant_columns_tell_as_much_after_stripping(scaler, rng):
    rows = np.column_stack([rng.normal(size=60), np.zeros(60), np.full(60, 7.0)])
    rows[20, 1:] = 5.0, 9.0
    scaler.fit(rows)
    known = without(rows, 20)
    before = reconstruct(scaler, known)
    after = reconstruct(sanitise(scaler, known, known=known).estimator, known)
    np.testing.assert_allclose(after.lower, before.lower, atol=1e-9)
    np.testing.assert_allclose(after.upper, before.upper, atol=1e-9)


@pytest.mark.parametrize("kind", [MinMaxScaler, MaxAbsScaler])
def test_rounding_to_single_precision_is_no_extreme(kind, wine):
    rows, scale = wine[0], wine[0].std(axis=0)
    model = kind().fit(rows.astype(np.float32))
    for target in range(0, 178, 18):
        found = reconstruct(model, without(rows, target))
        room = 1e-5 * scale
        assert (found.lower - room <= rows[target]).all()
        assert (rows[target] <= found.upper + room).all()
        sure = found.determined
        assert (np.abs(found.value - rows[target]) <= room)[sure].all()


def test_a_category_in_single_precision_is_no_new_one():
    rows = np.array([[0.0], [0.5], [0.1], [0.5], [0.0]] * 4)
    model = OneHotEncoder().fit(rows.astype(np.float32))
    found = reconstruct(model, without(rows, 1))
    assert not found.determined.any()


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=3, random_state=0),
        RandomForestClassifier(5, bootstrap=False, max_depth=3, random_state=0),
    ],
)
def test_one_leaf_of_a_stripped_tree_tells_the_label_and_the_path(model):
    rows, labels = load_breast_cancer(return_X_y=True)
    for target in (11, 200):
        known = without(rows, target)
        model.fit(rows, labels)
        copy = sanitise(model, known, known=known).estimator
        found = reconstruct(copy, known, without(labels, target))
        assert found.y == labels[target]
        bounded = np.isfinite(found.lower) | np.isfinite(found.upper)
        assert bounded.any()
        assert ((found.lower <= rows[target]) & (rows[target] <= found.upper)).all()


def test_a_mean_of_a_leaf_tells_the_output():
    rows, outputs = load_diabetes(return_X_y=True)
    model = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
    model.fit(rows, outputs)
    known = without(rows, 11)
    copy = sanitise(model, known, known=known).estimator
    found = reconstruct(copy, known, without(outputs, 11))
    assert found.y == pytest.approx(outputs[11])


def test_a_reader_that_tells_nothing_has_not_read():
    rows, outputs = load_diabetes(return_X_y=True)
    model = Lasso(alpha=1e3).fit(rows, outputs)
    assert not model.coef_.any()
    known = without(rows, 11)
    copy = sanitise(model, known, known=known).estimator
    found = reconstruct(copy, known, without(outputs, 11))
    assert found.unread == ("Lasso",)
    assert page._mood(found) != "mild"


@pytest.mark.parametrize("model", [NearestNeighbors(), LabelSpreading()])
def test_rows_that_stripping_leaves_are_found(model, wine):
    rows, labels = wine
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0) + 1
    model.fit(rows, labels)
    known = without(rows, 50)
    copy = sanitise(model, known, known=known).estimator
    found = reconstruct(copy, known, without(labels, 50))
    np.testing.assert_allclose(found.value, rows[50], atol=1e-9)


@pytest.mark.parametrize(
    "model", [StandardScaler(), GaussianNB(), PowerTransformer()], ids=str
)
def test_variances_of_two_values_confirm_nothing(model, rng):
    """They follow from the means, so that a wrong known value isn't noticed."""
    rows = (rng.random((100, 7)) < 0.5).astype(float)
    labels = rng.integers(0, 2, 100)
    model.fit(rows, labels)
    known, own = without(rows, 50), without(labels, 50)
    wrong = known.copy()
    wrong[np.flatnonzero(own == labels[50])[0], 3] = 1 - rows[50, 3]
    for each in (known, wrong):
        assert not reconstruct(model, each, own).certified
    mixed = np.column_stack([rng.normal(size=100), rows])
    model.fit(mixed, labels)
    found = reconstruct(model, without(mixed, 50), own)
    assert found.certified
    assert any("features of two values (1, 2, 3" in note for note in found.notes)


def test_an_inertia_of_two_values_confirms_nothing(rng):
    rows = (rng.random((100, 6)) < 0.5).astype(float)
    model = KMeans(1, n_init=1, random_state=0).fit(rows)
    wrong = without(rows, 50)
    wrong[0, 0] = 1 - wrong[0, 0]
    assert not reconstruct(model, wrong).certified


def test_one_class_has_no_scores(wine):
    rows = wine[0][:20]
    model = RidgeClassifier().fit(rows, np.zeros(20, int))
    with pytest.raises(ReconstructionImpossibleError, match="one class"):
        reconstruct(model, rows[:19], np.zeros(19, int))


def test_balanced_classes_are_weighed_by_their_samples(wine):
    rows, labels = wine
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0) + 1
    weights = np.random.default_rng(0).integers(1, 4, len(rows)).astype(float)
    model = LogisticRegression(
        class_weight="balanced", solver="newton-cholesky", tol=1e-12, C=0.1
    ).fit(rows, labels, sample_weight=weights)
    found = reconstruct(
        model,
        without(rows, 50),
        without(labels, 50),
        sample_weight=without(weights, 50),
        target_weight=weights[50],
    )
    np.testing.assert_allclose(found.value, rows[50], atol=1e-6)


def test_copies_are_compared_as_they_are_shipped():
    x = np.linspace(0, 1, 40)
    model = IsotonicRegression().fit(x, x + 0.1 * np.sin(40 * x))
    done = sanitise(model, x, known=x)
    assert done.equal
    shipped = pickle.loads(pickle.dumps(done.estimator))
    np.testing.assert_array_equal(shipped.predict(x), model.predict(x))


def test_a_search_tells_no_seed(wine):
    search = GridSearchCV(
        RandomForestClassifier(n_estimators=3),
        {"random_state": [3, 4], "max_depth": [3]},
        cv=2,
    ).fit(*wine)
    copy = sanitise(search, wine[0], known=wine[0]).estimator
    assert copy.best_params_ == {"max_depth": 3}
    assert copy.param_grid == {"max_depth": [3]}
    assert "random_state" in search.best_params_, "the original stays"


def test_bins_of_boosted_histograms_are_gone(wine):
    model = HistGradientBoostingClassifier(max_iter=2).fit(*wine)
    done = sanitise(model, wine[0], known=wine[0])
    assert done.equal
    for stage in done.estimator._predictors:
        assert not any(predictor.nodes["bin_threshold"].any() for predictor in stage)
    assert not done.estimator._bin_mapper.n_bins_non_missing_.any()


@pytest.mark.parametrize("drop", ["first", "if_binary"])
def test_zeros_are_no_category_where_others_were_let_through(drop, rng):
    """With categories given beforehand, training takes unknown ones as zeros."""
    codes = rng.choice([1.0, 2.0], 80)
    codes[7] = 9.0
    rows = np.column_stack([codes, rng.normal(size=80)])
    encoder = OneHotEncoder(categories=[[1.0, 2.0]], handle_unknown="ignore", drop=drop)
    steps = make_column_transformer((encoder, [0]), (StandardScaler(), [1]))
    labels = (rows[:, 1] > 0).astype(int)
    with pytest.warns(UserWarning, match="unknown categories"):
        model = make_pipeline(steps, RidgeClassifier()).fit(rows, labels)
    found = reconstruct(model, without(rows, 7), without(labels, 7))
    assert not found.determined[0]


def test_numbers_among_words_keep_their_values(rng):
    table = pd.DataFrame(
        {
            "visits": pd.Series(rng.choice([1, 2, 3], 90), dtype=object),
            "flag": pd.Series(rng.random(90) < 0.5, dtype=object),
            "pay": rng.normal(3, 1, 90),
        }
    )
    labels = (table.pay > 3).astype(int).to_numpy()
    encoded = (OneHotEncoder(), ["visits", "flag"]), (StandardScaler(), ["pay"])
    model = make_pipeline(make_column_transformer(*encoded), RidgeClassifier())
    model.fit(table, labels)
    found = reconstruct(model, table.drop(index=5), np.delete(labels, 5))
    assert found.determined.all()
    assert [float(each) for each in found.value[:2]] == [
        float(each) for each in table.iloc[5][:2]
    ]


@pytest.mark.parametrize("weights", ["balanced", {0: 1.0, 1: 2.0}])
def test_weights_of_classes_are_no_missing_row(weights):
    rows, labels = load_breast_cancer(return_X_y=True)
    for target in range(0, 50, 10):
        model = DecisionTreeClassifier(
            max_depth=3, class_weight=weights, random_state=0
        ).fit(rows, labels)
        known = without(rows, target)
        copy = sanitise(model, known, known=known).estimator
        found = reconstruct(copy, known, without(labels, target))
        assert found.y in (None, labels[target])
        assert ((found.lower <= rows[target]) & (rows[target] <= found.upper)).all()
