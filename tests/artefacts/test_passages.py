"""Passages out of n-grams, against the texts that these were cut from."""

from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import artefacts
from artefacts import page
from artefacts.passages import passages
from tests.artefacts.span.test_reader import texts

WORDS = ["aa", "bb", "cc", "dd", "ee", "ff"]


def grams(words, length):
    """All n-grams up to a length, as vectorisers name them."""
    return {
        " ".join(words[i : i + n])
        for n in range(1, length + 1)
        for i in range(len(words) - n + 1)
    }


def test_a_text_without_repeats_comes_back_whole():
    text = [f"word{i}" for i in range(30)]
    for length in (2, 3):
        assert passages(grams(text, length)) == [" ".join(text)]


@given(
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=25), st.sampled_from([2, 3])
)
def test_passages_stand_in_the_text(text, length):
    ends_as_it_begins = text[: length - 1] == text[1 - length :]
    found = passages(grams(text, length))
    wrong = [part for part in found if f" {part} " not in f" {' '.join(text)} "]
    assert len(wrong) <= ends_as_it_begins


def test_single_words_and_letters_have_no_order():
    assert passages(["one", "two"]) == []
    assert passages(["o n", "n e", "o", "n", "e"]) == []
    assert passages([]) == []


def test_a_document_comes_back_in_passages_on_the_page():
    documents = texts(5)
    model = make_pipeline(CountVectorizer(ngram_range=(1, 3)), LogisticRegression())
    labels = [i % 3 for i in range(81)]
    model.fit(documents, labels)
    answer = artefacts.reconstruct(model, documents[:-1], labels[:-1])
    assert answer.certified
    found = passages(answer.words)
    assert all(f" {part} " in f" {documents[-1]} " for part in found)
    assert len(found[0].split()) > 8
    assert found[0] in page.page("title", answer)
