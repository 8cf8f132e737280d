"""Not tried isn't failed; who knows which randomness; what pages and dossiers say."""

import jax
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

from informed.audit import playing, trained
from shadow import released
from tests.informed.audit.trainings import check

KEY = jax.random.key(0)
SOME = {"successes": 1, "trials": 20, "rate": 0.05, "low": 0.0, "high": 0.25}


# Attacks


# Audits


def forest(images, labels, seed):
    flat = images.reshape(len(images), -1)
    return RandomForestClassifier(3, random_state=seed).fit(flat, labels)


def bundle(images, labels):
    flat = images.reshape(len(images), -1)
    model = KNeighborsClassifier(1).fit(flat, labels)
    return {"centre": np.median(flat, axis=0), "model": model}


def test_trees_are_audited_by_their_file(digits):
    found = check(forest, digits)
    assert not found.subject.comparable
    assert not any("key changes nothing" in each.what for each in found.findings)
    assert not found.stops
    row = next(row for row in playing.rows() if row.sees == "artefact")
    models = trained.train(found.subject, targets=2)
    trial = playing.attempt(row, models, found, limit=60.0)
    assert trial.finished is not None


def test_a_forest_without_a_seed_is_seen_and_one_with_noise_is_not_audited(digits):
    def unseeded(images, labels):
        return RandomForestClassifier(3).fit(images.reshape(len(images), -1), labels)

    found = check(unseeded, digits)
    assert not found.subject.deterministic
    assert any("another model" in each.what for each in found.findings)
    noise = {"noise_multiplier": 5.0, "steps": 1, "clip_norm": 1.0}
    found = check(forest, digits, privacy=noise)
    assert any("no weights in which noise" in each.what for each in found.stops)


def test_an_estimator_within_something_is_named(digits):
    left = released.left_out(bundle(digits.images[:40], digits.labels[:40]))
    assert left == ["model (KNeighborsClassifier, beside its arrays of floats)"]
    found = check(bundle, digits)
    assert any("KNeighborsClassifier" in each.what for each in found.findings)


# What is said
