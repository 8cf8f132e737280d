"""Linear models in artefacts: the row comes off the span before any refit."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model, svm
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

import artefacts
from tests.artefacts.span.test_span import genotypes, traits

WORDS = [f"word{i:03d}" for i in range(700)]


def texts(seed, count=81):
    """Documents of words that are drawn by their rank."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, len(WORDS) + 1)
    share /= share.sum()
    return [" ".join(rng.choice(WORDS, 60, p=share)) for _ in range(count)]


@pytest.mark.parametrize("estimator", [linear_model.Ridge(), svm.LinearSVC()])
def test_a_row_that_no_optimum_is_needed_for(estimator):
    rows = genotypes(0)
    estimator.fit(rows, traits(rows, 0))
    answer = artefacts.reconstruct(estimator, rows[:-1], traits(rows, 0)[:-1])
    assert np.array_equal(answer.value, rows[-1])
    assert answer.certified
    assert answer.determined.all()


@pytest.mark.parametrize("vectoriser", [TfidfVectorizer, CountVectorizer])
def test_words_behind_a_public_vocabulary(vectoriser):
    documents = texts(1)
    labels = np.arange(81) % 4
    step = vectoriser(vocabulary=WORDS)
    model = make_pipeline(step, linear_model.LogisticRegression())
    model.fit(documents, labels)
    answer = artefacts.reconstruct(model, documents[:-1], labels[:-1])
    assert answer.words == set(documents[-1].split())
    assert answer.certified


def test_known_rows_of_a_pipeline_stay_sparse():
    documents = texts(2)
    model = make_pipeline(TfidfVectorizer(), linear_model.LogisticRegression())
    model.fit(documents, np.arange(81) % 4)
    leaf = artefacts.Leaf(estimator=model, known=documents[:-1], labels=None)
    sites = list(artefacts.walk.leaves(artefacts.walk.root(leaf, 0)))
    assert sparse.issparse(sites[-1].leaf.known)
    assert sites[-1].leaf.count == 81
    assert list(sites[-1].words) == list(model[0].get_feature_names_out())


def test_what_is_said_where_the_known_rows_are_others():
    rows = genotypes(3)
    labels = traits(rows, 3, classes=5)
    model = linear_model.LogisticRegression().fit(rows, labels)
    known = rows[:-1].copy()
    known[4] = genotypes(30)[0]
    answer = artefacts.reconstruct(model, known, labels[:-1])
    assert not answer.certified
    assert any("Known row 4 has no share" in note for note in answer.notes)
