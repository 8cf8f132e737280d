"""What candidates are worth, counted with what the adversary knows and no more."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from tests.uninformed.kkt.small_experiment import small
from uninformed import homogeneous
from uninformed.kkt import KktConfig, KktRun, experiment, scoring
from uninformed.kkt.training_images import PointsConfig, VictimImages, load


def test_who_does_not_know_the_mean_does_not_get_it_when_counts_are_made(tmp_path):
    """Candidates as they are, against candidates with the true mean added."""
    told = small()
    untold = dataclasses.replace(
        told, data=dataclasses.replace(told.data, mean_known=False)
    )
    made = experiment.attacked(untold, tmp_path)
    images = made.images
    exact = scoring.matched(images, images.points, images.mean)
    assert exact.recovered.all(), "with the mean the truth is the truth"
    without = scoring.matched(images, images.points, None)
    assert without.ssim.mean() < exact.ssim.mean()
    results = scoring.run(untold, tmp_path)
    # A search of an adversary who knows the mean would be refused in this folder.
    experiment.search(
        untold.attack,
        made.network,
        trials=untold.search.trials,
        key=experiment.key_of(untold, experiment.ATTACKS),
        mean=None,
        folder=tmp_path / "search",
    )
    counted = scoring.matched(images, made.chosen.points, None)
    assert results["mean_ssim"] == round(counted.summary()["mean_ssim"], 3)


def test_losses_and_accuracies_of_a_network_made_by_hand():
    """It says by how much the first pixel exceeds the training images' mean."""
    config, layers = small(), 4.0 * np.eye(4, 1) * np.array([[1.0, -1.0]])
    network = (
        homogeneous.Layer(jnp.asarray(layers, jnp.float32), None),
        homogeneous.Layer(jnp.array([[1.0], [-1.0]]), None),
    )

    def images(*first: float) -> np.ndarray:
        pixels = np.zeros((len(first), 2, 2, 1), np.float32)
        pixels[:, 0, 0, 0] = first
        return pixels

    known = VictimImages(
        images(0.25, 0.75),
        np.array([0, 1]),
        images(0.25, 0.75, 1.0, 1.0),
        np.array([0, 0, 0, 1]),
    )
    found = scoring.fit(config, known, network)
    assert found["train_error"] == 0
    assert found["train_loss"] == pytest.approx(np.log1p(np.exp(-1)), rel=1e-2)
    # Outputs -1, 1, 2 and 2: a third of one class is right, and all of the other.
    assert found["test_accuracy"] == pytest.approx(2 / 3, abs=1e-4)
    expected = np.mean(np.log1p(np.exp([-1.0, 1.0, 2.0, -2.0])))
    assert found["test_loss"] == pytest.approx(expected, rel=1e-2)


def test_what_is_initial_noise_is_not_seen(rng):
    """A planted first layer of three directions, under noise."""
    noise = 1e-4 * rng.standard_normal((400, 60))
    planted = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 60))
    layers = (
        homogeneous.Layer(jnp.asarray(planted + noise, jnp.float32), None),
        homogeneous.Layer(jnp.ones((60, 1)), None),
    )
    seen = scoring.as_seen(KktConfig(), layers)
    assert np.linalg.matrix_rank(np.asarray(seen[0].w), tol=1e-2) == 3
    np.testing.assert_allclose(seen[0].w, planted, atol=1e-3)
    free = scoring.as_seen(KktConfig(span=False), layers)
    np.testing.assert_array_equal(free[0].w, layers[0].w)


def _trial(points: np.ndarray, multipliers: np.ndarray) -> KktRun:
    return KktRun(points=points, multipliers=multipliers, loss=0.0, residual=0.0)


def test_runs_that_err_in_different_ways_are_nearer_together(rng):
    """Four noisy copies of each of five images, beside candidates that are noise."""
    images = load(PointsConfig(name="digits", points=10))
    truth = images.points[:5]
    trials = []
    for _ in range(4):
        copies = truth + 0.1 * rng.standard_normal(truth.shape)
        others = rng.standard_normal((5, truth.shape[1]))
        # The last has no multiplier: it would drag a mean away.
        dead = truth[:1] + 0.3 * rng.standard_normal((1, truth.shape[1]))
        points = np.concatenate([copies, others, dead]).astype(np.float32)
        trials.append(_trial(points, np.array([1.0] * 10 + [0.0])))
    every = scoring.together(images, trials)
    np.testing.assert_array_equal(every[:11], trials[0].points)
    means = every[44:]
    assert len(means) == 5 + 4 * 5
    gaps = np.linalg.norm(means[:, None] - truth[None], axis=2).min(axis=0)
    single = 0.1 * np.sqrt(truth.shape[1])
    np.testing.assert_allclose(gaps, single / 2, rtol=0.3)


def test_a_run_that_diverged_has_no_candidates():
    """One of them made every target's nearest candidate NaN."""
    images = load(PointsConfig(name="digits", points=10))
    good = _trial(images.points.astype(np.float32), np.ones(10))
    bad = _trial(np.full_like(good.points, np.nan), np.ones(10))
    every = scoring.together(images, [good, bad])
    np.testing.assert_array_equal(every, scoring.together(images, [good]))
    assert scoring.matched(images, every, images.mean).recovered.all()
