"""Victims, the networks under attack: architectures, layers, weights as a vector.

victim         init, apply, and theta as one flat vector
architectures  the toolkit's victims, by configuration
layers         dense and convolution layers, laid out for many models at once
cnn_forms      the CNN in small groups of examples (toom_cook)
adapters       victims of Haiku, Flax, Equinox, or of a pair of functions
activations    activation functions by name; ReLUs for derivatives of training
traces         a hash of what a JAX function computes
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from shadow.victims.adapters import (
        from_equinox,
        from_flax,
        from_functions,
        from_haiku,
    )
    from shadow.victims.architectures import (
        ARCHITECTURES,
        VictimConfig,
        build,
        register,
    )
    from shadow.victims.victim import (
        FirstLayer,
        FirstWeights,
        Params,
        Slice,
        Taps,
        Victim,
        accuracy,
    )

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "shadow.victims.adapters": "from_equinox from_flax from_functions from_haiku",
        "shadow.victims.architectures": "ARCHITECTURES VictimConfig build register",
        "shadow.victims.victim": "FirstLayer FirstWeights Params Slice Taps Victim"
        " accuracy",
    },
)
