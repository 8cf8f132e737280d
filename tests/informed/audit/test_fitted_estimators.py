"""Audits of trainings that return fitted estimators of scikit-learn."""

import numpy as np
from sklearn import compose, datasets, linear_model, preprocessing, svm
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline

import informed
from informed.attacks import registry
from informed.report import words
from shadow import released, tables
from tests.informed.audit.audited_trainings import check


def flat(images):
    return np.asarray(images).reshape(len(images), -1)


def forest(images, labels, seed):
    return RandomForestClassifier(3, random_state=seed).fit(flat(images), labels)


def support_vectors(images, labels):
    return svm.SVC(C=100.0).fit(flat(images), labels)


def bundle(images, labels):
    model = KNeighborsClassifier(1).fit(flat(images), labels)
    return {"centre": np.median(flat(images), axis=0), "model": model}


def scaled_regression(rows, labels):
    model = linear_model.LogisticRegression()
    return make_pipeline(preprocessing.StandardScaler(), model).fit(rows, labels)


def said(report):
    return " ".join(finding.what for finding in report.findings)


def test_an_estimator_without_arrays_of_floats_is_not_audited(digits):
    report = check(forest, digits)
    (stop,) = report.stops
    assert "RandomForestClassifier has no arrays of floats" in stop.what
    assert "may store training records" in stop.what


def test_an_estimator_that_nobody_looks_into_is_said_to_weaken_the_audit(digits):
    def shrunken(images, labels):
        return NearestCentroid().fit(flat(images), labels)

    report = check(shrunken, digits)
    assert "no attack reads more of NearestCentroid than its arrays" in said(report)
    assert "linear models" in registry.find("closed_form").why_not(report.facts)


def test_an_estimator_within_something_is_named(digits):
    left_out = released.left_out(bundle(digits.images[:40], digits.labels[:40]))
    assert left_out == ["model (KNeighborsClassifier, beside its arrays of floats)"]
    assert "KNeighborsClassifier" in said(check(bundle, digits))


def test_estimators_of_columns_and_of_a_stack_are_released():
    rows, labels = datasets.load_wine(return_X_y=True)
    power = preprocessing.PowerTransformer()  # keeps a scaler under a private name
    scaler = compose.make_column_transformer(
        (preprocessing.StandardScaler(), [3, 4]), (power, [5])
    )
    below = make_pipeline(scaler, linear_model.RidgeClassifier())
    stack = StackingClassifier([("below", below)]).fit(rows, labels)
    arrays = [part.array for part in released.parts(stack)]
    assert released.unread(stack) == []
    boosted = GradientBoostingClassifier(n_estimators=2).fit(rows, labels)
    scaled = make_pipeline(preprocessing.StandardScaler(), KNeighborsClassifier())
    sparse = linear_model.LogisticRegression(max_iter=9).fit(rows, labels).sparsify()
    bins = preprocessing.KBinsDiscretizer(strategy="uniform")
    binned = make_pipeline(bins, linear_model.RidgeClassifier()).fit(rows, labels)
    for model in (boosted, scaled.fit(rows, labels), sparse, binned):
        assert released.parts(model), "floats beside what no attack reads"
        assert len(released.unread(model)) == 1
    means = stack.estimators_[0][0].transformers_[1][1]._scaler.mean_
    for expected in (rows[:, 3:5].mean(axis=0), means, stack.final_estimator_.coef_):
        assert any(np.array_equal(expected, array) for array in arrays)


def test_weights_that_change_their_shape_are_not_audited(digits):
    report = check(support_vectors, digits, fixed=100, targets=8)
    assert any("weights of another shape" in each.what for each in report.stops)


def test_the_means_of_a_scaler_are_read_in_an_audit():
    rows, labels = datasets.load_wine(return_X_y=True)
    columns = {f"c{i}": rows[:, i] for i in range(rows.shape[1])}
    table = tables.table_of({**columns, "kind": labels}, label="kind")
    skip = ("inversion", "noise")
    document = informed.audit(
        scaled_regression, table, targets=3, fixed=60, minutes=1.0, skip=skip
    )
    attacks = document.values["attacks"]
    row = next(row for row in attacks if row["name"] == "closed form")
    assert row["exact"]["successes"] == row["success"]["successes"] == 3
    assert (row["certified"], row["certified_wrong"]) == (3, 0)
    assert "by someone who sees the fitted model" in words.verdict(document.values)
    # A record is certified by whichever attack certifies it.
    records = document.values["records"]
    assert [row["certified"] for row in records] == [True] * 3
    assert [row["certified_by"] for row in records] == [["closed form"]] * 3
