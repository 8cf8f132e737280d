"""Estimators in estimators: every leaf's answer in the units of the input."""

import numpy as np
import pandas
import pytest
from sklearn import (
    calibration,
    compose,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    model_selection,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
)

import informed
from artefacts import Finding, reconstruct, register, registry
from artefacts.glm import ReconstructionImpossibleError
from tests.artefacts.planted import answer, check, fitted, table

scaled = pipeline.make_pipeline
NEWTON = {"solver": "newton-cholesky", "tol": 1e-12}


def mixed(model):
    return scaled(
        compose.ColumnTransformer(
            [
                ("quantiles", preprocessing.PowerTransformer(), [0, 1, 5]),
                ("range", preprocessing.MinMaxScaler(), slice(6, 13)),
                ("same", "passthrough", [2, 3, 4]),
            ]
        ),
        model,
    )


WHOLE = [
    scaled(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
    scaled(preprocessing.MinMaxScaler(), linear_model.RidgeClassifier()),
    scaled(preprocessing.RobustScaler(), neighbors.KNeighborsClassifier()),
    scaled(preprocessing.PowerTransformer(), naive_bayes.GaussianNB()),
    scaled(
        impute.SimpleImputer(strategy="median"),
        preprocessing.StandardScaler(),
        linear_model.RidgeClassifier(),
    ),
    mixed(linear_model.RidgeClassifier()),
    mixed(neighbors.KNeighborsClassifier()),
    model_selection.GridSearchCV(linear_model.RidgeClassifier(), {"alpha": [1, 10]}),
    ensemble.VotingClassifier(
        [("a", naive_bayes.GaussianNB()), ("b", linear_model.RidgeClassifier())]
    ),
    ensemble.StackingClassifier([("a", naive_bayes.GaussianNB())]),
    multiclass.OneVsRestClassifier(linear_model.RidgeClassifier()),
    calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=3),
]


@pytest.mark.parametrize(
    "estimator",
    WHOLE,
    ids=lambda e: type(e[-1]).__name__ if hasattr(e, "steps") else type(e).__name__,
)
def test_the_whole_row_and_its_label(estimator):
    x, y = table("wine")
    names = np.array(["barolo", "grignolino", "barbera"])[y]
    fitted(estimator, x, names)
    for target in (7,) if hasattr(estimator, "cv") else (7, 99):
        found = answer(estimator, x, names, target)
        check(found, x[target])
        if not isinstance(estimator, pipeline.Pipeline) or "imputer" not in str(
            estimator.steps[0][0]
        ):
            assert found.exact
            assert found.y == names[target]
        assert found.certified
        assert not found.contradictions


def test_a_pipeline_has_lost_before_the_model_is_looked_at():
    x, y = table("breast_cancer", 200)
    model = scaled(preprocessing.StandardScaler(), svm.SVC()).fit(x, y)
    found = answer(model, x, y, 4)
    assert found.exact
    assert any(
        note == "standardscaler.mean_ alone is the missing row: the model behind it"
        " need not be looked at."
        for note in found.notes
    )


def test_an_artefact_put_together_from_two_contradicts_itself():
    """Scalers of other rows in two branches: both features are named, none certain."""
    x, _ = table("wine")
    union = pipeline.FeatureUnion(
        [("a", preprocessing.StandardScaler()), ("b", preprocessing.StandardScaler())]
    ).fit(x)
    other = x.copy()
    other[5] += 1.0
    union.transformer_list[1][1].with_std = False
    union.transformer_list[1][1].fit(other)
    found = answer(union, x, None, 5)
    assert len(found.contradictions) == 13
    assert "a.mean_ says" in found.contradictions[0]
    assert "b.mean_ says" in found.contradictions[0]
    assert not found.determined.any()
    assert not found.certified


def test_what_lies_behind_a_transformer_that_forgets_is_said():
    x, y = table("wine")
    model = scaled(preprocessing.Normalizer(), neighbors.KNeighborsClassifier()).fit(
        x, y
    )
    found = answer(model, x, y, 3)
    assert not found.determined.any()
    assert any("cannot be carried back through Normalizer" in n for n in found.notes)
    assert found.y == y[3]


def test_a_selector_leaves_the_other_features_open():
    x, y = table("wine")
    model = scaled(
        feature_selection.SelectKBest(k=4), neighbors.KNeighborsClassifier()
    ).fit(x, y)
    found = answer(model, x, y, 3)
    check(found, x[3])
    assert found.determined.tolist() == model[0].get_support().tolist()


def test_columns_of_a_data_frame_with_categories():
    x, y = table("wine", 60)
    frame = pandas.DataFrame(x[:, :2], columns=["alcohol", "acid"])
    frame["soil"] = np.array(["clay", "sand", "lime"])[np.arange(60) % 3]
    frame.loc[8, "soil"] = "chalk"
    model = scaled(
        compose.ColumnTransformer(
            [
                ("numbers", preprocessing.StandardScaler(), ["alcohol", "acid"]),
                ("names", preprocessing.OneHotEncoder(), ["soil"]),
            ]
        ),
        linear_model.RidgeClassifier(),
    ).fit(frame, y)
    found = reconstruct(model, frame.drop(index=8), np.delete(y, 8))
    assert found.names == ("alcohol", "acid", "soil")
    assert found.value[2] == "chalk"
    np.testing.assert_allclose(found.value[:2].astype(float), x[8, :2])
    assert found.determined.all()


def test_a_class_that_nobody_else_has():
    x, y = table("wine")
    y = y.copy()
    y[5] = 9
    model = neural_network.MLPClassifier((3,), max_iter=2, random_state=0)
    found = answer(fitted(model, x, y), x, y, 5)
    assert found.y == 9
    assert any("Everything it needs is stored" in note for note in found.notes)


def test_ones_own_reader(monkeypatch):
    class Mine(linear_model.Ridge):
        pass

    def read(leaf):
        return [
            Finding(field="seen_", tells="it", lower=leaf.known[0], upper=leaf.known[0])
        ]

    x, y = table("wine")
    model = Mine().fit(x, y)
    with pytest.raises(ReconstructionImpossibleError, match="no reader for Mine"):
        answer(model, x, y, 3)
    monkeypatch.setattr(registry, "KINDS", dict(registry.KINDS))
    register("Mine", read)
    found = answer(model, x, y, 3)
    np.testing.assert_array_equal(found.value, x[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X_known": np.ones((177, 12))}, r"X_known of 13 features.*\(177, 12\)"),
        ({"X_known": np.ones(177)}, r"X_known of shape \(rows, features\)"),
        ({"X_known": np.ones((0, 13)), "y_known": []}, "a row at least"),
        ({"y_known": np.ones(5)}, r"Expected 177 labels in y_known.*\(5,\)"),
        ({"position": 178}, r"position in \[0, 178\)"),
        ({"position": -1}, "position in"),
        ({"sample_weight": np.ones(3)}, r"sample_weight of shape \(177,\)"),
        ({"estimator": linear_model.Ridge()}, "Expected a fitted estimator"),
        ({"estimator": linear_model.Ridge}, "to be a fitted scikit-learn estimator"),
        ({"estimator": "model.pkl"}, "to be a fitted scikit-learn estimator, got str"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_wrong_inputs(change, message):
    x, y = table("wine")
    given = {
        "estimator": linear_model.Ridge().fit(x, y),
        "X_known": x[1:],
        "y_known": y[1:],
    } | change
    with pytest.raises(ValueError, match=message):
        informed.reconstruct_sklearn(**given)


def test_the_four_models_as_before():
    """Their closed form's fields, and Theorem 8's two candidates."""
    x, y = table("diabetes")
    found = answer(linear_model.Ridge().fit(x, y), x, y, 0)
    assert found.closed_form.residual > 0
    assert found.implied_error is None
    assert found.x is found.value
    model = linear_model.Ridge(fit_intercept=False).fit(x, y)
    pair = informed.reconstruct_sklearn(model, x[1:], y[1:], target_label=y[0])
    first, second = pair.candidates
    assert min(np.abs(first.x - x[0]).max(), np.abs(second.x - x[0]).max()) < 1e-9
    with pytest.raises(ReconstructionImpossibleError, match="needs target_label"):
        informed.reconstruct_sklearn(model, x[1:], y[1:])


def parts_of_columns(second):
    first = ("scaled", preprocessing.StandardScaler(), list(range(6)))
    return compose.ColumnTransformer([first, ("second", second, list(range(6, 13)))])


def test_features_that_one_lossy_part_hides_are_named():
    """The model got them, and what it tells of them comes back from nowhere."""
    x, y = table("wine")
    model = pipeline.make_pipeline(
        parts_of_columns(preprocessing.Normalizer()), naive_bayes.GaussianNB()
    )
    found = answer(model.fit(x, y), x, y, 3)
    assert found.determined.tolist() == [True] * 6 + [False] * 7
    assert found.unread == (
        "columntransformer.second (Normalizer)",
        "gaussiannb (GaussianNB), features 6, 7, 8, 9, 10, 11, 12",
    )


@pytest.mark.parametrize(
    "second", ["drop", "passthrough", preprocessing.FunctionTransformer()]
)
def test_what_is_dropped_or_left_as_it_is_hides_nothing(second):
    x, y = table("wine")
    model = scaled(parts_of_columns(second), naive_bayes.GaussianNB())
    found = answer(model.fit(x, y), x, y, 3)
    assert found.unread == ()
    assert found.determined[:6].all()
