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
    ConfigurationMismatchError,
    CorruptBlockError,
    ShadowModels,
    ShadowStore,
)
from shadow.training import TrainingConfig, algorithm
from shadow.victims import Victim, VictimConfig, from_haiku
from shadow.victims import build as build_victim

__all__ = [
    "ConfigurationMismatchError",
    "CorruptBlockError",
    "Examples",
    "Factory",
    "ShadowModels",
    "ShadowStore",
    "Split",
    "TrainingConfig",
    "Victim",
    "VictimConfig",
    "algorithm",
    "build_victim",
    "from_haiku",
    "load",
    "shared_initialisation",
    "split",
    "split_by_indices",
]
