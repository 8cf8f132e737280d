"""Findings of the second audit on artefacts, each with what it once told wrongly."""

import warnings

import numpy as np
import pytest
from sklearn import (
    calibration,
    cluster,
    datasets,
    decomposition,
    ensemble,
    linear_model,
    manifold,
    naive_bayes,
    neighbors,
    pipeline,
    preprocessing,
    svm,
)

import informed
from artefacts import findings, page
from artefacts.reconstruct import reconstruct
from informed.audit import shipped
from tests.artefacts.planted import answer, check, fitted, table

chain = pipeline.make_pipeline
X, y = datasets.load_wine(return_X_y=True)


def clouds(seed, rows=80):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    return rng.normal(size=(3, 4))[labels] * 2 + rng.normal(size=(rows, 4)), labels


def far(times):
    def made(seed):
        x, labels = clouds(seed)
        x[9] *= times
        return x, labels

    return made


def high(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(1000, 1, size=(80, 4))
    return x, rng.normal(size=80)


def hole(seed):
    x, labels = clouds(seed)
    x[9, seed % 4] = np.nan
    return x, labels


def nine_digits(seed):
    x, labels = clouds(seed)
    return 1e6 + 1e-3 * x, labels


def single(seed):
    x, labels = clouds(seed)
    return (x + 100).astype(np.float32), labels


def not_converged(random_state):
    return cluster.KMeans(3, tol=0.05, n_init=1, random_state=random_state)


CASES = {
    "KMeans, 30 times": (lambda s: cluster.KMeans(3, random_state=s), far(30)),
    "KMeans, 300 times": (lambda s: cluster.KMeans(3, random_state=s), far(300)),
    "scaler, KMeans": (
        lambda s: chain(preprocessing.StandardScaler(), not_converged(s)),
        clouds,
    ),
    "power, Ridge": (
        lambda s: chain(preprocessing.PowerTransformer(), linear_model.Ridge()),
        high,
    ),
    "ExtraTrees": (lambda s: ensemble.ExtraTreesClassifier(10, random_state=s), hole),
    "forest": (lambda s: ensemble.RandomForestClassifier(10, random_state=s), hole),
    "histograms": (
        lambda s: ensemble.HistGradientBoostingClassifier(max_iter=3),
        hole,
    ),
    "GaussianNB": (lambda s: naive_bayes.GaussianNB(), nine_digits),
    "PCA": (lambda s: decomposition.PCA(2), single),
    "behind NMF": (
        lambda s: chain(
            preprocessing.MinMaxScaler(),
            decomposition.NMF(2, random_state=s, max_iter=20),
            naive_bayes.GaussianNB(),
        ),
        clouds,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_finding_1_right_known_rows_are_never_refuted(case):
    make, data = CASES[case]
    for seed in range(4):
        x, labels = data(seed)
        model = fitted(make(seed), x, labels)
        told = answer(model, x, labels, 9)
        assert not told.refuted
        there = np.isfinite(x[9])
        room = 1e-9 * np.abs(x[9])
        assert np.all((told.lower - room <= x[9]) | ~there)
        assert np.all((x[9] <= told.upper + room) | ~there)
        assert not (told.certified and np.any(told.determined & ~there))


def test_finding_1_a_centre_that_is_the_row_is_the_row():
    for seed in range(4):
        x, labels = far(300)(seed)
        model = cluster.KMeans(3, random_state=seed).fit(x)
        assert np.isclose(model.cluster_centers_, x[9], rtol=1e-12).all(axis=1).any()
        told = answer(model, x, labels, 9)
        assert told.exact
        assert told.certified
        np.testing.assert_allclose(told.value, x[9], rtol=1e-9)


def test_finding_1_a_missing_value_is_named():
    """What the trees say of the other features still holds."""
    named = 0
    for seed in range(6):
        x, labels = hole(seed)
        model = ensemble.ExtraTreesClassifier(10, random_state=seed).fit(x, labels)
        told = answer(model, x, labels, 9)
        named += any(f"columns {seed % 4} does" in note for note in told.notes)
    assert named >= 3


@pytest.mark.parametrize("leaf", ["counts", "moments"])
def test_finding_1_a_refuted_leaf_leaves_what_another_one_certifies(leaf):
    """The model behind the scaler was fitted to other rows."""
    other = X[:-1] if leaf == "counts" else X + np.eye(len(X))[:, :13]
    scaler = preprocessing.StandardScaler().fit(X)
    second = preprocessing.StandardScaler().fit(scaler.transform(other))
    whole = pipeline.Pipeline([("first", scaler), ("second", second)])
    told = answer(whole, X, y, 40)
    assert told.refuted
    assert all(field.startswith("second") for field in told.refuted)
    assert told.exact
    assert told.certified
    np.testing.assert_allclose(told.value, X[40], rtol=1e-9)
    text = page.page("a", told)
    assert "The missing row is known" in text
    assert 'class="verdict"' in text


STORING = [
    chain(manifold.Isomap(n_components=3), linear_model.LogisticRegression()),
    chain(
        manifold.LocallyLinearEmbedding(n_neighbors=12, n_components=3),
        linear_model.LogisticRegression(),
    ),
    chain(preprocessing.RobustScaler(), manifold.Isomap(), naive_bayes.GaussianNB()),
    chain(preprocessing.RobustScaler(), neighbors.KNeighborsClassifier()),
    ensemble.BaggingClassifier(neighbors.KNeighborsClassifier(), random_state=0),
    cluster.HDBSCAN(copy=True),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", STORING, ids=lambda e: str(type(e).__name__))
def test_finding_2_stored_rows_are_found_wherever_they_lie(estimator):
    fitted(estimator, X, y)
    kept = shipped.keeps_records(estimator, X[:100])
    assert any("_fit_X" in name or "_raw_data" in name for name in kept)
    told = answer(estimator, X, y, 7)
    check(told, X[7])
    assert told.exact
    assert told.stored
    assert "The missing row is known" in page.verdict(told)


class Half(linear_model.Ridge):
    """Keeps half of its rows, deep inside."""

    def fit(self, x, labels):
        self.deep_ = {"a": [{"b": (x[: len(x) // 2], 3)}]}
        return super().fit(x, labels)


def test_finding_2_no_verdict_says_that_nothing_is_determined_beside_stored_rows():
    model = chain(preprocessing.MaxAbsScaler(), Half().fit(X, y))
    model.fit(X, y)
    told = answer(model, X, y, 150)
    assert told.stored == ("half.deep_['a'][0]['b'][0]",)
    assert not told.determined.any()
    text = page.verdict(told)
    assert "No feature" not in text
    assert "half.deep_" in text
    assert "Not read: half (Half)" in text
    assert 'class="verdict"' in page.page("a", told)


def test_finding_2_what_was_not_read_is_in_the_verdict():
    model = chain(preprocessing.MaxAbsScaler(), svm.LinearSVC(loss="hinge"))
    told = answer(fitted(model, X, y), X, y, 100)
    assert told.unread == ("linearsvc (LinearSVC)",)
    assert "Not read: linearsvc (LinearSVC)" in page.verdict(told)
    assert "mild" not in page.page("a", told).partition("</style>")[2]


@pytest.mark.parametrize(("data", "seed"), [("iris", 18), ("iris", 30), ("made", 4)])
def test_finding_9_members_that_saw_the_row_must_all_certify_it(data, seed):
    rng = np.random.default_rng(seed)
    if data == "iris":
        x, labels = datasets.load_iris(return_X_y=True)
        keep = rng.permutation(150)[:60]
        x, labels = x[keep], labels[keep]
    else:
        labels = rng.integers(0, 2, 60)
        x = rng.normal(size=(60, 4)) + labels[:, None]
    target = int(rng.integers(60))
    model = calibration.CalibratedClassifierCV(svm.LinearSVC(random_state=0), cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, labels)
        try:
            told = answer(model, x, labels, target)
        except informed.ReconstructionImpossibleError:
            return  # it isn't told, so it isn't told wrongly
    off = np.abs(np.asarray(told.value, float) - x[target])
    assert not told.determined.any() or off[told.determined].max() < 1e-6
    assert not told.certified or told.exact


KERNELS = [
    svm.SVC(),
    svm.NuSVC(nu=0.1),
    svm.SVR(epsilon=0.5),
    svm.NuSVR(nu=0.3),
    svm.OneClassSVM(nu=0.3),
]


@pytest.mark.parametrize("estimator", KERNELS, ids=lambda e: type(e).__name__)
def test_finding_12_one_wrong_known_row_is_never_certified(estimator):
    """A support vector is altered: its stored version is taken for the missing row."""
    x, labels = clouds(3)
    estimator.fit(x, labels)
    kept = set(estimator.support_.tolist())
    others = [i for i in range(len(x)) if i not in kept]
    inside = sorted(kept)
    told_apart = 0
    for target, altered in zip(others, inside[::-1], strict=False):
        known, own = np.delete(x, target, 0), np.delete(labels, target)
        at = altered - (altered > target)
        before = known[at].copy()
        known[at] += 0.5
        told = reconstruct(estimator, known, own)
        assert not told.certified
        between = [i for i in kept if min(target, altered) < i < max(target, altered)]
        if between:  # a support vector shows that rows in between are in their places
            told_apart += 1
            assert not told.determined.any()
        elif told.determined.any():
            np.testing.assert_array_equal(told.value, before)
    assert told_apart


def test_finding_12_a_store_of_all_rows_still_certifies():
    x, labels = clouds(3)
    told = answer(neighbors.KNeighborsClassifier().fit(x, labels), x, labels, 5)
    assert told.certified
    # Without a tube every row is outside it.
    model = svm.SVR(epsilon=0.0).fit(x, x @ np.arange(4.0) + labels)
    assert len(model.support_) == len(x)
    assert answer(model, x, labels, 5).certified


@pytest.mark.parametrize("times", [1e6, 1e9, -1e10])
def test_finding_13_a_far_target_known_to_nine_digits_is_determined(times):
    x, labels = clouds(1)
    x[9] = times * np.array([1.0, 2.0, 3.0, 4.0])
    told = answer(preprocessing.StandardScaler().fit(x), x, labels, 9)
    assert told.exact
    np.testing.assert_allclose(told.value, x[9], rtol=1e-9)


def test_finding_13_intervals_among_the_known_values_count_by_their_grain():
    known = np.linspace(1000.0, 1000.001, 50)[:, None]
    low, high = np.array([1000.0002]), np.array([1000.0008])
    assert not findings.narrow(low, high, known)[0]  # relatively 6e-7 wide
    far_out = np.array([1e9]), np.array([1e9 + 900.0])
    assert findings.narrow(*far_out, known)[0]
    assert not findings.narrow(far_out[0], far_out[1] + 1000.0, known)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_from_means_of_single_precision_are_told_as_closely_as_they_are(dtype):
    x, _ = table("wine")
    x = x.astype(dtype)
    for model in (decomposition.PCA(3), cluster.KMeans(3, n_init=1, random_state=0)):
        told = answer(model.fit(x), x, None, 20)
        assert not told.refuted
        assert np.all(told.lower <= x[20])
        assert np.all(x[20] <= told.upper)
        assert not told.determined.all() if dtype is np.float32 else told.exact
