"""Findings of the third audit on audits: each failed before it was mended."""

import dataclasses

import numpy as np
import pytest
from sklearn import ensemble, linear_model, naive_bayes, preprocessing
from sklearn.pipeline import make_pipeline

import informed
from informed.attacks import registry
from informed.audit import auditing, playing, trained
from informed.audit.auditing import AuditConfig
from informed.cli import audit
from informed.metrics import judging
from informed.report import words

SKIPPED = ("inversion", "membership", "two missing", "defences")


def scaled(images, labels):
    x = images.reshape(len(images), -1)
    scaler, model = preprocessing.StandardScaler(), linear_model.RidgeClassifier()
    return make_pipeline(scaler, model).fit(x, labels)


def bagged(images, labels):
    x = images.reshape(len(images), -1)
    model = ensemble.BaggingClassifier(
        naive_bayes.GaussianNB(), n_estimators=2, random_state=0
    )
    return model.fit(x, labels)


def audited(train):
    return informed.audit(
        train, "digits", version="1", targets=3, fixed=60, minutes=0.5, skip=SKIPPED
    )


def test_an_artefact_that_is_not_read_is_said_first_and_no_failed_attack():
    values = audited(bagged).values
    row = next(row for row in values["attacks"] if row["name"] == "artefact")
    assert (row["finished"], row["success"]) == (0, None)
    assert row["why_not"].startswith("3 of 3 estimators could not be read: Bagging")
    assert any("Artefact finished 0 of 3" in each for each in words.answer(values))
    assert audit.gated(values)["unfinished"] >= 3


@pytest.mark.parametrize("error", [RuntimeError, KeyError, AssertionError])
def test_an_attack_that_stops_counts_as_not_tried(error, digits):
    def stops(config, material):
        raise error("reader broke")

    row = dataclasses.replace(registry.find("artefact"), make=stops)
    found = auditing.check(
        scaled, digits, version="1", settings=AuditConfig(targets=2, fixed=60)
    )
    models = trained.Models(
        subject=found.subject,
        released=np.empty((2, 0)),
        shadows=None,
        secret=False,
        seconds=0.0,
    )
    trial = playing.attempt(row, models, found, limit=60.0)
    assert (trial.applies, trial.images) == (True, None)
    assert "reader broke" in trial.why_not
    judged = judging.judge(trial, models.targets, models.targets, [])
    assert words.not_begun(judged)
    values = {"attacks": [judged], "subject": {"kind": "images"}}
    assert words.unfinished(values)[0].startswith("Artefact was not tried: it stopped")
