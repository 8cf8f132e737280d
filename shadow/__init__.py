"""The model developer's side: D_- and z in, weights theta out.

    data       images and labels; fixed set, shadow targets, test targets
    victims    the models under attack, and theta as a vector
    training   the training algorithm A
    factory    A over thousands of targets at once
    store      the (weights, target) data set on disk
"""

from shadow.data import Examples, Split, load, split, split_by_indices
from shadow.factory import Factory, shared_initialisation
from shadow.store import (
    Block,
    ConfigurationMismatchError,
    CorruptBlockError,
    ShadowStore,
)
from shadow.training import TrainingConfig, algorithm
from shadow.victims import Victim, VictimConfig

__all__ = [
    "Block",
    "ConfigurationMismatchError",
    "CorruptBlockError",
    "Examples",
    "Factory",
    "ShadowStore",
    "Split",
    "TrainingConfig",
    "Victim",
    "VictimConfig",
    "algorithm",
    "load",
    "shared_initialisation",
    "split",
    "split_by_indices",
]
