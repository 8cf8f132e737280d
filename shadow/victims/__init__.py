"""Victims, the networks under attack: architectures, layers, weights as a vector.

`victim` has the type, `architectures` builds the toolkit's victims, `adapters` makes
victims of users' networks. `shadow.training` trains them, runs configure them.
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
    from shadow.victims.victim import FirstLayer, Params, Slice, Victim, accuracy

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "shadow.victims.adapters": "from_equinox from_flax from_functions from_haiku",
        "shadow.victims.architectures": "ARCHITECTURES VictimConfig build register",
        "shadow.victims.victim": "FirstLayer Params Slice Victim accuracy",
    },
)
