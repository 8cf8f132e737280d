"""A developer who trains on digits for a few epochs."""

import pytest

import shadow
from informed.experiment.training_settings import TrainingConfig


@pytest.fixture
def factory(victim, split, key):
    return shadow.Factory(
        algorithm=TrainingConfig(epochs=5).algorithm(victim),
        fixed=split.fixed,
        key=key,
        role="released",
        width=4,
    )
