"""Victims: the models under attack.

networks     init, apply, and theta as one flat vector; from configurations or Haiku
activations  by name; ReLUs whose second derivative counts crossings
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from shadow.victims.networks import (
        ARCHITECTURES,
        FirstLayer,
        FirstWeights,
        Params,
        Slice,
        Taps,
        Victim,
        VictimConfig,
        accuracy,
        build,
        from_equinox,
        from_flax,
        from_functions,
        from_haiku,
        register,
    )

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "shadow.victims.networks": "ARCHITECTURES FirstLayer FirstWeights Params Slice"
        " Taps Victim VictimConfig accuracy build from_equinox from_flax from_functions"
        " from_haiku register",
    },
)
