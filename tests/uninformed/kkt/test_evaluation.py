"""What candidates are worth, counted with what the adversary knows and no more."""

import dataclasses

import jax
import numpy as np
import pytest

from tests.uninformed.kkt.experiments import small
from uninformed import homogeneous
from uninformed.kkt import command, evaluation, experiment
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
