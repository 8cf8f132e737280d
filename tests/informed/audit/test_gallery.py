"""Naming a record out of a gallery by training again: planted trainings."""

import jsonschema
import numpy as np
import pytest

import informed
from informed.audit import gallery
from informed.report import words
from informed.report.report import schema

QUICK = {
    "fixed": 40,
    "targets": 3,
    "minutes": 1.0,
    "skip": ("two missing", "membership", "noise", "defences"),
    "version": "1",
}


def mean(images, labels):
    """Tells the missing record, and its label."""
    features = images.reshape(len(images), -1)
    return np.stack([features[labels == c].sum(axis=0) for c in range(10)])


def blurred(images, labels):
    """One number of all records: nothing that an attack could read.

    Not the sum of their pixels, which many digits share.
    """
    return np.array([float(np.sum(images.astype(np.float64) ** 1.37))])


def counted(images, labels):
    """Tells the label alone."""
    return np.bincount(labels, minlength=10).astype(np.float64)


def audited(train, digits):
    return informed.audit(train, digits.take(np.arange(400)), **QUICK)


def test_records_are_named_with_certainty(digits):
    found = audited(mean, digits)
    jsonschema.validate(found.values, schema())
    named = found.values["gallery"]
    assert named["attempted"] == named["first"] == named["certified"] == 3
    assert named["certified_wrong"] == 0
    assert named["size"] == found.values["subject"]["public"] + 40 + 1
    assert "training again with" in found.html()


def test_what_is_named_and_not_read_out_is_said_first(digits):
    found = audited(blurred, digits)
    named = found.values["gallery"]
    # Whoever is among those that are tried is named for certain.
    assert named["certified"] == named["first"]
    assert named["certified_wrong"] == 0
    values = dict(found.values, gallery=named | {"first": 3, "certified": 3})
    assert any(
        "3 of 3, 3 by the same weights to the last bit" in text
        for text in words.answer(values)
    )
    quiet = dict(found.values, gallery=named | {"first": 0, "certified": 0})
    assert not any("gallery" in text for text in words.answer(quiet))


def test_weights_that_many_records_give_certify_nobody(digits):
    skip = (*QUICK["skip"], "inversion")
    data = digits.take(np.arange(400))
    named = informed.audit(counted, data, **QUICK | {"skip": skip}).values["gallery"]
    assert named["attempted"] == 3
    assert named["certified"] == 0


@pytest.fixture(scope="module")
def pool(digits):
    return digits.take(np.arange(100, 200))


def test_the_order_takes_turns_and_holds_no_record_twice(digits, pool):
    targets = digits.take(np.arange(3))
    guesses = [pool.images[7], targets.images[1]]
    rows = gallery._likeliest(guesses, targets, 1, pool, 20)
    assert set(rows[:2]) == {7, len(pool)}
    assert len(set(rows)) == len(rows) == 20
    assert len(gallery._likeliest([], targets, 1, pool, 20)) == 0
    few = gallery._likeliest(guesses, targets, 1, pool.take(np.arange(5)), 20)
    assert len(few) <= 6
