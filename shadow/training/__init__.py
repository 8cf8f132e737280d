"""Training algorithms A, the toolkit's or a user's: records and keys in, weights out.

algorithm         the protocol of an A, and its capabilities
foreign           a user's training function as an A
versions          versions of such functions, by a hash of their source
roots             square roots that derivatives of such functions survive
linearity         whether an optimiser is linear
epochs            losses and mini-batches of an epoch
gradient_descent  the toolkit's A: SGD, momentum, Adam, mini-batches, privacy
gram_form         full-batch training in the span of the data
grouped_gradients  gradients summed over small groups of examples
private           sums of clipped gradients, with noise
seeds             families of seeds that initialisations are drawn from
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from shadow.training.algorithm import Algorithm, Capabilities, Draw
    from shadow.training.epochs import (
        cross_entropy,
        epoch_batches,
        span_losses,
        steps_taken,
    )
    from shadow.training.foreign import JaxFunction, PythonFunction
    from shadow.training.gradient_descent import (
        INITIALISATIONS,
        REVISION,
        SHUFFLINGS,
        Fixed,
        GradientDescent,
        Target,
        revisions,
    )
    from shadow.training.seeds import SeedFamily

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "shadow.training.algorithm": "Algorithm Capabilities Draw",
        "shadow.training.foreign": "JaxFunction PythonFunction",
        "shadow.training.epochs": "cross_entropy epoch_batches span_losses steps_taken",
        "shadow.training.gradient_descent": "REVISION Fixed GradientDescent Target"
        " INITIALISATIONS SHUFFLINGS revisions",
        "shadow.training.seeds": "SeedFamily",
    },
)
