"""Attacks better than theory allows are noticed; theory knows who knows what."""

import dataclasses
import json
import math

import dp_accounting
import jax
import numpy as np
import pytest
from scipy import stats

import dp
import shadow
from dp.gradient import PrivacyConfig
from informed.experiment import protection
from informed.experiment.training_settings import TrainingConfig
from shadow.training import steps_taken
from tests.informed import developers
from tests.informed.command_line import SMALL, run


def developer(digits, *, noise=1.0, sampling=1.0, shuffling="auto", epochs=100):
    private = PrivacyConfig(
        clip_norm=1.0, noise_multiplier=noise, sampling_probability=sampling
    )
    return shadow.Factory(
        algorithm=TrainingConfig(
            privacy=private if noise else PrivacyConfig(),
            shuffling=shuffling,
            epochs=epochs,
        ).algorithm(
            shadow.build_victim(
                shadow.VictimConfig(architecture="affine"),
                image_shape=digits.image_shape,
                num_classes=digits.num_classes,
            )
        ),
        fixed=digits.take(slice(0, 300)),
        key=jax.random.key(0),
        role="released",
        width=1,
    )


def truth_of(images, labels):
    """Models whose weights nobody looks at."""
    weights = np.zeros((len(images), 1), np.float32)
    return shadow.ShadowModels(weights=weights, images=images, labels=labels)


def test_planted_success_is_a_violation(rng, digits):
    targets = rng.random((400, 4, 4, 1)).astype(np.float32)
    labels = rng.integers(0, 10, 400).astype(np.int32)
    trained = developer(digits, noise=40.0)
    mean = targets.mean(axis=0, keepdims=True) + 0 * targets
    theory = protection.of(trained, labels)
    truth = truth_of(targets, labels)

    def against(images, named):
        guess = {"images": images, "labels": named}
        return protection.against(theory, trained, truth, guess)

    honest = against(mean, np.full(400, 3))
    assert honest["roc_violations"] == 0
    assert honest["label_violation"] > 0.01
    planted = against(targets, labels)
    assert planted["roc_violations"] > 10
    assert planted["label_violation"] < 1e-9


def test_without_noise_theory_says_nothing(rng, digits):
    images = rng.random((3, 2, 2, 1)).astype(np.float32)
    quiet = developer(digits, noise=0.0)
    theory = protection.of(quiet, np.arange(3))
    truth = truth_of(images, np.arange(3, dtype=np.int32))
    found = protection.against(theory, quiet, truth, {"images": images})
    assert {*theory.values(), *found.values()} == {None}


def test_public_sampling_is_accounted_by_the_steps_taken(digits):
    """Against the closed form of the Gaussian mechanism, for every key's own count."""
    public = developer(digits, sampling=0.01, shuffling="known")
    counts = set()
    for number in range(6):
        each = dataclasses.replace(public, key=jax.random.key(number))
        taken = steps_taken(
            each.descent.privacy, each.descent.epochs, each.public_key, len(each.fixed)
        )
        counts.add(int(taken[-1]))
        assert f"in {taken[-1]} of 100 steps" in protection.accounted(each)
        for mechanism, steps in (
            (each.mechanism(record=-1), taken[-1]),
            (each.mechanism(), taken.max()),
        ):
            epsilon = mechanism.epsilon(1e-5)
            if not steps:
                assert epsilon == 0
                continue
            wanted = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(steps), 1e-5)
            assert epsilon == pytest.approx(wanted)
            assert epsilon >= 4.37
    assert len(counts) > 1, "keys with other counts"


def test_secret_sampling_is_amplified(digits):
    secret = developer(digits, sampling=0.01).mechanism()
    assert secret.epsilon(1e-5) == pytest.approx(0.718, abs=0.005)


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_a_public_order_is_no_secret_sampling(digits, relation):
    """Whoever is told the order knows the steps of a record (was four times less)."""
    told = developer(digits, noise=2.0, sampling=0.1, shuffling="known")
    secret = developer(digits, noise=2.0, sampling=0.1)
    gammas = [
        float(dp.rero_bound(f.mechanism(relation=relation), kappa=0.01).gamma)
        for f in (told, secret)
    ]
    revealed = dp.RevealedGaussian(
        noise_multiplier=2.0, sampling_probability=0.1, steps=100, relation=relation
    )
    # No less than the mean over keys, as the record that takes part most often counts.
    assert gammas[0] >= float(dp.rero_bound(revealed, kappa=0.01).gamma)
    if relation == "zero_out":
        assert gammas[0] > 3 * gammas[1]


def test_training_without_noise_has_no_mechanism(digits):
    with pytest.raises(ValueError, match="no privacy guarantee"):
        developer(digits, noise=0.0).mechanism()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_guessing_the_most_frequent_label_never_violates(share, rng):
    """kappa from a sample is at least the true one, in as many cases as promised."""
    below = 0
    for _ in range(400):
        labels = np.where(rng.random(60) < share, 0, rng.integers(1, 10, 60))
        below += protection.most_frequent(labels, 10) < share
    # At most 1 % may lie below; 400 draws of that rate exceed 12 once in 1,000 times.
    assert below <= stats.binom.ppf(0.999, 400, 1 - protection.CONFIDENCE)


def test_the_labels_of_the_shadow_targets_do_not_count_where_they_mean_nothing(
    tmp_path, capsys, digits, rng
):
    """Targets of which nine in ten are zeros; shadow images of another kind."""
    zeros = np.flatnonzero(digits.labels == 0)[:135]
    others = np.flatnonzero(digits.labels != 0)[:15]
    mine, theirs = tmp_path / "mine.npz", tmp_path / "theirs.npz"
    rows = rng.permutation(np.concatenate([zeros, others]))
    np.savez(mine, images=digits.images[rows], labels=digits.labels[rows])
    noise = rng.random((80, 8, 8, 1)).astype(np.float32)
    np.savez(theirs, images=noise, labels=np.arange(80) % 3, num_classes=3)
    arguments = (
        f"--config.data.name={mine}",
        f"--config.data.shadow_name={theirs}",
        "--config.data.num_test=60",
        "--config.training.epochs=5",
        "--config.training.privacy.clip_norm=1.0",
        "--config.training.privacy.noise_multiplier=1000.0",
        "--config.shadow.count=60",
        "--config.attacks.reconn.kind=kernel",
        "--config.attacks.inversion.targets=0",
        f"--workdir={tmp_path / 'run'}",
        *("--quiet", "--json"),
    )
    results = json.loads(run(capsys, "run", *SMALL, *arguments))
    truth = shadow.Store(tmp_path / "run" / "released").read().labels
    guessing = np.mean(truth == 0)
    assert guessing > 0.8
    assert results["label_bound"] >= results["label_kappa"] >= guessing


def test_a_broken_noise_declaration_is_seen(rng, digits):
    declared = PrivacyConfig(noise_multiplier=6.0, clip_norm=1.0)
    images = rng.random((15, 8, 8, 1)).astype(np.float32)
    truth = truth_of(images, np.zeros(15, np.int32))
    found = protection.against(
        {"epsilon": 1.0, "label_bound": 1.0},
        developers.developer(developers.parts_of(digits), epochs=1, privacy=declared),
        truth,
        {"images": images},
    )
    assert found["roc_violations"] > 0


def test_what_is_known_of_a_target_breaks_no_bound(digits):
    private = PrivacyConfig(noise_multiplier=1000.0, clip_norm=1.0)
    parts = developers.parts_of(digits, fixed=30, targets=40)
    factory = developers.developer(parts, epochs=2, privacy=private)
    theory = protection.of(factory, parts.fixed.labels)
    models = shadow.ShadowModels.of(factory.train(parts.test), parts.test)
    guess = np.full_like(parts.test.images, 0.3)
    guess[:, :4] = parts.test.images[:, :4]
    given = {"images": guess, "labels": parts.test.labels}
    seen = protection.against(theory, factory, models, given)
    assert seen["roc_violations"]
    told = protection.against(theory, factory, models, given, known=True)
    assert set(told.values()) == {None}
