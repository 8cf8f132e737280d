"""The row of a fitted linear model, off the span of the known rows."""

import numpy as np
import pytest
from sklearn import linear_model, svm

import informed
from informed.attacks.span import linear_fit
from tests.informed.attacks.span.test_single_row import genotypes, traits


@pytest.mark.parametrize("estimator", [linear_model.Ridge(), svm.LinearSVC()])
def test_a_row_that_no_optimum_is_needed_for(estimator):
    """LinearSVC draws numbers, so that no refit can confirm its row."""
    rows = genotypes(0)
    estimator.fit(rows, traits(rows, 0))
    answer = informed.reconstruct_sklearn(estimator, rows[:-1], traits(rows, 0)[:-1])
    assert np.array_equal(answer.value, rows[-1])
    assert answer.by == "span"
    assert answer.certified == isinstance(estimator, linear_model.Ridge)
    assert np.all(answer.error < 1e-9)


@pytest.mark.parametrize("seed", [0, 3])
def test_a_refit_of_a_model_that_interpolates_certifies_nothing(seed):
    """Two known rows differ in one field, which another row of the span exchanges."""
    rng = np.random.default_rng(seed)
    fields = rng.integers(0, 6, (41, 40))
    fields[1] = fields[0]
    fields[1, 7] = (fields[0, 7] + 1) % 6
    fields[40, 7] = fields[0, 7]
    rows = np.eye(6)[fields].reshape(41, -1)
    labels = rows @ rng.normal(size=240) + rng.normal(size=41)
    for model in (linear_model.LinearRegression(), linear_model.Ridge(alpha=1e-6)):
        model.fit(rows, labels)
        row, why = linear_fit.read(model, rows[:-1], labels[:-1])
        assert row is not None, why
        assert not row.certified


def test_a_known_row_that_is_another_is_named():
    rows = genotypes(3)
    labels = traits(rows, 3, classes=5)
    model = linear_model.LogisticRegression().fit(rows, labels)
    known = rows[:-1].copy()
    known[4] = genotypes(30)[0]
    row, said = linear_fit.read(model, known, labels[:-1])
    assert row is None
    assert "Known row 4 has no share" in said
    assert not informed.reconstruct_sklearn(model, known, labels[:-1]).certified
