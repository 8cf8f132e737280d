"""The target off the span of the known rows, against what was trained on."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import linear_model, svm
from sklearn.base import clone

import informed
from informed.attacks import quantisation, span
from informed.attacks.impossible import LimitError, ReconstructionImpossibleError
from informed.attacks.span import basis, columns, direction, linear_fit

MODELS = {
    "logistic": linear_model.LogisticRegression(),
    "liblinear": linear_model.LogisticRegression(solver="liblinear"),
    "weighted": linear_model.LogisticRegression(class_weight="balanced", max_iter=3),
    "svc": svm.LinearSVC(),
    "sgd": linear_model.SGDClassifier(random_state=1),
    "perceptron": linear_model.Perceptron(random_state=1),
    "ridge": linear_model.Ridge(),
    "ridge without intercept": linear_model.Ridge(fit_intercept=False),
}


def genotypes(seed, rows=61, features=600):
    """Counts of an allele, independent from variant to variant."""
    rng = np.random.default_rng(seed)
    share = np.clip(rng.beta(1, 3, features), 0.02, 0.6)
    return rng.binomial(2, share, (rows, features)).astype(np.float64)


def traits(rows, seed, classes=2):
    """Labels that depend on some of the columns."""
    rng = np.random.default_rng(seed + 1000)
    effects = rng.standard_normal(rows.shape[1])
    score = rows @ (effects * (rng.random(rows.shape[1]) < 0.1))
    order = np.argsort(np.argsort(score))
    return order * classes // len(rows)


def fitted(name, rows, labels):
    """A copy of a model, fitted; of a regression to labels with noise."""
    if name.startswith("ridge"):
        labels = labels + np.random.default_rng(0).standard_normal(len(labels))
    return clone(MODELS[name]).fit(rows, labels)


def completed(model, known):
    return span.complete(span.read(model.coef_, known), known)


def sine(direction, row):
    """Of the angle between what a row has off the span and what was read."""
    off = direction.basis.off((row / direction.basis.scale)[None])[0]
    off /= np.linalg.norm(off)
    return np.linalg.norm(off - (off @ direction.vectors.T) @ direction.vectors)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_direction_and_the_row(name, seed):
    rows = genotypes(seed)
    model = fitted(name, rows, traits(rows, seed))
    # A row that training never touched leaves nothing; then nothing may be read.
    shares = np.linalg.lstsq(rows.T, np.ravel(model.coef_), rcond=None)[0]
    target = len(rows) - 1
    touched = abs(shares[target]) > 1e-9 * np.abs(shares).max()
    known = np.delete(rows, target, axis=0)
    if not touched:
        with pytest.raises(ReconstructionImpossibleError, match="no direction"):
            span.read(model.coef_, known)
        return
    direction = span.read(model.coef_, known)
    assert direction.rank == 1
    assert sine(direction, rows[target]) <= direction.error < 1e-9
    found = span.complete(direction, known)
    assert np.array_equal(found.row, rows[target])
    # These two give rows equal weights, between which values may have moved.
    assert found.certified == (name not in ("sgd", "perceptron"))
    assert found.determined.all()


def test_a_value_that_moved_between_rows_of_equal_weight_is_not_certified():
    """A perceptron's weights are the same if a known row has the target's value."""
    rows, labels = genotypes(0), traits(genotypes(0), 0)
    assert (rows[-1, 186], rows[0, 186], labels[0]) == (1, 0, labels[-1])
    model = linear_model.Perceptron(random_state=1).fit(rows, labels)
    known = rows[:-1].copy()
    known[0, 186] = 1
    answer = informed.reconstruct_sklearn(model, known, labels[:-1])
    assert answer.value[186] == 0
    assert not answer.certified


def test_several_outputs_agree_on_one_direction():
    rows = genotypes(3)
    model = fitted("logistic", rows, traits(rows, 3, classes=4))
    direction = span.read(model.coef_, rows[:-1])
    assert direction.rank == 1
    assert direction.singular[1] < 1e-10 * direction.singular[0]
    assert np.array_equal(span.complete(direction, rows[:-1]).row, rows[-1])


@pytest.mark.parametrize("missing", [2, 3])
def test_the_rank_counts_the_unknown_rows(missing):
    rows = genotypes(4)
    model = fitted("logistic", rows, traits(rows, 4, classes=5))
    direction = span.read(model.coef_, rows[:-missing])
    assert direction.rank == missing
    assert len(direction.untrained) == 0
    for row in rows[-missing:]:
        assert sine(direction, row) <= direction.error
    other = genotypes(40)[0]
    assert sine(direction, other) > 0.5


def test_a_known_row_that_was_altered_is_named():
    rows = genotypes(5)
    model = fitted("logistic", rows, traits(rows, 5, classes=5))
    known = rows[:-1].copy()
    known[7, ::3] = genotypes(50)[0, ::3]
    direction = span.read(model.coef_, known)
    assert direction.rank == 2
    assert direction.untrained.tolist() == [7]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("wrong", ["altered", "missing", "one value"])
def test_wrong_known_rows_give_no_certificate(wrong, seed):
    rows = genotypes(seed)
    model = fitted("logistic", rows, traits(rows, seed))
    known = rows[:-1].copy()
    if wrong == "altered":
        known[seed] = genotypes(seed + 100)[0]
    elif wrong == "one value":
        known[seed, seed] = (known[seed, seed] + 1) % 3
    else:
        known = known[1:]
    assert not completed(model, known).certified


def test_a_row_that_an_exchange_of_known_rows_explains_as_well_is_not_certified():
    rows = genotypes(6)
    # Two known rows that differ where the target has room: it minus one plus the other
    # is a row of the grid as far from the span.
    rows[1] = rows[0]
    rows[0, :3], rows[1, :3], rows[-1, :3] = 1, 0, 1
    model = fitted("logistic", rows, traits(rows, 6))
    assert not completed(model, rows[:-1]).certified


def in_bytes(weights):
    step = np.abs(weights).max() / 127
    return np.round(weights / step) * step


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("float32", np.float32),
        ("float16", np.float16),
        ("4 decimals", lambda w: np.round(w, 4)),
        ("steps of", in_bytes),
    ],
)
def test_rounding_is_measured_and_the_error_follows_it(name, written):
    rows = genotypes(7, features=2000)
    weights = fitted("logistic", rows, traits(rows, 7)).coef_
    rounded = np.asarray(written(weights), np.float64)
    told = quantisation.measure(rounded)
    assert told.name.startswith(name)
    # Against the rounding itself, which the adversary can't see.
    real = np.sqrt(np.mean((rounded - weights) ** 2))
    assert 0.5 < np.sqrt(np.mean(told.deviation**2)) / real < 2
    direction = span.read(rounded, rows[:-1])
    assert sine(direction, rows[-1]) <= direction.error
    # Of single precision training may have been as well, which counts for more.
    if name != "float32":
        assert direction.error < 50 * sine(direction, rows[-1])
    assert np.array_equal(span.complete(direction, rows[:-1]).row, rows[-1])


def test_noise_above_the_direction_leaves_nothing():
    rows = genotypes(8)
    weights = fitted("logistic", rows, traits(rows, 8)).coef_
    noise = np.random.default_rng(0).standard_normal(weights.shape)
    deviation = 10 * weights.std()
    with pytest.raises(ReconstructionImpossibleError, match="lost in rounding"):
        span.read(weights + deviation * noise, rows[:-1], deviation=deviation)


def test_more_known_rows_than_features_leave_no_direction():
    rows = genotypes(9, rows=80, features=60)
    with pytest.raises(ReconstructionImpossibleError, match="60 of 60 dimensions"):
        span.read(np.ones((1, 60)), rows)
    many = np.broadcast_to(np.float32(1), (20_001, 30_000))
    with pytest.raises(ReconstructionImpossibleError, match="at most 20000 known rows"):
        span.read(np.ones((1, 30_000)), many)
    with pytest.raises(ValueError, match="60 features, as many as the layer"):
        span.read(np.ones((1, 60)), rows[:, :50])


def documents(seed, rows=101, features=900):
    """Bags of words of length one, words drawn by their rank."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, features + 1)
    counts = rng.multinomial(60, share / share.sum(), rows).astype(np.float64)
    counts *= 1 + np.log(features / np.arange(1, features + 1))[::-1]
    return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def test_a_table_of_categories_whole_numbers_and_measurements():
    rng = np.random.default_rng(1)
    blocks = [np.eye(12)[rng.integers(12, size=81)] for _ in range(40)]
    numbers = rng.standard_normal((81, 3))
    rows = np.hstack([*blocks, rng.integers(0, 60, (81, 4)), numbers])
    told = columns.of(rows[:-1])
    assert len(told.groups) == 40
    assert not told.discrete[-3:].any()
    for classes in (2, 4):
        model = fitted("logistic", rows, traits(rows, 1, classes))
        found = completed(model, rows[:-1])
        assert np.array_equal(found.row[:-3], rows[-1, :-3])
        assert np.abs(found.row[-3:] - rows[-1, -3:]).max() < 1e-6
        # With one output an error of a known measurement would look like this.
        assert found.certified == (classes == 4)


@pytest.mark.parametrize(("unit", "seed", "spreads"), [(1.0, 2, 0.3), (1e-3, 3, 3.0)])
def test_an_altered_measurement_gives_no_certificate(unit, seed, spreads):
    """In small units not even a refit shows it."""
    rng = np.random.default_rng(seed)
    measured = unit * rng.standard_normal((61, 4))
    rows = np.hstack([genotypes(seed, features=300), measured])
    model = fitted("logistic", rows, traits(rows, seed))
    known = rows[:-1].copy()
    known[5, -1] += spreads * unit
    found = completed(model, known)
    assert np.array_equal(found.row[:-4], rows[-1, :-4])
    assert not found.certified
    answer = informed.reconstruct_sklearn(model, known, traits(rows, seed)[:-1])
    assert not answer.certified


def test_measurements_beside_whole_numbers_are_certain_only_from_exact_weights():
    rng = np.random.default_rng(5)
    blocks = [np.eye(12)[rng.integers(12, size=81)] for _ in range(40)]
    rows = np.hstack([*blocks, rng.standard_normal((81, 3))])
    model = fitted("logistic", rows, traits(rows, 1, classes=4))
    for weights, sure in ((model.coef_, True), (np.float16(model.coef_), False)):
        direction = span.read(weights.astype(np.float64), rows[:-1])
        found = span.complete(direction, rows[:-1])
        assert np.array_equal(found.row[:-3], rows[-1, :-3])
        assert found.certified == sure


@pytest.mark.parametrize("kind", ["halves", "a known row added", "mirrored"])
def test_rows_that_break_the_premise_are_not_certified_without_it(kind):
    """A multiple or mirror image satisfies the same equations: a refit decides."""
    rng = np.random.default_rng(3)
    if kind == "halves":
        share = 1 / np.arange(1, 901)
        rows = rng.multinomial(60, share / share.sum(), 101).astype(np.float64)
        rows[-1, np.flatnonzero(rows[-1])[0]] += 0.5
    else:
        rows = (rng.random((61, 600)) < 0.3).astype(np.float64)
        rows[-1] = rows[-1] + rows[0] if kind == "a known row added" else -rows[-1]
    labels = traits(rows, 3)
    model = fitted("logistic", rows, labels)
    found = completed(model, rows[:-1])
    if found.certified:
        assert "whole numbers" in found.premise or "columns take" in found.premise
    answer = informed.reconstruct_sklearn(model, rows[:-1], labels[:-1])
    assert not answer.certified or np.abs(answer.value - rows[-1]).max() < 1e-6


def test_a_grid_of_few_columns_settles_nothing():
    """Such a grid holds a row of zeros, which two equations would certify."""
    rows = documents(13)
    rows[:, :40] = 0.0
    rows[np.arange(40), np.arange(40)] = 1.0
    model = fitted("logistic", rows, traits(rows, 13, classes=3))
    found = completed(model, rows[:-1])
    assert found is None or not found.certified


def test_two_classes_in_two_outputs_are_one_output():
    rows = documents(12)
    model = fitted("logistic", rows, traits(rows, 12))
    twice = np.vstack([model.coef_, -model.coef_])
    assert not span.read(twice, rows[:-1]).alone
    three = fitted("logistic", rows, traits(rows, 12, classes=3))
    assert span.read(three.coef_, rows[:-1]).alone


def test_a_gallery_gives_names_or_nothing():
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((101, 300))
    model = fitted("logistic", rows, traits(rows, 2))
    direction = span.read(model.coef_, rows[:-1])
    others = rng.standard_normal((5000, 300))
    ranking = span.rank(direction, np.vstack([others, rows[-1:], rows[:5]]))
    assert ranking.order[0] == 5000
    assert ranking.names.tolist() == [5000]
    assert span.rank(direction, others).names.tolist() == []
    # Nearly the target is not the target.
    near = rows[-1] + 1e-4 * rng.standard_normal(300)
    assert span.rank(direction, near[None]).names.tolist() == []


@pytest.mark.parametrize(
    "estimator",
    [
        linear_model.LogisticRegression(penalty="l1", solver="liblinear"),
        linear_model.SGDClassifier(penalty="elasticnet", l1_ratio=0.01),
        linear_model.Lasso(alpha=0.01),
        linear_model.ElasticNet(alpha=0.01),
    ],
)
def test_penalties_by_coordinate_are_refused_by_trying(estimator):
    rows = genotypes(10, features=30)
    estimator.fit(rows, traits(rows, 10))
    assert "off the span of all rows" in linear_fit.leaves_span(estimator)


@pytest.mark.parametrize("name", MODELS)
def test_sums_of_gradients_are_not_refused(name):
    rows = genotypes(10, features=30)
    assert linear_fit.leaves_span(fitted(name, rows, traits(rows, 10))) == ""


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 20),
    repeated=st.integers(0, 3),
    power=st.integers(-8, 8),
)
def test_projections_against_numpy(seed, rows, repeated, power):
    rng = np.random.default_rng(seed)
    known = rng.standard_normal((rows, 40))
    known = np.vstack([known, rng.standard_normal((repeated, rows)) @ known])
    # Units of columns don't matter to what is in the span.
    known[:, ::2] *= 10.0**power
    made = basis.Basis.of(known)
    assert len(made) == rows
    vector = rng.standard_normal((2, 40))
    scaled = known / made.scale
    solved = np.linalg.lstsq(scaled.T, vector.T, rcond=1e-12)[0]
    expected = vector - (scaled.T @ solved).T
    assert np.abs(made.off(vector) - expected).max() < 1e-9
    identity = np.eye(40)
    inside = 1 - np.einsum("ij,ij->i", made.off(identity), identity)
    assert np.abs(made.leverages - inside).max() < 1e-8


def test_two_rows_of_one_direction_each_are_told_apart():
    rows = genotypes(12)
    one = span.read(fitted("logistic", rows, traits(rows, 12)).coef_, rows[:-1])
    two = dataclasses.replace(one, vectors=np.eye(2, 600), outputs=np.ones((1, 2)))
    assert span.complete(two, rows[:-1]) is None


def test_dark_and_black_and_white_pixels_are_bytes_as_the_others():
    rng = np.random.default_rng(0)
    known = rng.integers(0, 256, (20, 9)) / 255
    known[:, 3] = 0.0
    known[:, 5] = rng.integers(0, 2, 20)
    found = columns.of(known)
    assert found is not None
    wanted = rng.integers(0, 256, 9) / 255
    assert np.allclose(found.rounded(wanted + 1e-3), wanted, atol=1e-12)
    # Of one row alone no column varies, and nothing is said of bytes.
    columns.of(known[:1])


def test_a_limit_of_the_tool_is_no_limit_of_the_attack(monkeypatch):
    monkeypatch.setattr(direction, "_MOST", 20)
    rng = np.random.default_rng(0)
    with pytest.raises(LimitError, match="limit of this tool"):
        direction.read(rng.normal(size=(1, 90)), rng.normal(size=(30, 90)))

    class Picky(linear_model.RidgeClassifier):
        def fit(self, rows, labels):
            if len(rows) < 100:
                raise ValueError("too few rows")
            return super().fit(rows, labels)

    rows = rng.normal(size=(120, 300))
    model = Picky().fit(rows, np.arange(120) % 2)
    assert linear_fit.leaves_span(model) == ""
