"""The informed adversary, who knows all training records but one: attacks and audits.

Users import it as `informed`, and `uninformed` imports its modules.

games          Algorithms 1 and 2 of Balle et al. 2022, by which attacks are judged
attacks/       the attacks, one per row of `attacks.registry`
adversary_runs training as the adversary runs it
play           run one attack under a time limit
metrics/       compare guesses with the true records
experiment/    runs of the papers' experiments, from a configuration to results
audit/         attacks on a user's own training function
report/        results of runs and audits: JSON, a page, pictures
cli/           the command `informed`

Names are imported on first use, so that commands that don't need JAX start fast.
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from informed.attacks.closed_form.linear import RowReconstruction
    from informed.attacks.closed_form.pipelines import reconstruct_sklearn
    from informed.attacks.impossible import ReconstructionImpossibleError
    from informed.attacks.inversion import Inversion, InversionConfig
    from informed.attacks.membership_attacks import (
        ReconstructionMembership,
        RetrainingMembership,
    )
    from informed.audit.auditing import audit
    from informed.experiment.defaults import defaults
    from informed.experiment.named import add_attack
    from informed.experiment.settings import DataConfig, Experiment, ShadowConfig
    from informed.games import membership_game, reconstruction_game
    from informed.metrics import compare, mse, nearest_neighbours, success_rate
    from shadow.threat import Attack, Knowledge, Reconstruction

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "informed.attacks.closed_form.pipelines": "reconstruct_sklearn",
        "informed.attacks.closed_form.linear": "RowReconstruction",
        "informed.attacks.impossible": "ReconstructionImpossibleError",
        "informed.attacks.inversion": "InversionConfig Inversion",
        "informed.attacks.membership_attacks": "ReconstructionMembership"
        " RetrainingMembership",
        "informed.audit.auditing": "audit",
        "informed.metrics": "compare mse nearest_neighbours success_rate",
        "informed.experiment.defaults": "defaults",
        "informed.experiment.settings": "DataConfig Experiment ShadowConfig",
        "informed.experiment.named": "add_attack",
        "informed.games": "membership_game reconstruction_game",
        "shadow.threat": "Attack Knowledge Reconstruction",
    },
)
