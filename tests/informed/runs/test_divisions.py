"""The seed of the division, and classifiers that runs on the same targets share."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from informed.metrics import judging
from informed.runs import pipeline
from informed.runs.experiment import Experiment
from informed.runs.pools import Pools
from informed.runs.stages import Paths


def experiment(**fields):
    values = {
        "data": {"num_fixed": 40, "num_test": 10},
        "training": {"epochs": 5},
        "shadow": {"count": 30},
        "attacks": {"kernel": {"type": "kernel"}},
    }
    return Experiment.from_mapping(values | fields)


def test_the_same_targets_under_another_initialisation():
    """Figure 17b: the division has a seed of its own, theta_0 has the experiment's."""
    pools = Pools()
    one = experiment(seed=0)
    other = experiment(seed=1, data={"num_fixed": 40, "num_test": 10, "seed": 0})
    moved = experiment(seed=1)
    splits = [pools.split(each) for each in (one, other, moved)]
    np.testing.assert_array_equal(splits[0].test_indices, splits[1].test_indices)
    np.testing.assert_array_equal(splits[0].fixed_indices, splits[1].fixed_indices)
    assert (splits[0].test_indices != splits[2].test_indices).any()
    starts = [
        pipeline.factories(each, pools)[1]["shadow"].initialisation
        for each in (one, other, moved)
    ]
    assert (starts[0] != starts[1]).any()
    np.testing.assert_array_equal(starts[1], starts[2])


def test_a_division_without_a_seed_of_its_own_leaves_old_stores_valid():
    assert "seed" not in experiment().model_configuration["data"]
    seeded = dataclasses.replace(experiment().data, seed=3)
    with_seed = dataclasses.replace(experiment(), data=seeded)
    assert with_seed.model_configuration["data"]["seed"] == 3


def test_runs_on_the_same_targets_share_a_classifier(tmp_path: Path):
    judged = {"classifier": {"epochs": 1}}
    found = []
    for rate in (0.1, 0.2):
        run = experiment(training={"epochs": 5, "learning_rate": rate})
        run = dataclasses.replace(
            run, evaluation=experiment(evaluation=judged).evaluation
        )
        folder = tmp_path / str(rate)
        paths = Paths(
            workdir=folder, shadow=folder, classifiers=tmp_path / "classifiers"
        )
        found.append(pipeline.run(run, paths, progress=False))
    assert len(list((tmp_path / "classifiers").glob("classifier-*.npz"))) == 1
    assert found[0]["classifier_accuracy"] == found[1]["classifier_accuracy"]
    assert not list((tmp_path / "0.1").glob("classifier-*"))
    assert all(each["attacks"]["kernel"]["kl"] >= 0 for each in found)


@pytest.mark.parametrize(
    ("mse", "word"), [(0.01, "oracle"), (0.03, "first percentile"), (0.07, "no")]
)
def test_success_is_the_papers(mse, word):
    """MNIST's two thresholds in Figure 3: 0.0232 and about 0.063."""
    assert judging.success(mse, 0.0232, 0.0634) == word
