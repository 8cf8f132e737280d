"""The adversary's side, and the face of the toolkit.

threat      what an attack gets to see; Algorithms 1 and 2
publishing  weights in fewer bits
attacks/    the attacks
metrics     how good a reconstruction is
experiment  the configuration of a run
pipeline    the main job in resumable stages
report      pictures and tables
cli         the command `informed`
"""

from informed.attacks.glm import ReconstructionImpossibleError
from informed.attacks.glm.estimators import reconstruct as reconstruct_sklearn
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.membership import ReconstructionMembership, RetrainingMembership
from informed.attacks.reconn import ReconnAttack
from informed.metrics import mse, nearest_neighbours, success_rate
from informed.runs.experiment import (
    DataConfig,
    Experiment,
    InversionStage,
    ShadowConfig,
)
from informed.threat import (
    Attack,
    Knowledge,
    Reconstruction,
    Release,
    membership_game,
    reconstruction_game,
)
from shadow.rounding import rounded

__all__ = [
    "Attack",
    "DataConfig",
    "Experiment",
    "InversionConfig",
    "InversionStage",
    "Knowledge",
    "ReconnAttack",
    "Reconstruction",
    "ReconstructionImpossibleError",
    "ReconstructionMembership",
    "Release",
    "RetrainingMembership",
    "ShadowConfig",
    "TrainingInversion",
    "membership_game",
    "mse",
    "nearest_neighbours",
    "reconstruct_sklearn",
    "reconstruction_game",
    "rounded",
    "success_rate",
]
