"""The KKT attack: reconstruct training points from a ReLU network's weights alone.

loss_terms       settings: the terms of the attack's loss, and its effort
stationarity     the distance of the weights from a sum of gradients at some points
loss             all terms of the loss of one network, and the start of a run
descent          the attack: candidates and multipliers, from one start or many
ceiling          training points from the first layer, given all activation patterns
training_images  images that victims are trained on, and those of the control
experiment       a victim, and runs of the attack on it
scoring          evaluation of the candidates; all of `informed kkt`
"""

from uninformed.kkt.descent import REVISION, Attack, KktRun, attack_many
from uninformed.kkt.loss import directions, span
from uninformed.kkt.loss_terms import KktConfig

__all__ = ["REVISION", "Attack", "KktConfig", "KktRun", "attack_many"]
__all__ += ["directions", "span"]
