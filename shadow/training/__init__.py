"""Training algorithms: D_-, a target and randomness in, theta out.

gradient_descent  the toolkit's own A: SGD, momentum, Adam, mini-batches, privacy
span              full-batch training in the span of the data
private           sums of clipped gradients, with noise
max_margin        homogeneous networks until near a KKT point
"""

from shadow.training.gradient_descent import (
    OPTIMISERS,
    REVISION,
    SHUFFLINGS,
    Algorithm,
    Fixed,
    Target,
    TrainingConfig,
    algorithm,
    cross_entropy,
    epoch_batches,
    optimiser,
    span_losses,
    spans,
    step_keys,
    steps_taken,
)

__all__ = [
    "OPTIMISERS",
    "REVISION",
    "SHUFFLINGS",
    "Algorithm",
    "Fixed",
    "Target",
    "TrainingConfig",
    "algorithm",
    "cross_entropy",
    "epoch_batches",
    "optimiser",
    "span_losses",
    "spans",
    "step_keys",
    "steps_taken",
]
