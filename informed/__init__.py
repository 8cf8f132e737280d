"""The adversary who knows all but one, and the face of the toolkit.

threat     what an attack is told and gives back; Algorithms 1 and 2
attacks/   the attacks, one a row of `attacks.registry`
play       how an attack is played
metrics/   where a target meets a guess
runs/      the main job: from a configuration to results
audit/     one's own training, in one command
report/    the result of either: JSON, CSV, a page, pictures
cli/       the command `informed`

Names are loaded when they are asked for, so that a command that needs no JAX doesn't
wait for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artefacts import sanitise
    from artefacts.glm import ReconstructionImpossibleError
    from informed.attacks.artefact_networks import reconstruct_sklearn
    from informed.attacks.inversion import InversionConfig, TrainingInversion
    from informed.attacks.membership import (
        ReconstructionMembership,
        RetrainingMembership,
    )
    from informed.attacks.reconn import ReconnAttack
    from informed.audit.auditing import audit
    from informed.metrics import mse, nearest_neighbours, success_rate
    from informed.runs.defaults import defaults
    from informed.runs.experiment import DataConfig, Experiment, ShadowConfig
    from informed.runs.named import add_attack
    from informed.threat import (
        Attack,
        Knowledge,
        Reconstruction,
        membership_game,
        reconstruction_game,
    )

# Each public name, and where it is.
_NAMES = {
    "Attack": "informed.threat",
    "DataConfig": "informed.runs.experiment",
    "Experiment": "informed.runs.experiment",
    "InversionConfig": "informed.attacks.inversion",
    "Knowledge": "informed.threat",
    "ReconnAttack": "informed.attacks.reconn",
    "Reconstruction": "informed.threat",
    "ReconstructionImpossibleError": "artefacts.glm",
    "ReconstructionMembership": "informed.attacks.membership",
    "RetrainingMembership": "informed.attacks.membership",
    "ShadowConfig": "informed.runs.experiment",
    "TrainingInversion": "informed.attacks.inversion",
    "add_attack": "informed.runs.named",
    "defaults": "informed.runs.defaults",
    "membership_game": "informed.threat",
    "mse": "informed.metrics",
    "nearest_neighbours": "informed.metrics",
    "reconstruct_sklearn": "informed.attacks.artefact_networks",
    "reconstruction_game": "informed.threat",
    "sanitise": "artefacts",
    "success_rate": "informed.metrics",
}


def __getattr__(name: str) -> Any:
    """A public name, or a subpackage such as `informed.audit`."""
    if name in _NAMES:
        module = importlib.import_module(_NAMES[name])
        return getattr(module, name)
    if name == "audit":  # a package that is called like a function
        return importlib.import_module("informed.audit")
    raise AttributeError(f"module 'informed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_NAMES, "audit"})


__all__ = [
    "Attack",
    "DataConfig",
    "Experiment",
    "InversionConfig",
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
