"""Victims: the models under attack.

networks     init, apply, and theta as one flat vector; from configurations or Haiku
activations  by name; ReLUs whose second derivative counts crossings
"""

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
)

__all__ = [
    "ARCHITECTURES",
    "FirstLayer",
    "FirstWeights",
    "Params",
    "Slice",
    "Taps",
    "Victim",
    "VictimConfig",
    "accuracy",
    "build",
    "from_equinox",
    "from_flax",
    "from_functions",
    "from_haiku",
]
