"""A developer who trains on digits for a few epochs."""

import pytest

import shadow


@pytest.fixture
def factory(victim, split, key):
    return shadow.Factory(
        algorithm=shadow.GradientDescent(
            victim=victim, training=shadow.TrainingConfig(epochs=5)
        ),
        fixed=split.fixed,
        key=key,
        role="released",
        width=4,
    )
