"""Training algorithms A, the toolkit's or a user's: records and keys in, weights out.

`algorithm` has the protocol, `gradient_descent` the toolkit's A, `foreign` makes one of
a user's function. `Factory` trains models by A, and attacks that train again call A.
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from shadow.training.algorithm import Algorithm, Capabilities, Draw
    from shadow.training.epochs import cross_entropy, epoch_batches, steps_taken
    from shadow.training.foreign import JaxFunction, PythonFunction
    from shadow.training.gradient_descent import REVISION, GradientDescent, revisions
    from shadow.training.seeds import SeedFamily

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "shadow.training.algorithm": "Algorithm Capabilities Draw",
        "shadow.training.foreign": "JaxFunction PythonFunction",
        "shadow.training.epochs": "cross_entropy epoch_batches steps_taken",
        "shadow.training.gradient_descent": "REVISION GradientDescent revisions",
        "shadow.training.seeds": "SeedFamily",
    },
)
