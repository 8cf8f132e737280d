"""Findings of the third audit on artefacts: each failed before it was mended."""

import numpy as np
import pytest
from sklearn import (
    discriminant_analysis,
    ensemble,
    linear_model,
    model_selection,
    naive_bayes,
    svm,
    tree,
)

import informed
from artefacts import page, sanitise
from artefacts.findings import ReconstructionImpossibleError
from informed.cli import artefact
from tests.artefacts.planted import table


@pytest.fixture
def wine():
    """(rows, one column as the output, labels)."""
    x, y = table("wine")
    return x[:, 1:], x[:, 0], y


def without(values, target):
    return np.delete(values, target, axis=0)


def gated(answer):
    return artefact.gated(artefact.summary(answer, answer.names))


@pytest.mark.parametrize(
    "kind", [linear_model.BayesianRidge, linear_model.ARDRegression]
)
def test_the_mean_that_bayesian_regressions_keep_is_read_and_stripped(kind, wine):
    x, outputs, _ = wine
    model = kind().fit(x, outputs)
    answer = informed.reconstruct_sklearn(model, without(x, 5), without(outputs, 5))
    np.testing.assert_allclose(answer.value, x[5], atol=1e-9 * x.std())
    made = sanitise(model, x, known=without(x, 5))
    assert not hasattr(made.estimator, "X_offset_")
    assert made.kept


def test_where_nothing_is_centred_the_mean_is_none(wine):
    x, outputs, _ = wine
    model = linear_model.BayesianRidge(fit_intercept=False).fit(x, outputs)
    with pytest.raises(ReconstructionImpossibleError, match="without intercept"):
        informed.reconstruct_sklearn(model, without(x, 5), without(outputs, 5))


def test_an_estimate_is_neither_green_nor_passed_over(wine):
    x, outputs, _ = wine
    model = linear_model.BayesianRidge().fit(x, outputs)
    made = sanitise(model, x, known=without(x, 5)).estimator
    answer = informed.reconstruct_sklearn(made, without(x, 5), without(outputs, 5))
    assert not answer.determined.any()
    assert "Of 12 features there is an estimate" in page.verdict(answer)
    assert page._mood(answer) == "unclear"
    assert gated(answer)["estimated"] == 12


def test_what_a_refutation_leaves_is_not_known_to_a_gate(wine):
    x, _, y = wine
    model = naive_bayes.GaussianNB().fit(x, y)
    known, labels = without(x, 5), without(y, 5)
    known[7] += 1.0
    answer = informed.reconstruct_sklearn(model, known, labels)
    assert answer.refuted
    fields = gated(answer)
    assert fields["exact"] is None
    assert fields["determined"] is None


def test_stored_rows_are_a_field_of_the_gate(wine):
    x, _, y = wine
    answer = informed.reconstruct_sklearn(
        svm.SVC().fit(x, y), without(x, 5), without(y, 5)
    )
    assert gated(answer)["stored"] == 1


def test_what_has_to_stay_and_tells_is_named(wine):
    x, _, y = wine
    model = discriminant_analysis.LinearDiscriminantAnalysis().fit(x, y)
    kept = sanitise(model, x, known=x).kept
    assert [each.field for each in kept] == ["coef_, intercept_"]


def test_trees_do_not_confirm_the_known_rows():
    """A known row replaced by a copy of another: the tree comes out again."""
    x, y = table("wine")
    model = tree.DecisionTreeClassifier(random_state=0).fit(x, y)
    known = without(x, 3)
    known[3] = known[4]
    answer = informed.reconstruct_sklearn(model, known, without(y, 3))
    assert not answer.certified
    assert "Nothing in the artefact confirms" in page.verdict(answer)


def test_seeds_of_templates_and_splitters_go_too(wine):
    x, outputs, _ = wine
    forest = ensemble.IsolationForest(n_estimators=3, random_state=12345).fit(x)
    made = sanitise(forest, x, known=x)
    assert made.estimator.random_state is None
    assert made.estimator.estimator_.random_state is None
    assert "_average_path_length_per_tree" in [each.field for each in made.kept]
    splits = model_selection.KFold(3, shuffle=True, random_state=3)
    search = model_selection.GridSearchCV(
        linear_model.Ridge(), {"alpha": [1.0, 2.0]}, cv=splits
    ).fit(x, outputs)
    assert sanitise(search, x, known=x).estimator.cv.random_state is None
    assert splits.random_state == 3
    bag = ensemble.BaggingRegressor(
        linear_model.Ridge(), n_estimators=2, random_state=np.random.RandomState(0)
    ).fit(x, outputs)
    assert sanitise(bag, x, known=x).estimator.random_state is None
