"""Trees by replay: nothing told is wrong, whatever the settings, and much is told.

Independent of the attack: the rows themselves, and scikit-learn's own fit.
"""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn import datasets, ensemble, tree
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from artefacts import trees
from artefacts.trees import Determined, bags, histograms, replay
from artefacts.trees.bounds import ContradictionError
from benchmarks.forests import draft, without_seeds
from shadow.checks import FieldError


def rows(
    seed: int, count: int = 60, width: int = 4, kind: str = "continuous"
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of several kinds, and a continuous label that depends on them."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, width))
    if kind == "rounded":
        X = np.round(X, 1)
    elif kind == "binary":
        X = (X > 0).astype(float)
    elif kind == "unequal":  # neighbours of very unequal size: midpoints round
        X = X * 10.0 ** generator.integers(-14, 6, size=(count, width))
    elif kind == "holes":
        X[generator.random(X.shape) < 0.1] = np.nan
        X[0] = generator.normal(size=width)
    y = np.nan_to_num(X) @ np.arange(1.0, width + 1) + generator.normal(size=count)
    return X, y


def right(told: Determined, row: np.ndarray, dtype: type = np.float32) -> None:
    """Nothing that is told is wrong."""
    assert told.replays
    assert (told.lower <= row).all()
    assert (row <= told.upper).all()
    same = told.value.astype(dtype) == row.astype(dtype)
    assert same[told.determined].all()
    assert np.isnan(told.value[~told.determined]).all()


def missing(
    estimator: Any, X: np.ndarray, y: np.ndarray, absent: int, **more: Any
) -> Determined:
    """The attack on the estimator, without one row."""
    return replay(estimator, np.delete(X, absent, 0), np.delete(y, absent), **more)


FORESTS = {
    "plain": {},
    "shallow": {"max_depth": 3},
    "leaves": {"min_samples_leaf": 4, "max_features": None},
    "best_first": {"max_leaf_nodes": 9},
    "pruned": {"ccp_alpha": 0.02},
    "few": {"max_samples": 0.4},
    "count": {"max_samples": 13},
    "whole": {"bootstrap": False},
    "entropy": {"criterion": "entropy"},
    "balanced": {"class_weight": "balanced"},
    "subsample": {"class_weight": "balanced_subsample"},
    "monotonic": {"monotonic_cst": [1, 0, -1, 0]},
    "named": {"class_weight": {0: 1.0, 1: 3.0}, "bootstrap": False},
}


@settings(max_examples=26, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["continuous", "rounded", "binary", "unequal", "holes"]),
    name=st.sampled_from(sorted(FORESTS)),
    extra=st.booleans(),
    told=st.booleans(),
)
def test_nothing_told_of_a_classifier_is_wrong(
    seed: int, kind: str, name: str, extra: bool, told: bool
) -> None:
    X, y = rows(seed, kind=kind)
    labels = (y > 0).astype(int)
    chosen = dict(FORESTS[name])
    if extra:
        chosen["bootstrap"] = chosen.get("bootstrap", True)
    made = ensemble.ExtraTreesClassifier if extra else RandomForestClassifier
    estimator = made(n_estimators=6, **chosen).fit(X, labels)
    position = 0 if kind == "holes" else seed % len(X)
    answer = missing(
        estimator, X, labels, position, position=position if told else None
    )
    right(answer, X[position])
    assert position in answer.positions
    assert answer.label in (None, labels[position])
    assert answer.certified is not False


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["continuous", "rounded", "binary", "unequal"]),
    criterion=st.sampled_from(["squared_error", "absolute_error"]),
    weighted=st.booleans(),
)
def test_nothing_told_of_a_regressor_is_wrong(
    seed: int, kind: str, criterion: str, weighted: bool
) -> None:
    X, y = rows(seed, kind=kind)
    weights = np.random.default_rng(seed).integers(0, 4, len(X)).astype(float)
    position = seed % len(X)
    weights[position] = 2.0
    estimator = RandomForestRegressor(n_estimators=6, criterion=criterion)
    estimator.fit(X, y, sample_weight=weights if weighted else None)
    answer = missing(
        estimator,
        X,
        y,
        position,
        weights=np.delete(weights, position) if weighted else None,
        target_weight=2.0 if weighted else 1.0,
    )
    right(answer, X[position])
    if answer.label is not None:
        np.testing.assert_allclose(answer.label, y[position], rtol=1e-9, atol=1e-9)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["continuous", "rounded", "binary", "unequal"]),
    regression=st.booleans(),
    counts=st.booleans(),
)
def test_nothing_told_without_seeds_is_wrong(
    seed: int, kind: str, regression: bool, counts: bool
) -> None:
    X, y = rows(seed, kind=kind)
    made = RandomForestRegressor if regression else RandomForestClassifier
    y = y if regression else (y > 0).astype(int)
    estimator = without_seeds(made(n_estimators=8).fit(X, y), counts=counts)
    position = seed % len(X)
    answer = missing(estimator, X, y, position)
    right(answer, X[position])
    assert answer.certified is None
    assert answer.label is None or answer.label == y[position]


@pytest.mark.parametrize("name", ["compas", "adult", "default_credit"])
def test_binary_tables_of_draft_are_read_to_the_last_column(name: str) -> None:
    X, y = draft(name)
    generator = np.random.default_rng(11)
    determined = 0
    for _ in range(3):
        chosen = generator.choice(len(X), 100, replace=False)
        position = int(generator.integers(100))
        forest = RandomForestClassifier().fit(X[chosen], y[chosen])
        answer = missing(
            forest,
            X[chosen],
            y[chosen],
            position,
            attainable=[np.array([0.0, 1.0])] * X.shape[1],
        )
        right(answer, X[chosen[position]])
        assert answer.certified
        assert answer.label == y[chosen[position]]
        assert answer.positions.tolist() == [position]
        determined += answer.determined.sum()
    assert determined >= 0.95 * 3 * X.shape[1]


def test_a_forest_regression_gives_nearly_all_of_a_continuous_row() -> None:
    X, y = datasets.load_diabetes(return_X_y=True)
    determined, certified = [], 0
    for position in (17, 100, 200, 300, 400):  # nearly all: of the fields, and of these
        forest = RandomForestRegressor(n_estimators=30).fit(X, y)
        answer = missing(forest, X, y, position)
        right(answer, X[position])
        assert abs(answer.label - y[position]) < 1e-9
        determined.append(answer.determined.mean())
        certified += bool(answer.certified)
    assert np.mean(determined) >= 0.8
    assert certified >= 3


def test_the_seed_of_the_forest_gives_the_seeds_of_its_trees() -> None:
    X, y = rows(3)
    forest = RandomForestRegressor(n_estimators=5, random_state=8).fit(X, y)
    wanted = [part.random_state for part in forest.estimators_]
    for part in forest.estimators_:
        part.random_state = None
    assert bags.tree_seeds(forest) == wanted
    right(missing(forest, X, y, 5), X[5])


def test_the_bags_are_those_that_scikit_learn_drew() -> None:
    X, y = rows(4)
    forest = RandomForestRegressor(n_estimators=5, max_samples=0.5).fit(X, y)
    drawn = bags.drawn(forest, len(X))
    assert drawn is not None
    for counts, indices in zip(drawn, forest.estimators_samples_, strict=True):
        np.testing.assert_array_equal(counts, np.bincount(indices, minlength=len(X)))


def test_other_rows_or_another_order_replay_nowhere() -> None:
    X, y = rows(5)
    forest = RandomForestRegressor(n_estimators=10).fit(X, y)
    others = missing(forest, X[::-1], y[::-1], 7)
    assert not others.replays
    assert others.certified is False
    assert not others.determined.any()
    assert np.isinf(others.lower).all()
    strange, labels = rows(6)
    assert missing(forest, strange, labels, 7).certified is False


@pytest.mark.parametrize(
    ("made", "more"),
    [
        (tree.DecisionTreeClassifier, {}),
        (tree.ExtraTreeClassifier, {}),
        (tree.DecisionTreeRegressor, {}),
        (tree.ExtraTreeRegressor, {}),
        (ensemble.GradientBoostingClassifier, {"n_estimators": 10}),
        (ensemble.GradientBoostingRegressor, {"n_estimators": 10}),
        (
            ensemble.GradientBoostingClassifier,
            {"n_estimators": 10, "subsample": 0.6, "random_state": 4},
        ),
        (
            ensemble.GradientBoostingRegressor,
            {"n_estimators": 10, "subsample": 0.6, "random_state": 4},
        ),
    ],
)
@pytest.mark.parametrize("kind", ["continuous", "binary"])
def test_single_trees_and_boosting(made: Any, more: dict[str, Any], kind: str) -> None:
    X, y = rows(9, kind=kind)
    if "Classifier" in made.__name__:
        y = np.digitize(y, [-2, 2])
    estimator = made(**more).fit(X, y)
    for position in (0, 31, 59):
        answer = missing(estimator, X, y, position)
        right(answer, X[position])
        assert answer.certified is not False
        assert position in answer.positions
        np.testing.assert_allclose(answer.label, y[position], rtol=1e-9, atol=1e-9)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["continuous", "rounded", "binary", "unequal"]),
    bins=st.sampled_from([255, 61, 60, 59, 20, 7]),
    regression=st.booleans(),
)
def test_histogram_boosting_tells_by_its_edges(
    seed: int, kind: str, bins: int, regression: bool
) -> None:
    X, y = rows(seed, kind=kind)
    made = (
        ensemble.HistGradientBoostingRegressor
        if regression
        else ensemble.HistGradientBoostingClassifier
    )
    y = y if regression else np.digitize(y, [-2, 2])
    estimator = made(max_iter=4, max_bins=bins, min_samples_leaf=5).fit(X, y)
    position = seed % len(X)
    answer = missing(estimator, X, y, position)
    assert answer.replays
    assert answer.certified is not False
    row = X[position]
    assert (answer.lower <= row).all()
    assert (row <= answer.upper).all()
    close = np.abs(answer.value - row) <= 1e-12 * np.abs(X).max(axis=0)
    assert close[answer.determined].all()
    if kind == "continuous" and bins > len(X):
        assert answer.determined.all()  # every new value moves an edge
    np.testing.assert_allclose(answer.label, y[position], rtol=1e-9, atol=1e-9)


def test_edges_of_other_rows_are_refused() -> None:
    known = np.arange(10.0)
    with pytest.raises(ContradictionError):
        histograms.column(histograms.midpoints(known) + 0.1, known, 255)


@pytest.mark.parametrize("value", [3.5, 3.25, 0.125, -2.0, 11.0])
def test_one_edge_beside_a_new_value_tells_it(value: float) -> None:
    known = np.arange(10.0)
    edges = histograms.midpoints(np.sort(np.append(known, value)))
    for edge in np.setdiff1d(edges, histograms.midpoints(known)):
        told = histograms.from_some(np.array([0.5, edge]), known, 255)
        assert told.value == value
        assert told.lower <= value <= told.upper
    nothing = histograms.from_some(histograms.midpoints(known), known, 255)
    assert np.isinf(nothing.lower)
    assert nothing.value is None


def test_two_missing_rows() -> None:
    X, y = draft("compas")
    generator = np.random.default_rng(2)
    bits = [np.array([0.0, 1.0])] * X.shape[1]
    told = 0
    for _ in range(3):
        chosen = generator.choice(len(X), 100, replace=False)
        at = np.sort(generator.choice(100, 2, replace=False))
        forest = RandomForestClassifier().fit(X[chosen], y[chosen])
        answers = trees.replay_rows(
            forest,
            np.delete(X[chosen], at, 0),
            np.delete(y[chosen], at),
            positions=at.tolist(),
            attainable=bits,
        )
        for answer, place in zip(answers, at, strict=True):
            right(answer, X[chosen[place]])
            assert answer.label in (None, y[chosen[place]])
            told += answer.determined.sum()
    assert told >= 0.8 * 6 * X.shape[1]


def test_the_attack_sees_the_estimator_alone() -> None:
    """The truth replaced gives the same answer: it never gets near the attack."""
    X, y = rows(12)
    forest = RandomForestRegressor(n_estimators=8).fit(X, y)
    first = missing(forest, X, y, 4)
    changed, labels = X.copy(), y.copy()
    changed[4], labels[4] = 1e6, 1e6
    second = missing(copy.deepcopy(forest), changed, labels, 4)
    np.testing.assert_array_equal(first.lower, second.lower)
    np.testing.assert_array_equal(first.value, second.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"position": 60}, "position"),
        ({"position": -1}, "position"),
        ({"attainable": "some"}, "attainable"),
        ({"attainable": [None]}, "attainable"),
        ({"weights": np.ones(3)}, "weights"),
        ({"X_known": np.zeros((59, 3))}, "X_known"),
        ({"X_known": np.zeros(59)}, "X_known"),
        ({"X_known": np.full((59, 4), "a")}, "X_known"),
        ({"y_known": np.zeros(58)}, "y_known"),
        ({"y_known": np.full(59, 7)}, "y_known"),
        ({"estimator": RandomForestClassifier()}, "fitted"),
        ({"estimator": tree.DecisionTreeClassifier()}, "fitted"),
        ({"estimator": ensemble.HistGradientBoostingRegressor()}, "fitted"),
        ({"estimator": ensemble.AdaBoostClassifier()}, "AdaBoostClassifier"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], says: str) -> None:
    X, y = rows(1)
    labels = (y > 0).astype(int)
    forest = RandomForestClassifier(n_estimators=2).fit(X, labels)
    call = {"estimator": forest, "X_known": X[1:], "y_known": labels[1:]} | change
    first = (call.pop("estimator"), call.pop("X_known"), call.pop("y_known"))
    with pytest.raises(FieldError, match=says) as error:
        replay(*first, **call)
    assert "\n" not in str(error.value)


def test_early_stopping_is_refused() -> None:
    X, y = rows(1)
    stopped = ensemble.GradientBoostingRegressor(n_iter_no_change=2).fit(X, y)
    with pytest.raises(FieldError, match="n_iter_no_change"):
        missing(stopped, X, y, 0)
    early = ensemble.HistGradientBoostingRegressor(early_stopping=True).fit(X, y)
    with pytest.raises(FieldError, match="early stopping"):
        missing(early, X, y, 0)


def test_trees_that_do_not_come_out_again_are_not_certified() -> None:
    """A seed that draws other features: counts fit, the refit does not."""
    X, y = rows(2, kind="binary")
    labels = (y > 0).astype(int)
    forest = RandomForestClassifier(n_estimators=8, bootstrap=False).fit(X, labels)
    for part in forest.estimators_:
        part.random_state += 1
    bits = [np.array([0.0, 1.0])] * X.shape[1]
    answer = missing(forest, X, labels, 4, attainable=bits)
    right(answer, X[4])
    assert answer.certified is None
    assert any("fitted again" in note for note in answer.notes)


def test_sparse_rows_are_read_as_dense_ones() -> None:
    X, y = rows(2, kind="binary")
    forest = RandomForestRegressor(n_estimators=8).fit(X, y)
    dense = missing(forest, X, y, 4)
    sparse = replay(forest, csr_array(np.delete(X, 4, 0)), np.delete(y, 4))
    np.testing.assert_array_equal(dense.value, sparse.value)
