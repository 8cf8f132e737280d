"""Rows that are there must never be refuted, and loose solvers never told as exact."""

import json

import numpy as np
import pandas
import pytest
from sklearn import datasets, preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import informed
from artefacts import findings
from informed import cli

X, y = datasets.load_wine(return_X_y=True)
STANDARD = np.round((X - X.mean(axis=0)) / X.std(axis=0), 3)


def _one_hot(rng):
    colours, shapes = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    rows = np.column_stack(
        [np.eye(4)[colours], np.eye(3)[shapes], rng.normal(size=(300, 3)).round(2)]
    )
    score = rows @ rng.normal(size=10) + rng.logistic(size=300)
    return rows, score


@pytest.mark.parametrize(
    ("solver", "row"),
    [
        ("lbfgs", 70),
        ("newton-cg", 140),
        ("newton-cholesky", 70),
        ("sag", 3),
        ("sag", 70),
    ],
)
def test_a_loosely_solved_model_never_refutes_the_true_row(solver, row):
    model = LogisticRegression(solver=solver, random_state=0).fit(STANDARD, y)
    told = informed.reconstruct_sklearn(
        model, np.delete(STANDARD, row, 0), np.delete(y, row)
    )
    assert not told.refuted
    off = np.abs(told.value - STANDARD[row])[told.determined]
    assert not len(off) or off.max() < 1e-5
    assert told.certified or not told.determined.any()


def test_newton_solvers_give_the_row_away_where_the_closed_form_does_not():
    row = 70
    model = LogisticRegression(solver="newton-cg").fit(STANDARD, y)
    known, labels = np.delete(STANDARD, row, 0), np.delete(y, row)
    told = informed.reconstruct_sklearn(model, known, labels)
    assert told.certified
    assert told.y == y[row]
    np.testing.assert_allclose(told.value, STANDARD[row], atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_hot_columns(classes):
    rows, score = _one_hot(np.random.default_rng(classes))
    labels = np.digitize(score, [0.0] if classes == 2 else [-0.7, 0.7])
    model = LogisticRegression(solver="newton-cg").fit(rows, labels)
    for row in (5, 150, 250):
        told = informed.reconstruct_sklearn(
            model, np.delete(rows, row, 0), np.delete(labels, row)
        )
        assert told.certified
        assert told.y == labels[row]
        np.testing.assert_allclose(told.value, rows[row], atol=1e-8)


def test_an_order_that_is_not_told_leaves_an_estimate():
    target = STANDARD[:, 0]
    rows = STANDARD[:, 1:]
    model = Ridge(solver="sag", random_state=0, alpha=1.0).fit(rows, target)
    told = informed.reconstruct_sklearn(
        model, np.delete(rows, 9, 0), np.delete(target, 9)
    )
    assert not told.determined.any()


@pytest.mark.parametrize("hole", [True, False], ids=["target's", "another's"])
def test_power_transformer_with_a_missing_value(hole):
    rows = X[:, :5].copy()
    row = 30
    rows[row if hole else 80, 2] = np.nan
    model = preprocessing.PowerTransformer().fit(rows)
    told = informed.reconstruct_sklearn(model, np.delete(rows, row, 0))
    assert not told.refuted
    there = np.isfinite(rows[row])
    np.testing.assert_array_equal(told.determined, there)
    np.testing.assert_allclose(told.value[there], rows[row][there], rtol=1e-6)


@pytest.fixture
def frame():
    return pandas.DataFrame(X[:, :4], columns=["a", "b", "c", "d"])


def _by_name():
    scaled = ColumnTransformer(
        [("one", preprocessing.StandardScaler(), ["b", "a"])],
        remainder=preprocessing.StandardScaler(),
    )
    return make_pipeline(scaled, LogisticRegression(solver="newton-cg"))


def test_columns_by_name_carry_the_row_to_the_model(frame):
    row = 100
    told = informed.reconstruct_sklearn(
        _by_name().fit(frame, y), frame.drop(index=row), np.delete(y, row)
    )
    assert told.exact
    assert told.certified
    assert told.y == y[row]
    np.testing.assert_allclose(told.value, X[row, :4], atol=1e-9)


def test_the_command_takes_columns_by_name(frame, tmp_path, capsys):
    skops = pytest.importorskip("skops.io")
    row = 100
    skops.dump(_by_name().fit(frame, y), tmp_path / "model.skops")
    known = frame.assign(y=y).drop(index=row)[["d", "c", "b", "a", "y"]]
    known.to_csv(tmp_path / "known.csv", index=False)
    command = [
        "artefact",
        str(tmp_path / "model.skops"),
        f"--known={tmp_path / 'known.csv'}",
        "--json",
    ]
    assert cli.main(command) in (None, 0)
    told = json.loads(capsys.readouterr().out)
    assert told["exact"]
    assert told["label"] == y[row]
    values = {each["name"]: each["value"] for each in told["features"]}
    np.testing.assert_allclose([values[name] for name in "abcd"], X[row, :4], atol=1e-9)


def test_weights_go_to_the_last_step_only():
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    row = 60
    model = make_pipeline(preprocessing.StandardScaler(), GaussianNB())
    model.fit(X, y, gaussiannb__sample_weight=weights)
    told = informed.reconstruct_sklearn(
        model,
        np.delete(X, row, 0),
        np.delete(y, row),
        sample_weight=np.delete(weights, row),
        target_weight=weights[row],
    )
    assert not told.refuted
    assert told.determined.all()
    np.testing.assert_allclose(told.value, X[row], rtol=1e-8)


def test_the_grain_of_a_column_is_not_widened_by_an_outlier():
    column = np.random.default_rng(0).normal(size=(200, 1))
    plain = findings.grain(column)
    column[7] = 1e9
    assert findings.spread(column) > 1e7
    np.testing.assert_allclose(findings.grain(column), plain, rtol=0.2)


@pytest.mark.parametrize("exact", [True, False], ids=["scaler", "bins"])
def test_a_column_of_texts_leaves_the_grain_of_others(exact):
    """Finding 34: one that must be determined, one that mustn't."""
    rng = np.random.default_rng(0)
    sizes = 1e-6 * rng.normal(size=60)
    rows = pandas.DataFrame({"size": sizes, "colour": rng.choice(["r", "g"], 60)})
    labels = rng.normal(size=60)
    low = preprocessing.KBinsDiscretizer(2, encode="ordinal")
    trained = make_pipeline(
        ColumnTransformer(
            [
                ("low", preprocessing.StandardScaler() if exact else low, ["size"]),
                ("one", preprocessing.OneHotEncoder(), ["colour"]),
            ]
        ),
        LinearRegression(),
    ).fit(rows, labels)
    told = informed.reconstruct_sklearn(
        trained, rows.drop(index=11), np.delete(labels, 11)
    )
    assert told.determined[0] == exact
    assert told.lower[0] <= sizes[11] <= told.upper[0]
    assert (told.upper[0] - told.lower[0] < 1e-6 * sizes.std()) == exact
