"""Training algorithms: D_-, a target and randomness in, theta out.

algorithm         the protocol of an A, and its capabilities
foreign           functions of the user's as an A
versions          of such functions: what decides what they do
gradient_descent  the toolkit's own A: SGD, momentum, Adam, mini-batches, privacy
span              full-batch training in the span of the data
private           sums of clipped gradients, with noise
seeds             families of seeds that initialisations are drawn from
"""

from shadow.training.algorithm import Algorithm, Capabilities, Draw
from shadow.training.foreign import JaxFunction, PythonFunction
from shadow.training.gradient_descent import (
    INITIALISATIONS,
    OPTIMISERS,
    REVISION,
    SHUFFLINGS,
    Fixed,
    GradientDescent,
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
from shadow.training.seeds import SeedFamily

__all__ = [
    "INITIALISATIONS",
    "OPTIMISERS",
    "REVISION",
    "SHUFFLINGS",
    "Algorithm",
    "Capabilities",
    "Draw",
    "Fixed",
    "GradientDescent",
    "JaxFunction",
    "PythonFunction",
    "SeedFamily",
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
