"""Certificates of what a model got; frozen steps; rare categories; single precision."""

import copy

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    Lasso,
    LogisticRegression,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.naive_bayes import CategoricalNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.svm import SVC

from artefacts import inputs, reconstruct, sanitise
from artefacts.findings import LimitError, ReconstructionImpossibleError
from artefacts.span import direction, probe

pd = pytest.importorskip("pandas")
AT = 9


def without(rows):
    if hasattr(rows, "drop"):
        return rows.drop(index=AT)
    return np.delete(rows, AT, axis=0)


def read(model, rows, labels=None, **more):
    labels = None if labels is None else without(np.asarray(labels))
    return reconstruct(model, without(rows), labels, **more)


@pytest.fixture
def rows(rng):
    return np.round(rng.normal(5, 2, (60, 4)), 2)


@pytest.fixture
def labels(rows, rng):
    return (rows[:, 0] + rng.normal(0, 0.7, 60) > 5).astype(int)


def test_a_certificate_is_of_the_columns_that_the_model_got(rows, labels):
    model = make_pipeline(
        SimpleImputer(), SelectKBest(k=1), LogisticRegression(tol=1e-12, max_iter=9999)
    ).fit(rows, labels)
    known, kept = without(rows), int(np.argmax(model[1].get_support()))
    known[3, 2 if kept != 2 else 1] += 4.0
    found = reconstruct(model, known, without(labels))
    # A wrong known value where the model never looked makes a wrong value there.
    assert found.determined.all()
    assert not found.certified


def test_steps_that_give_data_frames_keep_the_certificate(rows, labels):
    model = make_pipeline(SimpleImputer(), LogisticRegression(tol=1e-10))
    model.set_output(transform="pandas").fit(rows, labels)
    assert read(model, rows, labels).certified


def test_bins_and_rare_categories_are_carried_back(rng):
    codes = rng.integers(0, 4, (60, 3)).astype(float)
    codes[:3, 0] = 7.0
    labels = rng.integers(0, 2, 60)
    rare = OneHotEncoder(min_frequency=4, handle_unknown="infrequent_if_exist")
    for encoder in (rare, OneHotEncoder(drop="first", max_categories=3)):
        model = make_pipeline(encoder, LogisticRegression(tol=1e-10)).fit(codes, labels)
        found = read(model, codes, labels)
        told = found.determined
        np.testing.assert_array_equal(found.value[told], codes[AT][told])
    found = read(make_pipeline(rare, LogisticRegression(tol=1e-10)).fit(codes, labels),
                 codes, labels)  # fmt: skip
    assert found.determined.all()
    assert found.certified


def test_codes_of_an_encoder_whose_rare_category_comes_last(rng):
    """The rare 1 has the last code, so that 2 has the first."""
    codes = rng.integers(2, 5, (60, 3)).astype(float)
    codes[:2] = 1.0
    labels = rng.integers(0, 2, 60)
    encoder = OrdinalEncoder(
        min_frequency=4, handle_unknown="use_encoded_value", unknown_value=-1
    )
    model = make_pipeline(encoder, Ridge()).fit(codes, labels)
    for at in range(0, 60, 7):
        found = reconstruct(
            model, np.delete(codes, at, 0), np.delete(labels, at), position=at
        )
        told = found.determined
        np.testing.assert_allclose(found.value[told].astype(float), codes[at][told])
        assert np.all((found.lower <= codes[at]) & (codes[at] <= found.upper))


def test_what_a_group_of_rare_categories_hides_is_not_certified(rng):
    codes = rng.integers(0, 4, (60, 3)).astype(float)
    codes[[3, AT, 20], 0] = 7.0, 9.0, 8.0  # three rare ones, of which AT has 9
    labels = rng.integers(0, 2, 60)
    rare = OneHotEncoder(min_frequency=4, handle_unknown="infrequent_if_exist")
    model = make_pipeline(rare, LogisticRegression(tol=1e-10)).fit(codes, labels)
    known = without(codes)
    known[3, 0] = 9.0  # and a known row is told wrongly: 9 for 7
    found = reconstruct(model, known, without(labels))
    assert not (found.certified and found.determined[0] and found.value[0] != 9.0)


def test_columns_that_nothing_comes_back_from_are_unread(rows, labels):
    parts = make_column_transformer((PCA(2), [0, 1, 2, 3]))
    model = make_pipeline(parts, LogisticRegression(tol=1e-10)).fit(rows, labels)
    found = read(model, rows, labels)
    assert any("LogisticRegression" in each for each in found.unread)


def test_zeros_behind_a_step_keep_their_certificate(rng, labels):
    """The first rows are zero in a column whose mean isn't."""
    rows = rng.normal(size=(60, 3))
    rows[:30, 1] = 0.0
    frozen = FrozenEstimator(StandardScaler().fit(rng.normal(1, 2, (200, 3))))
    model = make_pipeline(frozen, LogisticRegression(tol=1e-12, max_iter=999))
    assert read(model.fit(rows, labels), rows, labels).certified


def test_a_bin_that_a_column_of_an_encoding_tells_bounds_the_value(rows, labels):
    model = make_pipeline(KBinsDiscretizer(3), LogisticRegression(tol=1e-10))
    found = read(model.fit(rows, labels), rows, labels)
    edges = model[0].bin_edges_
    for j, value in enumerate(rows[AT]):
        bin_ = np.searchsorted(edges[j][1:-1], value, side="right")
        assert found.lower[j] >= edges[j][bin_] - 1e-9
        assert found.upper[j] <= edges[j][bin_ + 1] + 1e-9


def test_what_is_not_carried_back_is_unread(rows, labels):
    model = make_pipeline(PCA(2), LogisticRegression(tol=1e-10)).fit(rows, labels)
    assert any(
        "LogisticRegression" in each for each in read(model, rows, labels).unread
    )


def test_what_was_frozen_elsewhere_refutes_nothing(rows, labels, rng):
    public = np.round(rng.normal(5, 2, (200, 4)), 2)
    for step in (StandardScaler(), SimpleImputer()):
        frozen = FrozenEstimator(copy.deepcopy(step.fit(public)))
        model = make_pipeline(frozen, LogisticRegression(tol=1e-12, max_iter=999))
        found = read(model.fit(rows, labels), rows, labels)
        assert not found.refuted
        assert found.certified
        np.testing.assert_allclose(found.value.astype(float), rows[AT], rtol=1e-6)


def test_labels_of_a_weighted_kernel_ridge(rows, rng):
    outputs = rows @ [1.0, 2.0, -1.0, 0.5]
    weights = rng.integers(1, 4, 60).astype(float)
    model = KernelRidge(kernel="rbf").fit(rows, outputs, sample_weight=weights)
    told = {"sample_weight": without(weights), "target_weight": weights[AT]}
    assert read(model, rows, outputs, **told).y == pytest.approx(outputs[AT])
    assert read(model, rows, outputs).y is None
    plain = KernelRidge(kernel="rbf").fit(rows, outputs)
    assert read(plain, rows, outputs).y == pytest.approx(outputs[AT])


def test_single_precision_tells_no_last_digits(rng):
    rows = rng.normal(100, 5, (400, 4)).astype(np.float32)
    outputs = (rows @ np.array([1, 2, -1, 0.5], np.float32)).astype(np.float32)
    for model in (
        SimpleImputer().fit(rows),
        Lasso(alpha=0.01, tol=1e-12, max_iter=100_000).fit(rows, outputs),
    ):
        found = read(model, rows, outputs)
        inside = (found.lower <= rows[AT]) & (rows[AT] <= found.upper)
        assert inside.all()
        assert not found.determined.any()


def test_one_count_for_columns_of_equally_many_holes(rows):
    rows[[3, 8], 0] = rows[[4, 15], 1] = rows[[10, 11], 2] = rows[[12, 13], 3] = np.nan
    scaler = StandardScaler().fit(rows)
    assert np.ndim(scaler.n_samples_seen_) == 0
    found = read(scaler, rows)
    np.testing.assert_allclose(found.value.astype(float), rows[AT])
    with pytest.raises(ReconstructionImpossibleError, match="Is the fixed set"):
        reconstruct(scaler, without(rows)[1:])


def test_categories_that_are_dates_or_look_like_numbers(rng):
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 20, 60), unit="D"),
            "post": rng.choice(["01234", "1", "20095"], 60),
            "age": rng.integers(20, 80, 60).astype(float),
        }
    )
    frame.loc[AT, "post"] = "00001"
    frame.loc[AT, "day"] = pd.Timestamp("2021-05-05")
    model = make_column_transformer(
        (OneHotEncoder(), ["day", "post"]), (StandardScaler(), ["age"])
    ).fit(frame)
    found = read(model, frame)
    assert not found.refuted
    assert found.value[1] == "00001"
    assert pd.Timestamp(found.value[0]) == pd.Timestamp("2021-05-05")


@pytest.mark.parametrize("kind", [GaussianNB, MultinomialNB, MLPClassifier])
def test_a_class_without_rows_is_nobodys_label(kind, rows):
    labels, counts = (rows[:, 0] > 5).astype(int), np.abs(np.round(rows))
    model = kind()
    for some in np.array_split(np.arange(60), 3):
        model.partial_fit(counts[some], labels[some], classes=[0, 1, 2])
    found = read(model, counts, labels)
    assert found.y in (None, labels[AT])
    assert not found.contradictions
    if kind is not MLPClassifier:
        assert not found.refuted
        np.testing.assert_allclose(found.value.astype(float), counts[AT])


def test_numbers_with_decimals_are_cut_off_by_a_categorical(rows, labels):
    rows = np.abs(rows) + 0.3
    found = read(CategoricalNB().fit(rows, labels), rows, labels)
    assert not found.determined.any()
    assert np.all((found.lower <= rows[AT]) & (rows[AT] <= found.upper))


def test_sparse_rows_behind_an_encoder(rng):
    codes, labels = rng.integers(0, 3, (40, 3)), rng.integers(0, 2, 40)
    for model in (
        CalibratedClassifierCV(RidgeClassifier(), cv=2),
        RFE(RidgeClassifier(), n_features_to_select=4),
    ):
        made = make_pipeline(OneHotEncoder(), model).fit(codes, labels)
        assert read(made, codes, labels) is not None
    rows = sparse.csr_matrix(codes.astype(float))
    machine = SVC(kernel="linear").fit(rows, labels)
    known = sparse.csr_matrix(without(rows.toarray()))
    assert reconstruct(machine, known, without(labels)) is not None


def test_a_calibrated_pipeline_of_named_columns(rows, labels):
    frame = pd.DataFrame(rows, columns=list("abcd"))
    inner = make_pipeline(
        make_column_transformer((StandardScaler(), ["a", "b"])), RidgeClassifier()
    )
    model = CalibratedClassifierCV(inner, cv=3).fit(frame, labels)
    found = read(model, frame, labels)
    np.testing.assert_allclose(found.value[:2].astype(float), rows[AT, :2])


def test_isotonic_calibrators_are_named_as_unread(rows, labels):
    for method, named in (("isotonic", True), ("sigmoid", False)):
        model = CalibratedClassifierCV(GaussianNB(), method=method, cv=3)
        found = read(model.fit(rows, labels), rows, labels)
        assert ("calibrators" in found.unread) == named


def test_transformed_outputs_are_named_as_unread(rows):
    outputs = rows @ [1.0, 2.0, -1.0, 0.5]
    for transformer, named in ((StandardScaler(), True), (None, False)):
        model = TransformedTargetRegressor(Ridge(), transformer=transformer)
        found = read(model.fit(rows, outputs), rows, outputs)
        assert ("transformer_" in found.unread) == named


def test_a_copy_keeps_where_its_columns_lie():
    frame = pd.DataFrame(
        {"text": ["some text", "more words", "a text", "nothing"] * 5, "n": range(20)}
    )
    labels = np.array([0, 1, 0, 1] * 5)
    parts = make_column_transformer((StandardScaler(), ["n"]))
    parts.transformers.append(("text", TfidfVectorizer(), "text"))
    model = make_pipeline(parts, RidgeClassifier()).fit(frame, labels)
    made = sanitise(model, frame, known=frame)
    assert made.equal
    assert reconstruct(made.estimator, frame.drop(index=0), labels[1:]) is not None


def test_copies_of_decompositions():
    wide = np.random.default_rng(0).normal(size=(8, 20))
    assert sanitise(PCA().fit(wide), wide).equal


def test_why_nothing_was_read_names_the_span(rng):
    rows = rng.binomial(2, 0.3, (61, 300)).astype(float)
    labels = rng.integers(0, 2, 61)
    model = SGDClassifier(random_state=0).fit(rows, labels)
    said = set()
    for at in range(61):
        known = np.arange(61) != at
        try:
            assert reconstruct(model, rows[known], labels[known]).certified
        except ReconstructionImpossibleError as error:
            said.add(str(error))
    assert said
    assert all("no gradient everywhere. SGDClassifier: " in each for each in said)
    assert any("Off the span of the known rows" in each for each in said)
    rows, labels = load_wine(return_X_y=True)
    model = Perceptron().fit(rows, labels)
    with pytest.raises(ReconstructionImpossibleError, match="no reader for Perceptron"):
        reconstruct(model, rows[1:], labels[1:])


def test_limits_of_the_tool_are_no_limits_of_the_attack(monkeypatch):
    monkeypatch.setattr(direction, "_MOST", 20)
    rng = np.random.default_rng(0)
    with pytest.raises(LimitError, match="limit of this tool"):
        direction.read(rng.normal(size=(1, 90)), rng.normal(size=(30, 90)))

    class Picky(RidgeClassifier):
        def fit(self, rows, labels):
            if len(rows) < 100:
                raise ValueError("too few rows")
            return super().fit(rows, labels)

    rows = rng.normal(size=(120, 300))
    model = Picky().fit(rows, np.arange(120) % 2)
    assert probe.of_estimator(model) == ""


def test_a_seed_of_numpys_is_a_seed(rows, labels):
    model = MLPClassifier((3,), max_iter=2, random_state=np.int64(3)).fit(rows, labels)
    found = read(model, rows, labels, position=AT)
    assert any("Everything it needs is stored" in note for note in found.notes)


def test_texts_of_a_bag_are_those_of_each_member(rng):
    codes = rng.choice(["01", "02", "03"], (60, 2)).astype(object)
    x = np.column_stack([codes[:, 0], rng.integers(0, 3, (60, 2)), codes[:, 1]])
    bag = BaggingClassifier(
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()),
        max_features=0.5,
        n_estimators=6,
        random_state=0,
    ).fit(x, rng.integers(0, 2, 60))
    assert {*np.concatenate(bag.estimators_features_).tolist()} == {0, 1, 2, 3}
    assert inputs.text_features(bag) == {0, 3}
