"""The row of a fitted linear model, off the span of the known rows."""

import numpy as np
import pytest
from sklearn import linear_model, svm
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

import informed
from informed.attacks.span import linear_fit
from tests.informed.attacks.span.test_single_row import genotypes, traits

WORDS = [f"word{i:03d}" for i in range(700)]


def texts(seed, count=81):
    """Documents of words that are drawn by their rank."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, len(WORDS) + 1)
    share /= share.sum()
    return [" ".join(rng.choice(WORDS, 60, p=share)) for _ in range(count)]


@pytest.mark.parametrize("estimator", [linear_model.Ridge(), svm.LinearSVC()])
def test_a_row_that_no_optimum_is_needed_for(estimator):
    """LinearSVC draws numbers, so that no refit can confirm its row."""
    rows = genotypes(0)
    estimator.fit(rows, traits(rows, 0))
    answer = informed.reconstruct_sklearn(estimator, rows[:-1], traits(rows, 0)[:-1])
    assert np.array_equal(answer.value, rows[-1])
    assert answer.by == "span"
    assert answer.certified == isinstance(estimator, linear_model.Ridge)
    assert np.all(answer.error < 1e-9)


@pytest.mark.parametrize("vectoriser", [TfidfVectorizer, CountVectorizer])
@pytest.mark.parametrize("vocabulary", ["public", "fitted"])
def test_words_behind_a_vectoriser(vectoriser, vocabulary):
    documents = texts(1)
    labels = np.arange(81) % 4
    step = vectoriser(vocabulary=WORDS if vocabulary == "public" else None)
    model = make_pipeline(step, linear_model.LogisticRegression())
    model.fit(documents, labels)
    answer = informed.reconstruct_sklearn(model, documents[:-1], labels[:-1])
    assert answer.words == set(documents[-1].split())
    assert answer.y == labels[-1]
    assert answer.certified


def test_without_labels_no_document_is_called_whole():
    documents = texts(2)
    rows = TfidfVectorizer(vocabulary=WORDS).fit_transform(documents)
    model = linear_model.LogisticRegression().fit(rows, np.arange(81) % 4)
    row, said = linear_fit.read(model, rows[:-1])
    assert not row.certified
    assert "no refit decides, so that holds if none of its values is" in said


def test_a_known_row_that_is_another_is_named():
    rows = genotypes(3)
    labels = traits(rows, 3, classes=5)
    model = linear_model.LogisticRegression().fit(rows, labels)
    known = rows[:-1].copy()
    known[4] = genotypes(30)[0]
    row, said = linear_fit.read(model, known, labels[:-1])
    assert row is None
    assert "Known row 4 has no share" in said
    assert not informed.reconstruct_sklearn(model, known, labels[:-1]).certified
