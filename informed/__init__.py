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

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from informed.attacks.closed_form.pipelines import reconstruct_sklearn
    from informed.attacks.closed_form.row import RowReconstruction
    from informed.attacks.impossible import ReconstructionImpossibleError
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

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "informed.attacks.closed_form.pipelines": "reconstruct_sklearn",
        "informed.attacks.closed_form.row": "RowReconstruction",
        "informed.attacks.impossible": "ReconstructionImpossibleError",
        "informed.attacks.inversion": "InversionConfig TrainingInversion",
        "informed.attacks.membership": "ReconstructionMembership RetrainingMembership",
        "informed.attacks.reconn": "ReconnAttack",
        "informed.audit.auditing": "audit",
        "informed.metrics": "mse nearest_neighbours success_rate",
        "informed.runs.defaults": "defaults",
        "informed.runs.experiment": "DataConfig Experiment ShadowConfig",
        "informed.runs.named": "add_attack",
        "informed.threat": "Attack Knowledge Reconstruction membership_game"
        " reconstruction_game",
    },
)
