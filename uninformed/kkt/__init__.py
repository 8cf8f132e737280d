"""The KKT attack: training points out of the weights of a homogeneous network, alone.

config        what it minimises, and how hard it tries
descent       candidates and multipliers, from one start or many
search        random search over its settings, and which run to believe
stationarity  how far theta is from a sum of gradients at some points
"""

from uninformed.kkt.config import COEFFICIENTS, KktConfig, Knobs
from uninformed.kkt.descent import (
    REVISION,
    Candidates,
    KktAttack,
    attack,
    attack_many,
    directions,
)

__all__ = [
    "COEFFICIENTS",
    "REVISION",
    "Candidates",
    "KktAttack",
    "KktConfig",
    "Knobs",
    "attack",
    "attack_many",
    "directions",
]
