"""The adversary's side, and the face of the toolkit.

threat     what an attack is told and gives back; Algorithms 1 and 2
attacks/   the attacks
audit/     one's own training, in one command
metrics/   where a target meets a guess
runs/      the main job: from a configuration to results
studies/   experiments of papers on attacks that know the weights alone
report     pictures and tables
defaults   what configuration files start from
cli/       the command `informed`
"""

from artefacts import sanitise
from artefacts.glm import ReconstructionImpossibleError
from informed.attacks.artefact_networks import reconstruct_sklearn
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.membership import ReconstructionMembership, RetrainingMembership
from informed.attacks.reconn import ReconnAttack
from informed.audit import audit
from informed.defaults import defaults
from informed.metrics import mse, nearest_neighbours, success_rate
from informed.runs.experiment import (
    DataConfig,
    Experiment,
    InversionStage,
    ShadowConfig,
)
from informed.runs.named import add_attack
from informed.threat import (
    Attack,
    Knowledge,
    Reconstruction,
    membership_game,
    reconstruction_game,
)

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
    "RetrainingMembership",
    "ShadowConfig",
    "TrainingInversion",
    "add_attack",
    "audit",
    "defaults",
    "membership_game",
    "mse",
    "nearest_neighbours",
    "reconstruct_sklearn",
    "reconstruction_game",
    "sanitise",
    "success_rate",
]
