"""The KKT attack: training points out of the weights of a homogeneous network, alone.

config        which terms its loss has, and how hard it tries
stationarity  how far theta is from a sum of gradients at some points
loss          all terms of the loss of one network, and where a run begins
descent       the attack: candidates and multipliers, from one start or many
ceiling       what the first layer tells to whoever knows all activation patterns
search        random search over its settings, and which run to believe
images        what victims are trained on, and the images of the control
experiment    a victim, and runs of the attack on it
evaluation    what the candidates are worth: counts, controls, baselines, pictures
command       all of it: `informed kkt`
"""

from uninformed.kkt.config import COEFFICIENTS, KktConfig, Knobs
from uninformed.kkt.descent import (
    REVISION,
    KktAttack,
    KktRun,
    attack_many,
)
from uninformed.kkt.loss import directions, span

__all__ = [
    "COEFFICIENTS",
    "REVISION",
    "KktAttack",
    "KktConfig",
    "KktRun",
    "Knobs",
    "attack_many",
    "directions",
    "span",
]
