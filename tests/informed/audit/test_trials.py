"""Which attacks an audit plays, and what comes of those that it can't."""

import dataclasses
import time

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import linear_model

from informed.attacks import registry
from informed.audit import timetable, trials
from informed.metrics import judging
from informed.report import words
from shadow.threat import Reconstruction
from tests.informed.audit.audited_trainings import check


def forgotten(images, labels):
    """A start that no seed decides."""
    x = images.reshape(len(images), -1)
    w = np.random.default_rng().standard_normal((x.shape[1], 10))
    for _ in range(3):
        scores = np.exp(x @ w)
        scores /= scores.sum(axis=1, keepdims=True)
        w -= 0.5 * x.T @ (scores - np.eye(10)[labels]) / len(x)
    return w


def _ridge(images, labels):
    return linear_model.Ridge().fit(images.reshape(len(images), -1), labels)


def test_a_forgotten_seed_is_no_protection(digits):
    found = check(forgotten, digits)
    assert not found.facts.deterministic
    untried = {row.name: trials.untried(row, found, 2) for row in timetable.rows()}
    assert untried["inversion"].applies, "it wasn't tried, so a gate counts it"
    assert "different weights" in untried["inversion"].why_not
    assert "seed" not in untried["inversion"].knows


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_a_predict_that_raises_is_no_missing_predict(error, digits):
    def predict(returned, images):
        raise error("row [0.4, 1.0] of patient Smith is out of range")

    found = check(forgotten, digits, predict=predict)
    said = next(each for each in found.findings if "predict raised" in each.what)
    assert error.__name__ in said.what
    assert not any("Smith" in (each.remedy or "") for each in found.findings)
    rows = [row for row in timetable.rows() if row.sees == "answers"]
    assert all(trials.untried(row, found, 2).applies for row in rows)


@pytest.mark.parametrize("error", [RuntimeError, KeyError, AssertionError])
def test_an_attack_that_stops_counts_as_not_tried(error, digits):
    def stops(config, material):
        raise error("it broke")

    row = dataclasses.replace(registry.find("inversion"), make=stops)
    found = check(_ridge, digits)
    models = trials.train(found.subject, targets=2)
    trial = trials.attempt(row, models, found, limit=60.0)
    assert (trial.applies, trial.images) == (True, None)
    assert "it broke" in trial.why_not
    judged = judging.judge(trial, models.targets, models.targets, [])
    assert (judged["applies"], judged["tried"]) == (True, False)
    values = {"attacks": [judged], "subject": {"kind": "images"}}
    assert words.unfinished(values)[0].startswith("Inversion was not tried: it stopped")


def test_what_is_the_same_for_every_model_is_a_result(digits):
    def deaf(images, labels, key):
        return jnp.zeros(3) + images.shape[1]

    found = check(deaf, digits, targets=3)
    about = dataclasses.replace(found.subject, engine="jax")
    models = trials.with_shadows(trials.train(about, targets=3), 40)
    trial = trials.attempt(registry.find("kernel"), models, found, limit=60.0)
    assert trial.finished.all()
    assert "the same for every model" in trial.why_not
    np.testing.assert_allclose(
        trial.images[0], models.shadows.images.mean(axis=0), atol=1e-6
    )


def test_the_rows_that_are_listed_are_those_that_are_played(digits):
    def numbers(images, labels, seed: int):
        return np.asarray(images).reshape(len(images), -1).sum(axis=0)

    found = check(numbers, digits)
    listed = {row["name"]: row for row in trials.listed(found)}
    assert not listed["closed form"]["applies"]
    assert "linear models" in listed["closed form"]["why_not"]
    fitted_ = check(lambda i, labels: _ridge(i, labels), digits)
    listed = {row["name"]: row for row in trials.listed(fitted_)}
    assert listed["closed form"]["applies"]


class OneTarget:
    """Finds the first target and is then out of time."""

    def each(self, release, knowledge, *, key):
        yield Reconstruction(images=np.zeros((1, 8, 8, 1), np.float32))
        time.sleep(20)


def test_what_was_found_before_the_time_was_over_is_kept(digits):
    found = check(_ridge, digits)
    models = trials.train(found.subject, targets=2)
    row = registry.find("inversion")
    row = dataclasses.replace(row, make=lambda config, material: OneTarget())
    trial = trials.attempt(row, models, found, limit=0.5)
    assert trial.finished.tolist() == [True, False]
    np.testing.assert_array_equal(trial.images[0], 0)
    assert np.isnan(trial.images[1]).all()
    assert trial.planned == 2
    assert "out of time at target 2 of 2" in trial.why_not
