"""An attack that is better than theory allows is noticed."""

import numpy as np

import shadow
from dp.gradient import PrivacyConfig
from informed import protection


def test_planted_success_is_a_violation(rng):
    targets = rng.random((400, 4, 4, 1)).astype(np.float32)
    labels = rng.integers(0, 10, 400)
    private = PrivacyConfig(clip_norm=1.0, noise_multiplier=40.0)
    training = shadow.TrainingConfig(privacy=private)
    honest = protection.of(
        training,
        labels,
        targets,
        targets.mean(axis=0, keepdims=True) + 0 * targets,
        labels == 3,
    )
    assert honest["roc_violations"] == 0
    assert honest["label_violation"] > 0.01
    planted = protection.of(training, labels, targets, targets, labels == labels)
    assert planted["roc_violations"] > 10
    assert planted["label_violation"] < 1e-9


def test_without_noise_theory_says_nothing(rng):
    images = rng.random((3, 2, 2, 1)).astype(np.float32)
    found = protection.of(
        shadow.TrainingConfig(), np.arange(3), images, images, np.ones(3, bool)
    )
    assert set(found.values()) == {None}
