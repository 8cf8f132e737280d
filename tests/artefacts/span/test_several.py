"""Several missing rows, against what was trained on; and what no equation tells."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

import artefacts
from artefacts import span
from artefacts.readers import span as reader
from artefacts.span import columns, exchange, messages, pairs
from artefacts.span.space import Space
from shadow.checks import FieldError
from tests.artefacts.span.test_reader import WORDS, texts
from tests.artefacts.span.test_span import fitted, genotypes, traits


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


@pytest.mark.parametrize("name", ["logistic", "ridge", "svc"])
@pytest.mark.parametrize("seed", [12, 13])
def test_two_rows_of_one_output(name, seed):
    rows = genotypes(seed)
    model = fitted(name, rows, traits(rows, seed))
    known = rows[:-2]
    direction = span.read(model.coef_, known)
    assert direction.rank == 1
    assert not direction.alone
    found = span.complete_all(direction, known)
    if name == "svc" and not found[0].certified:
        # Two multipliers at their bound leave the sum or the difference alone.
        weights = np.linalg.lstsq(rows.T, model.coef_[0], rcond=None)[0][-2:]
        assert abs(abs(weights[0] / weights[1]) - 1) < 1e-9
        return
    assert same(found, rows[-2:])
    assert all(one.certified for one in found)


def test_a_known_row_that_is_another_comes_out_beside_the_target():
    rows = genotypes(14)
    model = fitted("logistic", rows, traits(rows, 14))
    known = rows[:-1].copy()
    known[3] = genotypes(140)[0]
    found = span.complete_all(span.read(model.coef_, known), known)
    assert same(found, rows[[3, -1]])


@pytest.mark.parametrize("second", [1.0, -1.0, 0.5, 1 / 3, 0.4])
def test_equal_shares_of_two_rows_do_not_tell_them_apart(second):
    rows = genotypes(15)
    weights = np.random.default_rng(0).standard_normal(len(rows)) / 50
    weights[-2:] = 1.0, second
    known = rows[:-2]
    direction = span.read(weights @ rows, known)
    assert direction.rank == 1
    assert pairs.complete(direction, known) == []


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
    space = Space(direction, known, columns.of(known))
    settled = [found.rows[0] for found in messages.searched(space, 1)]
    assert min(np.abs(row - rows[-1]).max() for row in settled) < 0.5
    found = span.complete(direction, known)
    assert np.array_equal(found.row, rows[-1])
    assert found.certified


def test_a_row_that_may_have_a_known_one_added_is_not_the_only_one():
    rng = np.random.default_rng(20)
    rows = (rng.random((40, 300)) < 0.5).astype(float)
    values = columns.of(rows)
    assert not exchange.possible(rows[-1], rows[:-1], values)
    rows[0] = (1 - rows[-1]) * (rng.random(300) < 0.05)
    assert exchange.possible(rows[-1], rows[:-1], values)
    # And the other way: what holds a known row may be the rest.
    assert exchange.possible(rows[-1] + rows[0], rows[:-1], values)


@pytest.mark.parametrize("vectoriser", [TfidfVectorizer, CountVectorizer])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_document_that_quotes_a_known_one_is_not_called_whole(vectoriser, classes):
    documents = texts(21)
    labels = np.arange(81) % classes
    step = vectoriser(vocabulary=WORDS)
    model = make_pipeline(step, linear_model.LogisticRegression())
    alone = artefacts.reconstruct(
        model.fit(documents, labels), documents[:-1], labels[:-1]
    )
    assert alone.certified
    assert alone.y == labels[-1]
    assert alone.words == set(documents[-1].split())
    documents[-1] += " " + documents[5]
    model.fit(documents, labels)
    answer = artefacts.reconstruct(model, documents[:-1], labels[:-1])
    # Where its words hide the quoted one's, all of it may be found, and fits.
    assert (answer.words or set()) <= set(documents[-1].split())
    if vectoriser is CountVectorizer:
        assert not answer.certified
    if answer.certified:
        assert answer.words == set(documents[-1].split())
    # Without labels nothing can be fitted again, and nothing is called whole.
    blind = artefacts.reconstruct(model, documents[:-1])
    assert not blind.certified


@pytest.mark.parametrize("kind", ["ones", "parents", "double"])
@pytest.mark.parametrize("seed", range(4))
def test_mirrors_and_multiples_are_not_called_the_row(kind, seed):
    """Found by a review: neither sign nor length of a direction is known."""
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
    answer = artefacts.reconstruct(model, rows[:-1], traits(rows, seed)[:-1])
    assert not answer.certified or np.abs(answer.value - rows[-1]).max() < 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_tables_of_few_categories_are_not_told_apart(seed):
    """Found by a review: longer exchanges of known rows give other categories."""
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
    except artefacts.findings.ReconstructionImpossibleError:
        return
    found = span.complete(direction, rows[:-1])
    assert found is None or not found.certified


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_sum_of_two_documents_is_not_called_one(classes, seed):
    """Found by a review: a hinge loss gives them equal weight, in all outputs."""
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
    leaf = artefacts.Leaf(estimator=model, known=known, labels=labels[:-2])
    told, _ = reader.read(leaf)
    assert told is None or not told.certified


def test_a_row_of_the_gallery_is_certain_only_where_a_refit_says_so():
    """Found by a review: the angle leaves a factor open, and known rows."""
    rows = np.random.default_rng(3).standard_normal((41, 300))
    model = fitted("logistic", rows, np.arange(41) % 3)
    for wrong in (2 * rows[-1], rows[-1] + rows[0]):
        gallery = np.vstack([wrong, rows[:3] + 1])
        answer = artefacts.reconstruct(
            model, rows[:-1], (np.arange(41) % 3)[:-1], gallery=gallery
        )
        assert answer.named == (0,)
        # What is certain comes from elsewhere: the coefficients' optimum.
        assert not answer.certified or np.abs(answer.value - rows[-1]).max() < 1e-6
    gallery = np.vstack([rows[:3] + 1, rows[-1]])
    answer = artefacts.reconstruct(
        model, rows[:-1], (np.arange(41) % 3)[:-1], gallery=gallery
    )
    assert answer.named == (3,)
    assert answer.certified
    assert np.array_equal(answer.value, rows[-1])


def test_one_known_row_and_equal_ones_do_not_fail():
    for known in (np.ones((1, 30)), np.tile(np.arange(30.0) % 3, (3, 1))):
        rows = np.vstack([known, np.arange(30.0) % 2])
        weights = np.ones(len(rows)) @ rows
        found = span.complete_all(span.read(weights, known), known)
        assert not any(one.certified for one in found)


@pytest.mark.parametrize("gallery", [[["a"] * 30], [[np.nan] * 30], np.ones((2, 7)), 3])
def test_a_gallery_that_is_none_is_refused(gallery):
    rows = np.random.default_rng(4).standard_normal((11, 30))
    model = fitted("logistic", rows, np.arange(11) % 2)
    with pytest.raises(FieldError, match="gallery"):
        artefacts.reconstruct(model, rows[:-1], np.arange(10) % 2, gallery=gallery)
