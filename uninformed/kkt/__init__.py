"""The KKT attack: reconstruct training points from a ReLU network's weights alone.

`loss` is how far candidate points are from the Karush-Kuhn-Tucker (KKT) conditions that
hold for points of the training set; `descent` minimises it. `experiment` trains a
victim and attacks it, and `scoring`, which `informed kkt` runs, evaluates the
candidates. `landscape.runs` calls the attack too.
"""

from uninformed.kkt.descent import REVISION, Attack, KktRun, attack_many
from uninformed.kkt.kkt_config import KktConfig
from uninformed.kkt.loss import directions, span

__all__ = ["REVISION", "Attack", "KktConfig", "KktRun", "attack_many"]
__all__ += ["directions", "span"]
