"""The KKT attack: reconstruct training points from a ReLU network's weights alone.

`loss` has all terms, and `descent` minimises their sum. `experiment` trains a victim
and attacks it, and `scoring` evaluates the candidates.
"""

from uninformed.kkt.descent import REVISION, Attack, KktRun, attack_many
from uninformed.kkt.loss import directions, span
from uninformed.kkt.loss_terms import KktConfig

__all__ = ["REVISION", "Attack", "KktConfig", "KktRun", "attack_many"]
__all__ += ["directions", "span"]
