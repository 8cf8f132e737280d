"""What was cut off, withheld or rounded on the developer's side."""

import dataclasses
import time

import jax
import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import shadow
from artefacts import registry as readers
from informed.attacks import registry
from informed.attacks.row import Material
from informed.play import play
from informed.threat import Knowledge

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def records():
    """Rows of wines in [0, 1], as images of one row, and whole labels."""
    data, labels = load_wine(return_X_y=True)
    scaled = (data - data.min(axis=0)) / np.ptp(data, axis=0)
    order = np.random.default_rng(0).permutation(len(scaled))
    return shadow.Examples(
        images=scaled[order][:, None, :, None].astype(np.float32),
        labels=labels[order],
        num_classes=3,
    )


def flat(examples):
    return examples.images.reshape(len(examples), -1).astype(np.float64)


def played(row, records, fitted, tmp_path, *, limit=60.0, **material):
    """An attack on estimators that were fitted on D_- and a target each."""
    return play(
        registry.find(row),
        Material(workdir=tmp_path, key=KEY, **material),
        fitted,
        Knowledge(fixed=records.take(slice(0, 60))),
        key=KEY,
        limit=limit,
        stumbling=True,
    )


def with_target(records, make):
    """Fits on 60 known records and one of the next three."""
    known, rows = records.take(slice(0, 60)), []
    for i in range(60, 63):
        target = records.take(slice(i, i + 1))
        x = np.concatenate([flat(known), flat(target)])
        rows.append(make().fit(x, np.append(known.labels, target.labels)))
    return rows


def test_a_reading_that_time_cuts_off_is_no_reading_that_failed(
    records, tmp_path, monkeypatch
):
    """The scaler's interval alone isn't what a whole reading would have told."""
    kind = readers.kind_of("RandomForestClassifier")

    def slow(leaf):
        time.sleep(1.0)
        return kind.read(leaf)

    monkeypatch.setitem(
        readers.KINDS, "RandomForestClassifier", dataclasses.replace(kind, read=slow)
    )
    fitted = with_target(
        records,
        lambda: make_pipeline(
            MinMaxScaler(), RandomForestClassifier(5, random_state=0)
        ),
    )
    trial = played("artefact", records, fitted, tmp_path, limit=1.5)
    assert trial.finished.sum() <= 1
    assert trial.why_not


def test_a_position_that_is_told_is_used(rng, tmp_path):
    """Which fold of a cross-validation has the row follows from its place."""
    folds = KFold(5, shuffle=True, random_state=0)
    labels = rng.integers(0, 3, 400)
    values = (labels[:, None] + rng.normal(size=(400, 4)) + 4) / 12
    examples = shadow.Examples(
        images=values[:, None, :, None].clip(0, 1).astype(np.float32),
        labels=labels,
        num_classes=3,
    )
    fitted = CalibratedClassifierCV(GaussianNB(), cv=folds).fit(flat(examples), labels)
    knowledge = Knowledge(fixed=examples.take(slice(0, 399)))

    def read(**told):
        material = Material(workdir=tmp_path, key=KEY, **told)
        row = registry.find("artefact")
        return play(row, material, [fitted], knowledge, key=KEY, stumbling=True)

    told = read(position=399)
    assert told.certified.tolist() == [True]
    np.testing.assert_allclose(told.images[0], examples.images[399], atol=1e-6)
    assert read().certified.tolist() == [False]
