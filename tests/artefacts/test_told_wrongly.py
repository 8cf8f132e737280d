"""Ensembles, searches and twins: cases in which something was once told wrongly."""

import numpy as np
import pytest
from sklearn import calibration, datasets, ensemble, preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import informed

X, y = datasets.load_wine(return_X_y=True)


@pytest.mark.parametrize(
    "estimator",
    [
        ensemble.RandomForestClassifier(3, random_state=0),
        GridSearchCV(SVC(), {"C": [1, 2]}, cv=3),
        ensemble.BaggingClassifier(n_estimators=3, random_state=0),
        make_pipeline(
            SelectFromModel(ensemble.RandomForestClassifier(5, random_state=0)),
            LogisticRegression(),
        ),
        make_pipeline(
            SelectFromModel(
                DecisionTreeClassifier(random_state=0).fit(X, y), prefit=True
            ),
            LogisticRegression(),
        ),
    ],
    ids=["forest", "search", "bagging", "selected", "prefit"],
)
def test_a_stripped_copy_predicts_the_same_also_when_stripped_again(estimator):
    estimator.fit(X, y)
    once = informed.sanitise(estimator)
    assert once.equal
    assert once.removed
    assert informed.sanitise(once.estimator).equal
    np.testing.assert_array_equal(once.estimator.predict(X), estimator.predict(X))


@pytest.mark.parametrize("row", [40, 77, 100])
@pytest.mark.parametrize(
    "inside",
    [DecisionTreeClassifier(random_state=0), ensemble.RandomForestClassifier(3)],
    ids=["tree", "forest"],
)
def test_of_several_cases_only_what_all_leave_is_told(inside, row):
    if hasattr(inside, "n_estimators"):
        inside.set_params(random_state=1)
    estimator = calibration.CalibratedClassifierCV(inside).fit(X, y)
    try:
        told = informed.reconstruct_sklearn(
            estimator, np.delete(X, row, 0), np.delete(y, row)
        )
    except informed.ReconstructionImpossibleError:
        return  # nothing is told, so nothing is wrong
    wrong = np.abs(told.value - X[row]) > 1e-5 * np.abs(X[row])
    assert not (wrong & told.determined).any()
    assert (told.lower <= X[row]).all()
    assert (X[row] <= told.upper).all()


def test_a_mean_is_no_evidence_for_itself():
    other = np.delete(X, 77, 0)
    other[5] *= 1.3
    scaler = preprocessing.StandardScaler(with_std=False).fit(X)
    assert not informed.reconstruct_sklearn(scaler, other).certified
    unused = preprocessing.StandardScaler(with_mean=False).fit(X)
    assert informed.sanitise(unused).estimator.mean_ is None


def test_rare_categories_that_share_a_code_are_not_named(rng):
    chances = [0.02, 0.3, 0.02, 0.3, 0.03, 0.33]
    column = rng.choice(6, p=chances, size=200).astype(float)
    rows = np.c_[column, rng.normal(size=200)]
    labels = (rows[:, 1] > 0).astype(int)
    encoder = preprocessing.OrdinalEncoder(min_frequency=10)
    codes = preprocessing.FunctionTransformer()
    both = make_pipeline(
        by_columns(encoder, codes), preprocessing.StandardScaler()
    ).fit(rows, labels)
    for row in np.flatnonzero(column == 5)[:3]:
        told = informed.reconstruct_sklearn(
            both, np.delete(rows, row, 0), np.delete(labels, row)
        )
        assert not told.determined[0] or told.value[0] == 5


def by_columns(first, second):
    return ColumnTransformer([("first", first, [0]), ("second", second, [1])])


def test_a_twin_with_another_label_is_told_apart():
    rows, labels = np.vstack([X, X[10]]), np.append(y, 2)
    neighbours = KNeighborsClassifier().fit(rows, labels)
    for missing in (10, 178):
        told = informed.reconstruct_sklearn(
            neighbours, np.delete(rows, missing, 0), np.delete(labels, missing)
        )
        assert told.y == labels[missing]
