"""From embeddings that were read out to pictures, by a decoder of other records."""

import dataclasses

import numpy as np
import pytest

from informed.audit import contract, decoder, subject, trained
from informed.play import Trial
from shadow import tables
from shadow.data import Examples

TARGETS = 8


def head(images, labels, key):
    return images.reshape(len(images), -1)[:2]


@pytest.fixture(scope="module")
def pictures(digits):
    """Digits that an encoder turns round in 64 dimensions, which can be undone."""
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0]
    rows = digits.images.reshape(len(digits), -1) @ rotation
    return tables.embedded(rows, digits.labels, behind=digits.images)


def models_of(table, targets=TARGETS, fixed=600):
    found = contract.load(head, version="1")
    about = subject.prepare(
        found, table.examples, targets=targets, fixed=fixed, table=table
    )
    nothing = np.zeros((targets, 0))
    return trained.Models(
        subject=about, released=nothing, shadows=None, secret=False, seconds=0.0
    )


def trial_of(images, name="span"):
    return Trial(name=name, about="", sees="", knows="", images=images)


@pytest.fixture(scope="module")
def shown(pictures):
    models = models_of(pictures)
    guesses = models.targets.images.copy()
    guesses[1] = np.nan
    few = guesses[:3]
    trials = [
        trial_of(guesses), trial_of(few, "cut off"), trial_of(None, "not played"),
        dataclasses.replace(trial_of(guesses), name="pairs", points=2),
    ]  # fmt: skip
    return models, decoder.decoded(models, trials, limit=300.0)


def test_an_embedding_that_holds_the_picture_shows_it(shown, digits):
    models, found = shown
    rows = {row["name"]: row for row in found[0]["rows"]}
    whole, mean = rows[decoder.ITSELF], rows[decoder.BY_CLASS]
    assert whole["finished"] == TARGETS
    assert whole["mse_median"] < 0.15 * mean["mse_median"]
    truth = digits.images[models.subject.split.test_indices]
    errors = np.mean((found[1]["record"] - truth) ** 2, axis=(1, 2, 3))
    assert whole["mse_median"] == pytest.approx(np.median(errors), rel=1e-6)
    assert found[0]["side"] == 8
    assert found[0]["why_not"] == ""


def test_guesses_are_decoded_where_they_are(shown):
    _, found = shown
    rows = {row["name"]: row for row in found[0]["rows"]}
    assert set(rows) == {"span", "cut off", decoder.ITSELF, decoder.BY_CLASS}
    assert rows["span"]["finished"] == TARGETS - 1
    assert np.isnan(found[1]["span"][1]).all()
    # As many at once round otherwise.
    np.testing.assert_allclose(found[1]["span"][2:], found[1]["record"][2:], atol=1e-6)
    assert len(found[1]["cut off"]) == 3


def test_a_decoder_never_sees_the_pictures_of_targets(shown, pictures, digits):
    models, found = shown
    behind = digits.images.copy()
    behind[models.subject.split.test_indices] = 0.5
    other = models_of(dataclasses.replace(pictures, behind=behind))
    again = decoder.decoded(other, [], limit=300.0)
    np.testing.assert_array_equal(again[1]["record"], found[1]["record"])


def test_no_pictures_no_decoder(pictures, digits):
    texts = np.array([str(label) for label in digits.labels])
    for behind in (None, texts):
        models = models_of(dataclasses.replace(pictures, behind=behind))
        assert decoder.decoded(models, [], limit=300.0) == (None, {})


def test_too_few_records_or_too_little_time_are_said(pictures):
    few = dataclasses.replace(
        pictures, examples=pictures.examples.take(np.arange(90)),
        behind=pictures.behind[:90],
    )  # fmt: skip
    found = decoder.decoded(models_of(few, fixed=20), [], limit=300.0)
    assert "records to fit it on" in found[0]["why_not"]
    late = decoder.decoded(models_of(pictures), [], limit=0.0)
    assert late[0]["why_not"] == "not fitted in 0 s"
    assert not late[1]


def test_large_pictures_are_made_smaller(rng):
    images = rng.uniform(size=(2, 96, 128, 3)).astype(np.float32)
    small = decoder._small(images, np.arange(2))
    assert small.shape == (2, 24, 32, 3)
    assert abs(small.mean() - images.mean()) < 1e-2
    assert Examples(images=small, labels=np.zeros(2, int), num_classes=1)


def test_whole_numbers_are_pictures_too(rng):
    bits = rng.integers(0, 2, (2, 64, 64, 1))
    for pictures in (bits, bits.astype(bool)):
        small = decoder._small(pictures, np.arange(2))
        assert abs(small.mean() - bits.mean()) < 2e-2


def test_what_stops_the_decoder_stops_no_audit(pictures):
    models = models_of(pictures)
    wrong = np.zeros((TARGETS, 1, 3, 1), np.float32)
    found = decoder.decoded(models, [trial_of(wrong)], limit=300.0)
    assert found[0]["why_not"].startswith("it stopped with ValueError")
    assert found[0]["rows"] == []
