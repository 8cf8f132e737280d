"""The adversary's side, and the face of the toolkit.

threat      what an attack gets to see; Algorithms 1 and 2
attacks/    the attacks
metrics     how good a reconstruction is
experiment  the configuration of a run
pipeline    the main job in resumable stages
report      pictures and tables
cli         the command `informed`
"""

from informed.attacks.glm import ReconstructionImpossibleError
from informed.attacks.glm_sklearn import reconstruct as reconstruct_sklearn
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.reconn import ReconnAttack
from informed.experiment import DataConfig, Experiment, ShadowConfig
from informed.metrics import mse, nearest_neighbours, success_rate
from informed.threat import (
    Attack,
    Knowledge,
    Reconstruction,
    Release,
    membership_game,
    reconstruction_game,
)

__all__ = [
    "Attack",
    "DataConfig",
    "Experiment",
    "InversionConfig",
    "Knowledge",
    "ReconnAttack",
    "Reconstruction",
    "ReconstructionImpossibleError",
    "Release",
    "ShadowConfig",
    "TrainingInversion",
    "membership_game",
    "mse",
    "nearest_neighbours",
    "reconstruct_sklearn",
    "reconstruction_game",
    "success_rate",
]
