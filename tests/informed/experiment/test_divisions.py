"""The seed of the division, and success."""

import dataclasses

import numpy as np
import pytest

from informed.experiment import pipeline
from informed.experiment.pools import Pools
from informed.experiment.settings import Experiment
from informed.metrics import judging


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


@pytest.mark.parametrize(
    ("mse", "word"), [(0.01, "oracle"), (0.03, "first percentile"), (0.07, "no")]
)
def test_success_is_the_papers(mse, word):
    """MNIST's two thresholds in Figure 3: 0.0232 and about 0.063."""
    assert judging.success(mse, 0.0232, 0.0634) == word
