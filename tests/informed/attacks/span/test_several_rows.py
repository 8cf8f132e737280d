"""Several missing rows, against what was trained on; and what no equation tells."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

import informed
from informed.attacks import span
from informed.attacks.impossible import ReconstructionImpossibleError
from informed.attacks.span import columns, lattice, linear_fit, uniqueness
from tests.informed.attacks.span.test_estimators import WORDS, texts
from tests.informed.attacks.span.test_single_row import fitted, genotypes, traits


def same(found, rows):
    """Whether the rows that were found are these, in whatever order."""
    left = [row for row in rows]
    for one in found:
        at = [np.abs(one.row - row).max() < 1e-9 for row in left]
        if not any(at):
            return False
        left.pop(at.index(True))
    return not left


@pytest.mark.parametrize("missing", [2, 4])
def test_rows_of_whole_numbers(missing):
    rows = genotypes(10)
    model = fitted("logistic", rows, traits(rows, 10, classes=6))
    known = rows[:-missing]
    found = span.complete_all(span.read(model.coef_, known), known)
    assert same(found, rows[-missing:])
    assert all(one.certified for one in found)


@pytest.mark.parametrize("missing", [2, 3])
def test_documents(missing):
    rows = TfidfVectorizer(vocabulary=WORDS).fit_transform(texts(11))
    model = linear_model.LogisticRegression().fit(rows, np.arange(81) % 6)
    known = sparse.csr_array(rows[:-missing])
    found = span.complete_all(span.read(model.coef_, known), known)
    assert same(found, rows[-missing:].toarray())
    assert all(one.certified for one in found)


def test_three_rows_of_one_output_are_no_pair():
    rows = genotypes(16)
    model = fitted("logistic", rows, traits(rows, 16))
    known = rows[:-3]
    found = span.complete_all(span.read(model.coef_, known), known)
    assert not any(one.certified for one in found)


@pytest.mark.parametrize("seed", [17, 18, 19])
def test_messages_reach_where_rounding_settles_on_wrong_rows(seed):
    rows = genotypes(seed, rows=181, features=500)
    model = fitted("logistic", rows, traits(rows, seed))
    known = rows[:-1]
    direction = span.read(model.coef_, known)
    space = lattice.Lattice(direction, known, columns.of(known))
    settled = [row * space.scale for row in lattice.messages(space)]
    assert min(np.abs(row - rows[-1]).max() for row in settled) < 0.5
    found = span.complete(direction, known)
    assert np.array_equal(found.row, rows[-1])
    assert found.certified


def test_a_row_that_may_have_a_known_one_added_is_not_the_only_one():
    rng = np.random.default_rng(20)
    rows = (rng.random((40, 300)) < 0.5).astype(float)
    values = columns.of(rows)
    assert not uniqueness.possible(rows[-1], rows[:-1], values)
    rows[0] = (1 - rows[-1]) * (rng.random(300) < 0.05)
    assert uniqueness.possible(rows[-1], rows[:-1], values)
    # And the other way: what holds a known row may be the rest.
    assert uniqueness.possible(rows[-1] + rows[0], rows[:-1], values)


@pytest.mark.parametrize("vectoriser", [TfidfVectorizer, CountVectorizer])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_document_that_quotes_a_known_one_is_not_called_whole(vectoriser, classes):
    documents = texts(21)
    labels = np.arange(81) % classes
    step = vectoriser(vocabulary=WORDS)
    model = make_pipeline(step, linear_model.LogisticRegression())
    alone = informed.reconstruct_sklearn(
        model.fit(documents, labels), documents[:-1], labels[:-1]
    )
    assert alone.certified
    assert alone.y == labels[-1]
    assert alone.words == set(documents[-1].split())
    documents[-1] += " " + documents[5]
    model.fit(documents, labels)
    answer = informed.reconstruct_sklearn(model, documents[:-1], labels[:-1])
    # Where its words hide the quoted one's, all of it may be found, and fits.
    assert (answer.words or set()) <= set(documents[-1].split())
    if vectoriser is CountVectorizer:
        assert not answer.certified
    if answer.certified:
        assert answer.words == set(documents[-1].split())


@pytest.mark.parametrize("kind", ["ones", "parents", "double"])
@pytest.mark.parametrize("seed", range(4))
def test_mirrors_and_multiples_are_not_called_the_row(kind, seed):
    """Neither sign nor length of a direction is known."""
    rng = np.random.default_rng(seed)
    rows = (rng.random((50, 400)) < 0.5).astype(float)
    if kind == "ones":
        rows[3] = 1
    elif kind == "parents":
        parent = 2 * rows[0]
        rows = rng.binomial(2, 0.5, (50, 400)).astype(float)
        rows[:2] = parent, 2 - parent
    else:
        rows = genotypes(seed, rows=50, features=400)
        rows[-1] = np.minimum(rows[-1], 1)
    model = fitted("logistic", rows, traits(rows, seed))
    direction = span.read(model.coef_, rows[:-1])
    found = span.complete(direction, rows[:-1])
    assert not found.certified
    # A refit tells them apart.
    answer = informed.reconstruct_sklearn(model, rows[:-1], traits(rows, seed)[:-1])
    assert not answer.certified or np.abs(answer.value - rows[-1]).max() < 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_tables_of_few_categories_are_not_told_apart(seed):
    """Longer exchanges of known rows give other categories."""
    rng = np.random.default_rng(seed)
    blocks = []
    for count in (30, 40, 50):
        share = 1 / np.arange(1, count + 1)
        picked = rng.choice(count, 41, p=share / share.sum())
        blocks.append(np.eye(count)[picked])
    rows = np.hstack(blocks)
    model = fitted("logistic", rows, traits(rows, seed))
    try:
        direction = span.read(model.coef_, rows[:-1])
    except ReconstructionImpossibleError:
        return
    found = span.complete(direction, rows[:-1])
    assert found is None or not found.certified


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_sum_of_two_documents_is_not_called_one(classes, seed):
    """A hinge loss gives them equal weight, in all outputs."""
    rows = CountVectorizer(vocabulary=WORDS).fit_transform(texts(30 + seed, 41))
    rows = sparse.csr_array(rows.astype(float))
    labels = np.arange(41) % classes
    labels[-2:] = 0
    model = svm.LinearSVC(loss="hinge", C=0.01, random_state=0, max_iter=100_000)
    model.fit(rows, labels)
    known = sparse.csr_array(rows[:-2])
    direction = span.read(model.coef_, known)
    if direction.rank == 1:
        found = span.complete(direction, known)
        assert found is None or not found.certified
    row, _ = linear_fit.read(model, known, labels[:-2])
    assert row is None or not row.certified


def test_one_known_row_and_equal_ones_do_not_fail():
    for known in (np.ones((1, 30)), np.tile(np.arange(30.0) % 3, (3, 1))):
        rows = np.vstack([known, np.arange(30.0) % 2])
        weights = np.ones(len(rows)) @ rows
        found = span.complete_all(span.read(weights, known), known)
        assert not any(one.certified for one in found)
