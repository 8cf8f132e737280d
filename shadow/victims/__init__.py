"""Victims: the models under attack.

victim         init, apply, and theta as one flat vector
architectures  the toolkit's own, by configuration
adapters       victims of Haiku, Flax, Equinox, or of a pair of functions
activations    by name; ReLUs whose second derivative counts crossings
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
