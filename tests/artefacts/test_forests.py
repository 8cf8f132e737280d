"""The reader of forests: bounds hold, copies without leftovers predict the same."""

import copy
from typing import Any

import numpy as np
import pytest
from sklearn import datasets, ensemble, tree

findings = pytest.importorskip("artefacts.findings")
from artefacts import strip  # noqa: E402
from artefacts.glm import ReconstructionImpossibleError  # noqa: E402
from artefacts.readers import forests  # noqa: E402

ESTIMATORS = [
    ensemble.RandomForestClassifier(8),
    ensemble.RandomForestRegressor(8),
    ensemble.ExtraTreesClassifier(8),
    ensemble.GradientBoostingClassifier(n_estimators=4),
    ensemble.GradientBoostingRegressor(n_estimators=4),
    ensemble.HistGradientBoostingClassifier(max_iter=4),
    ensemble.HistGradientBoostingRegressor(max_iter=4),
    tree.DecisionTreeClassifier(),
    tree.ExtraTreeRegressor(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_bounds_hold_before_and_after_stripping(estimator: Any) -> None:
    X, y = datasets.load_wine(return_X_y=True)
    fitted = copy.deepcopy(estimator).fit(X, y)
    bare = copy.deepcopy(fitted)
    removed = strip.strip(bare)
    assert {each.action for each in removed} <= {
        "removed",
        "zeroed",
        "kept: predictions need it",
    }
    unseen = X + np.random.default_rng(0).normal(size=X.shape) * X.std(axis=0)
    np.testing.assert_array_equal(fitted.predict(unseen), bare.predict(unseen))
    told = []
    for shown in (fitted, bare):
        leaf = findings.Leaf(
            estimator=shown, known=np.delete(X, 90, 0), labels=np.delete(y, 90)
        )
        for found in forests.read(leaf):
            assert found.certified is not False
            assert (found.lower <= X[90]).all()
            assert (X[90] <= found.upper).all()
        told.append(found.determined.sum())
    assert told[1] <= X.shape[1]


def test_other_rows_are_refuted_and_other_estimators_named() -> None:
    X, y = datasets.load_wine(return_X_y=True)
    forest = ensemble.RandomForestClassifier(8).fit(X, y)
    leaf = findings.Leaf(estimator=forest, known=X[:-1][::-1], labels=y[:-1][::-1])
    (found,) = forests.read(leaf)
    assert found.certified is False
    assert not found.determined.any()
    early = ensemble.HistGradientBoostingClassifier(max_iter=3, early_stopping=True)
    early.fit(X, y)
    leaf = findings.Leaf(estimator=early, known=X[:-1], labels=y[:-1])
    with pytest.raises(ReconstructionImpossibleError, match="early stopping"):
        forests.read(leaf)
