"""What candidates are worth, counted with what the adversary knows and no more."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.uninformed.kkt.experiments import small
from uninformed import homogeneous
from uninformed.kkt import KktConfig, command, evaluation, experiment
from uninformed.kkt import images as kkt_images


def test_who_does_not_know_the_mean_does_not_get_it_when_counts_are_made(tmp_path):
    """Candidates as they are, against candidates with the true mean added."""
    told = small()
    untold = dataclasses.replace(
        told, data=dataclasses.replace(told.data, mean_known=False)
    )
    made = experiment.attacked(untold, tmp_path)
    images = made.images
    exact = evaluation.matched(images, images.points, images.mean)
    assert exact.recovered.all(), "with the mean the truth is the truth"
    without = evaluation.matched(images, images.points, None)
    assert without.ssim.mean() < exact.ssim.mean()
    results = command.run(untold, tmp_path)
    counted = evaluation.matched(images, made.chosen.found.points, None)
    assert results["mean_ssim"] == round(counted.summary()["mean_ssim"], 3)


def test_a_victim_that_learnt_nothing_is_said_to_be_one():
    """Random weights: half of all right, a loss of ln 2."""
    config = small()
    images = kkt_images.load(config.data)
    network = homogeneous.init(config.victim, images.points.shape[1], jax.random.key(0))
    found = evaluation.fit(config, images, network)
    assert found["train_loss"] == pytest.approx(np.log(2), abs=0.01)
    assert found["test_loss"] == pytest.approx(np.log(2), abs=0.01)
    assert 0.2 < found["test_accuracy"] < 0.8


def test_what_is_initial_noise_is_not_seen(rng):
    """A planted first layer of three directions, under noise."""
    noise = 1e-4 * rng.standard_normal((400, 60))
    planted = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 60))
    layers = (
        homogeneous.Layer(jnp.asarray(planted + noise, jnp.float32), None),
        homogeneous.Layer(jnp.ones((60, 1)), None),
    )
    seen = evaluation.as_seen(KktConfig(), layers)
    assert np.linalg.matrix_rank(np.asarray(seen[0].w), tol=1e-2) == 3
    np.testing.assert_allclose(seen[0].w, planted, atol=1e-3)
    free = evaluation.as_seen(KktConfig(span=False), layers)
    np.testing.assert_array_equal(free[0].w, layers[0].w)
