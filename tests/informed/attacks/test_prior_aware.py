"""The strongest adversary: reproduces known success, stays below the bound."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

import dp
import shadow
from dp import rates
from dp.gradient import PrivacyConfig
from informed.attacks import prior_aware
from informed.attacks.prior_aware import Evidence
from informed.experiment.training_settings import TrainingConfig

RUNS = 6000
VECTORS = json.loads((Path(__file__).parents[2] / "dp/rero_vectors.json").read_text())
(ORTHOGONAL,) = (v["expected"] for v in VECTORS if v["name"] == "map_attack_orthogonal")


def mechanism(private, steps):
    """Of steps that are sampled in secret."""
    return dp.PoissonGaussian(
        noise_multiplier=private.noise_multiplier,
        sampling_probability=private.drawn_probability,
        steps=steps,
        relation="zero_out",
    )


def simulated(candidates, sigma, *, steps=1, probability=1.0):
    """Evidence of runs whose candidates have these gradients, C = 1, in every step."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(candidates), RUNS)
    part = rng.random((RUNS, steps, 1)) < probability
    seen = part * candidates[chosen][:, None]
    seen = seen + sigma * rng.normal(size=(RUNS, steps, candidates.shape[1]))
    evidence = Evidence(
        products=seen @ candidates.T,
        squared=np.broadcast_to(
            np.sum(candidates**2, axis=1), (RUNS, steps, len(candidates))
        ),
    )
    private = PrivacyConfig(
        clip_norm=1.0, noise_multiplier=sigma, sampling_probability=probability
    )
    return evidence, chosen, private


def simplex(m):
    """m points of length 1, as far from each other as they can be."""
    centred = np.eye(m) - 1 / m
    return centred / np.linalg.norm(centred, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("candidates", "mu", "expected"),
    [
        (np.eye(10), 2.0, ORTHOGONAL),
        (np.eye(10), 3.0, 0.902),
        (simplex(10), 2.0, 0.706),
        (simplex(10), 3.0, 0.924),
        (np.array([[1.0], [-1.0]]), 1.0, stats.norm.cdf(1.0)),
    ],
    ids=["orthogonal", "orthogonal 3", "simplex", "simplex 3", "antipodal"],
)
def test_known_success_with_full_batches(candidates, mu, expected):
    """Sixteen steps of less noise each; both scores are the same where norms are."""
    evidence, chosen, private = simulated(candidates, 4 / mu, steps=16)
    guess = prior_aware.log_posterior(evidence, private).argmax(axis=1)
    same = evidence.products.sum(axis=1).argmax(axis=1)
    np.testing.assert_array_equal(guess, same)
    low, high = rates.clopper_pearson(int(np.sum(guess == chosen)), RUNS, 0.999)
    assert low <= expected <= high
    run = mechanism(private, steps=16)
    gamma = float(dp.rero_bound(run, kappa=1 / len(candidates)).gamma)
    assert rates.violation(int(np.sum(guess == chosen)), RUNS, gamma) > 1e-3


def test_known_success_with_sampled_batches():
    """The posterior beats the published score, and stays below the bound."""
    evidence, chosen, private = simulated(np.eye(10), 1.0, steps=200, probability=0.1)

    def success(scores):
        return np.mean(scores.argmax(axis=1) == chosen)

    posterior = success(prior_aware.log_posterior(evidence, private))
    assert posterior == pytest.approx(0.589, abs=0.02)
    assert success(evidence.products.sum(axis=1)) == pytest.approx(0.492, abs=0.02)
    run = mechanism(private, steps=200)
    gamma = float(dp.rero_bound(run, kappa=0.1).gamma)
    assert gamma == pytest.approx(0.652, abs=0.002)
    assert rates.violation(round(posterior * RUNS), RUNS, gamma) > 1e-3


@pytest.mark.parametrize("sigma", [0.4, 1.0])
def test_the_posterior_of_allocation_nearly_meets_its_bound(sigma, rng):
    """Two opposite candidates, five epochs of eight steps."""
    candidates, steps = np.array([[1.0], [-1.0]]), 8
    chosen = rng.integers(0, 2, RUNS)
    joined = rng.integers(0, steps, (RUNS, 5, 1)) == np.arange(steps)
    seen = joined.reshape(RUNS, -1, 1) * candidates[chosen][:, None]
    seen = seen + sigma * rng.normal(size=seen.shape)
    evidence = Evidence(
        products=seen @ candidates.T, squared=np.ones((RUNS, 5 * steps, 2))
    )
    private = PrivacyConfig(
        clip_norm=1.0,
        noise_multiplier=sigma,
        sampling_probability=1 / steps,
        sampling="allocation",
    )
    guess = prior_aware.log_posterior(evidence, private).argmax(axis=1)
    run = dp.RandomAllocation(
        noise_multiplier=sigma, steps=steps, epochs=5, relation="zero_out"
    )
    right, gamma = (
        int(np.sum(guess == chosen)),
        float(dp.rero_bound(run, kappa=0.5).gamma),
    )
    assert rates.violation(right, RUNS, gamma) > 1e-3
    assert right / RUNS - 0.5 > 0.8 * (gamma - 0.5)
    independent = dataclasses.replace(private, sampling="poisson")
    other = prior_aware.log_posterior(evidence, independent).argmax(axis=1)
    assert np.sum(other == chosen) <= right + 2 * np.sqrt(RUNS)


@pytest.mark.parametrize("sampling", [1.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_trained_models_give_their_target_away_within_the_bound(digits, sampling):
    """Real training: near the bound where little noise is added, never above."""
    parts = shadow.split(digits, num_fixed=20, num_shadow=8, num_test=1, seed=0)
    private = PrivacyConfig(
        clip_norm=0.1, noise_multiplier=4.0, sampling_probability=sampling
    )
    training = TrainingConfig(
        epochs=40, learning_rate=1.0, momentum=0.0, privacy=private
    )
    victim = shadow.build_victim(
        shadow.VictimConfig(), image_shape=(8, 8, 1), num_classes=10
    )
    evidence, chosen = prior_aware.play(
        training.algorithm(victim),
        parts.fixed,
        parts.shadow,
        init=victim.init(jax.random.key(0)),
        runs=200,
        key=jax.random.key(1),
    )
    assert evidence.products.shape == (200, 40, 8)
    assert len(np.unique(chosen)) == 8
    guess = prior_aware.log_posterior(evidence, private).argmax(axis=1)
    hits = int(np.sum(guess == chosen))
    run = mechanism(private, steps=40)
    gamma = float(dp.rero_bound(run, kappa=1 / 8).gamma)
    assert rates.violation(hits, 200, gamma) > 1e-3
    low, _ = rates.clopper_pearson(hits, 200, 0.999)
    assert low > 1 / 8
    # Clipped gradients are at most C long.
    assert evidence.squared.max() <= 0.1**2 * (1 + 1e-5)


def test_a_bound_for_less_noise_than_there_is_would_be_caught(digits):
    """Planted: the adversary's claim of twice the noise is refuted by their success."""
    evidence, chosen, private = simulated(np.eye(10), 0.5)
    hits = int(
        np.sum(prior_aware.log_posterior(evidence, private).argmax(axis=1) == chosen)
    )
    claimed = PrivacyConfig(clip_norm=1.0, noise_multiplier=1.0)
    run = mechanism(claimed, steps=1)
    gamma = float(dp.rero_bound(run, kappa=0.1).gamma)
    assert rates.violation(hits, RUNS, gamma) < 1e-9
