"""What an audit with fresh eyes found: right rows refuted, wrong ones confirmed, parts
that nobody read and nobody named, files that open other files.
"""

import collections
import dataclasses
import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import Birch, BisectingKMeans, MeanShift
from sklearn.compose import ColumnTransformer
from sklearn.covariance import EmpiricalCovariance, LedoitWolf
from sklearn.decomposition import PCA, FactorAnalysis, FastICA
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
    PoissonRegressor,
    RidgeClassifier,
)
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedShuffleSplit, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from artefacts import contents, page, registry
from artefacts.findings import ReconstructionImpossibleError
from artefacts.reconstruct import reconstruct
from artefacts.sanitise import sanitise
from dp.checks import FieldError
from informed.cli.commands import main
from tests.artefacts.planted import AT, without

# Wrong rows, confirmed or told.


def test_a_certificate_counts_for_the_columns_of_its_part(rng):
    rows = rng.normal(size=(40, 2))
    parts = [("a", StandardScaler(), [0]), ("b", SimpleImputer(), [1])]
    model = ColumnTransformer(parts).fit(rows)
    known = without(rows)
    known[3, 1] += 1
    told = reconstruct(model, known)
    assert told.determined.all()
    assert abs(told.value[1] - rows[AT, 1]) > 0.5, "the known rows are wrong there"
    assert not told.certified
    whole = reconstruct(StandardScaler().fit(rows), without(rows))
    assert whole.certified


def test_what_comes_behind_all_columns_confirms_all(wine):
    """Quantiles and extremes confirm nothing; the model behind them does."""
    rows, labels = wine
    parts = [
        ("quantiles", QuantileTransformer(n_quantiles=len(rows)), [0, 1, 2, 3]),
        ("range", MinMaxScaler(), list(range(4, 13))),
    ]
    model = make_pipeline(ColumnTransformer(parts), RidgeClassifier()).fit(rows, labels)
    told = reconstruct(model, without(rows), without(labels))
    assert told.determined.all()
    assert told.certified


@pytest.mark.parametrize("centre", [10.0, 1000.0, 10_000.0])
def test_powers_of_single_precision_are_neither_certain_nor_refuted(centre):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = (rng.normal(size=(200, 3)) + centre).astype(np.float32)
        try:
            told = reconstruct(PowerTransformer().fit(rows), without(rows))
        except ReconstructionImpossibleError:
            continue
        assert not told.refuted
        assert not told.certified
        off = np.abs(told.value.astype(float) - rows[AT])[told.determined]
        assert np.all(off < 1e-3), (seed, off)


@pytest.mark.parametrize(
    "model",
    [
        BisectingKMeans(3, random_state=0),
        GaussianMixture(3, reg_covar=1e-3, random_state=0),
        MeanShift(bandwidth=10),
        Birch(threshold=8.0, n_clusters=None),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_centre_beside_known_rows_is_no_row(model, rng):
    rows = rng.normal(size=(60, 4))
    rows[5] += 100
    rows[6] -= 100
    known = np.delete(rows, 20, axis=0)
    try:
        told = reconstruct(model.fit(rows), known)
    except ReconstructionImpossibleError:
        return
    off = np.abs(told.value.astype(float) - rows[20])
    assert not np.any(told.determined & (off > 1e-3))


def test_a_data_frame_in_another_order(rng):
    pandas = pytest.importorskip("pandas")
    rows = rng.normal(size=(30, 4)) * [1, 5, 20, 3]
    frame = pandas.DataFrame(rows, columns=list("abcd"))
    model = SimpleImputer().fit(frame)
    told = reconstruct(model, frame.drop(index=AT)[list("dcba")])
    assert told.names == tuple("abcd")
    np.testing.assert_allclose(told.value.astype(float), rows[AT])
    with pytest.raises(FieldError, match="there is no d"):
        reconstruct(model, frame.drop(columns="d"))


# Right rows, refuted.


@pytest.mark.parametrize("at", [9, 80, 150])
def test_constraints_cut_values_of_leaves(at, wine):
    rows, labels = wine
    rows, labels = rows[labels < 2], labels[labels < 2]
    at = at % len(rows)
    forest = RandomForestClassifier(
        5, monotonic_cst=[1] + [0] * 12, random_state=3
    ).fit(rows, labels)
    told = reconstruct(forest, np.delete(rows, at, 0), np.delete(labels, at))
    assert not told.refuted


def test_weighted_percentiles_are_not_replayed(rng):
    rows = rng.normal(size=(300, 3))
    labels = (rows[:, 0] > 0).astype(int)
    weights = rng.uniform(0.5, 2, 300)
    model = HistGradientBoostingClassifier(max_iter=3, max_bins=32)
    model.fit(rows, labels, sample_weight=weights)
    with pytest.raises(ReconstructionImpossibleError, match="percentiles"):
        reconstruct(
            model,
            without(rows),
            without(labels),
            sample_weight=without(weights),
            target_weight=weights[AT],
        )


def test_parts_that_saw_a_part_of_the_rows_are_not_read(wine):
    rows, labels = wine
    rows, labels = rows[labels < 2], labels[labels < 2]
    split = StratifiedShuffleSplit(1, random_state=0)
    for model in (
        TunedThresholdClassifierCV(GaussianNB(), refit=False, cv=split),
        CalibratedClassifierCV(GaussianNB(), cv=split, ensemble=True),
    ):
        fitted = model.fit(rows, labels)
        with pytest.raises(ReconstructionImpossibleError):
            reconstruct(fitted, without(rows), without(labels))


@pytest.mark.parametrize("kind", [bool, str])
def test_labels_of_another_type_are_the_classes_names(kind, wine):
    rows, labels = wine
    rows, labels = rows[labels < 2], labels[labels < 2].astype(bool)
    fitted = GaussianNB().fit(rows, labels.astype(kind))
    for told_as in (str, kind):
        given = without(labels.astype(kind)).astype(told_as)
        told = reconstruct(fitted, without(rows), given)
        np.testing.assert_allclose(told.value.astype(float), rows[AT], rtol=1e-6)


# What nobody read, and what is left.


def test_a_network_that_could_be_trained_again_is_not_read(wine):
    rows, labels = wine
    network = MLPClassifier((4,), max_iter=3, random_state=0)
    with pytest.warns(match="converge"):
        network.fit(rows, labels)
    told = reconstruct(network, without(rows), without(labels))
    assert told.unread == ("MLPClassifier",)
    assert "Not read: MLPClassifier" in page.verdict(told)
    assert 'verdict unclear"' in page.page("network", told)


def test_a_reader_that_gives_up_says_no_more_than_that():
    discrete = OneHotEncoder(categories=[[0, 1]]).fit([[0], [1], [1]])
    with pytest.raises(ReconstructionImpossibleError, match="nothing of what it store"):
        reconstruct(discrete, np.array([[0.0], [1.0]]))


def test_an_imputer_of_another_blank(rng):
    rows = rng.normal(size=(30, 3))
    rows[4, 1] = -1
    told = reconstruct(SimpleImputer(missing_values=-1).fit(rows), without(rows))
    np.testing.assert_allclose(told.value.astype(float), rows[AT])


def test_what_is_frozen_is_read(wine):
    rows, labels = wine
    inner = FrozenEstimator(GaussianNB().fit(rows, labels))
    model = CalibratedClassifierCV(inner).fit(rows, labels)
    told = reconstruct(model, without(rows), without(labels))
    np.testing.assert_allclose(told.value.astype(float), rows[AT], rtol=1e-6)


def test_a_subclass_is_taken_apart_as_its_parent(wine):
    class Mine(Pipeline):
        pass

    rows, labels = wine
    model = Mine([("scaler", StandardScaler()), ("model", LogisticRegression(C=0.1))])
    with np.errstate(all="ignore"):
        told = reconstruct(model.fit(rows, labels), without(rows), without(labels))
    assert told.determined.all()


def test_steps_behind_a_sampler_are_not_read(wine):
    class Sampler(BaseEstimator):
        def fit_resample(self, rows, labels):
            return rows, labels

    rows, labels = wine
    model = GaussianNB().fit(rows, labels)
    scaler = StandardScaler().fit(rows)
    whole = Pipeline([("scaler", scaler), ("model", model)])
    whole.steps.insert(1, ("sampler", Sampler()))
    told = reconstruct(whole, without(rows), without(labels))
    assert "model" in told.unread


def test_a_reader_that_stops_loses_nothing(rng, monkeypatch):
    """A solver that raises on rows of another kind; the scaler before it is the row."""
    rows = rng.poisson(4.0, size=(60, 3)).astype(float)
    labels = rows.sum(axis=1)
    model = make_pipeline(StandardScaler(), PoissonRegressor()).fit(rows, labels)

    def stops(leaf):
        raise OverflowError("no such exponent")

    kind = dataclasses.replace(registry.kind_of("PoissonRegressor"), read=stops)
    monkeypatch.setitem(registry.KINDS, "PoissonRegressor", kind)
    told = reconstruct(model, without(rows), without(labels))
    np.testing.assert_allclose(told.value.astype(float), rows[AT], atol=1e-6)
    assert any("OverflowError: no such exponent" in note for note in told.notes)
    assert "poissonregressor (PoissonRegressor)" in told.unread


@pytest.mark.parametrize(
    "held",
    [
        lambda rows: rows.tolist(),
        list,
        lambda rows: dict(enumerate(rows.tolist())),
        lambda rows: collections.deque(rows.tolist()),
        lambda rows: collections.deque(rows),
    ],
    ids=["list of lists", "list", "dict", "deque of lists", "deque"],
)
def test_rows_in_sequences_are_found(held, wine):
    rows, labels = wine
    model = GaussianNB().fit(rows, labels)
    model.kept_ = held(rows)
    found = [each.path for each in contents.holdings(model, without(rows))]
    assert any(path.startswith("kept_") for path in found)
    stripped = sanitise(model, without(rows), known=without(rows))
    assert any("kept_" in each.field for each in stripped.removed)


def test_what_lies_in_it_is_said_where_the_known_rows_are_refuted(wine):
    rows, labels = wine
    model = KNeighborsClassifier().fit(rows, labels)
    known = without(rows)
    known[3, 1] += 1
    told = reconstruct(model, known, without(labels))
    assert "_fit_X" in page.verdict(told)


def test_what_still_tells_after_stripping_is_named(wine):
    rows, _ = wine
    model = EmpiricalCovariance().fit(rows)
    told = reconstruct(model, without(rows))
    stripped = sanitise(model, without(rows), known=without(rows))
    after = reconstruct(stripped.estimator, without(rows))
    assert after.determined.all()
    shown = page.page("covariance", told, stripped.removed, after)
    assert "location_" in shown.split("After stripping")[1]


def test_outputs_of_a_dummy(rng):
    outputs = rng.normal(size=(20, 2)) * 100
    model = DummyRegressor().fit(outputs, outputs)
    told = reconstruct(model, without(outputs), without(outputs))
    np.testing.assert_allclose(told.y, outputs[AT])


def test_a_column_of_labels_is_labels(wine):
    rows, labels = wine
    model = GaussianNB().fit(rows, labels)
    told = reconstruct(model, without(rows), without(labels)[:, None])
    np.testing.assert_allclose(told.value.astype(float), rows[AT], rtol=1e-6)


def test_the_command_says_why_nothing_was_attacked_after(wine, tmp_path, capsys):
    from sklearn.semi_supervised import LabelSpreading
    from skops import io

    rows, labels = wine
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    with np.errstate(all="ignore"):
        io.dump(LabelSpreading().fit(rows, labels), tmp_path / "model.skops")
    table = np.column_stack([without(rows), without(labels)])
    header = ",".join([*(f"x{j}" for j in range(13)), "label"])
    np.savetxt(tmp_path / "k.csv", table, delimiter=",", header=header, comments="")
    known = f"--known={tmp_path / 'k.csv'}"
    main(["artefact", str(tmp_path / "model.skops"), known, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["stored"]
    assert found["after_sanitising"] or found["why_not_after_sanitising"]


@pytest.mark.parametrize(
    "model",
    [KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())],
    ids=["neighbours", "scaled neighbours"],
)
def test_decimals_that_were_trained_on_in_single_precision(model, rng):
    """A table has 48.85 where training had the nearest number of 24 binary digits."""
    rows = (rng.normal(size=(80, 3)) * [0.01, 0.01, 1] + [48.85, 2.35, 0]).round(5)
    labels = rng.integers(0, 2, 80)
    model.fit(rows.astype(np.float32), labels)
    told = reconstruct(model, without(rows), without(labels))
    assert not told.refuted
    inside = (told.lower - 1e-4 <= rows[AT]) & (rows[AT] <= told.upper + 1e-4)
    assert inside.all()
    if isinstance(model, KNeighborsClassifier):
        assert told.determined.all()
        assert told.stored
        assert told.certified


def test_centroids_of_single_precision_are_not_refuted(rng):
    for _ in range(5):
        rows = (rng.normal(size=(2000, 3)) + 1000).astype(np.float32)
        labels = rng.integers(0, 2, 2000)
        try:
            told = reconstruct(
                NearestCentroid().fit(rows, labels), without(rows), without(labels)
            )
        except ReconstructionImpossibleError:
            continue
        assert not told.refuted
        off = np.abs(told.value.astype(float) - rows[AT])[told.determined]
        assert np.all(off < 1e-2)


@pytest.mark.parametrize(
    "model",
    [
        EmpiricalCovariance(),
        LedoitWolf(),
        FastICA(2, random_state=0),
        FactorAnalysis(2),
        PCA(2),
        StandardScaler(with_mean=False),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_still_tells_is_kept_by_name(model, wine):
    rows, _ = wine
    with np.errstate(all="ignore"):
        stripped = sanitise(model.fit(rows), without(rows), known=without(rows))
    assert stripped.kept
    for each in stripped.kept:
        for field in each.field.split(", "):
            assert hasattr(stripped.estimator, field), field


@pytest.mark.parametrize("with_std", [True, False])
def test_a_missing_value_is_no_mean_where_counts_were_stripped(with_std, wine):
    """Its column's mean is the known rows': it was told as the value, or refuted."""
    rows = wine[0].copy()
    rows[AT, 3] = np.nan
    scaler = StandardScaler(with_std=with_std).fit(rows)
    stripped = sanitise(scaler, without(rows), known=without(rows)).estimator
    told = reconstruct(stripped, without(rows))
    assert not told.refuted
    assert not told.determined[3]
    others = np.arange(13) != 3
    np.testing.assert_allclose(told.value.astype(float)[others], rows[AT, others])
