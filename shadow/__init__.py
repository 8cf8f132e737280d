"""Shadow models: data, victims, training algorithms, and what is published of a model.

A factory trains many models, each on the fixed set D_- and one target z. `reconn`
learns attacks from such models; `informed` and `uninformed` attack released ones.

data       images and labels; fixed set, shadow targets, test targets
sources    data sets by name
victims    the models under attack, and their weights theta as a vector
training   the training algorithm A
factory    training by A for thousands of targets at once
store      the (weights, target) data set on disk
threat     what an attack sees, knows and gives back
records    the configuration and versions that made a kept result
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from shadow.data import Examples, Split, split
    from shadow.factory import Factory
    from shadow.launchers.share import Share
    from shadow.launchers.table import register as register_launcher
    from shadow.launchers.tasks import Ray
    from shadow.models import ShadowModels
    from shadow.records import (
        ConfigurationMismatchError,
        NotMadeError,
        VersionMismatchError,
        accepting_other_versions,
    )
    from shadow.sources import load, register_source
    from shadow.store import CorruptBlockError, Store
    from shadow.threat import (
        Attack,
        Knowledge,
        MembershipAttack,
        Reconstruction,
        Release,
        publish,
    )
    from shadow.training import (
        Algorithm,
        GradientDescent,
        JaxFunction,
        PythonFunction,
        SeedFamily,
    )
    from shadow.victims import (
        Victim,
        VictimConfig,
        from_equinox,
        from_flax,
        from_functions,
        from_haiku,
    )
    from shadow.victims import build as build_victim
    from shadow.victims import register as register_victim
    from shadow.views import Layers, View, ViewConfig

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "shadow.data": "Examples Split split",
        "shadow.factory": "Factory",
        "shadow.launchers.share": "Share",
        "shadow.launchers.table": "register_launcher=register",
        "shadow.launchers.tasks": "Ray",
        "shadow.models": "ShadowModels",
        "shadow.records": "ConfigurationMismatchError NotMadeError VersionMismatchError"
        " accepting_other_versions",
        "shadow.threat": "Attack Knowledge MembershipAttack Reconstruction Release"
        " publish",
        "shadow.sources": "load register_source",
        "shadow.store": "CorruptBlockError Store",
        "shadow.training": "Algorithm GradientDescent JaxFunction PythonFunction"
        " SeedFamily",
        "shadow.victims": "Victim VictimConfig build_victim=build from_equinox"
        " from_flax from_functions from_haiku register_victim=register",
        "shadow.views": "Layers View ViewConfig",
    },
)
