"""The seed behind an unknown initialisation, and with it theta_0.

recovery    the attack: which way applies, and what it finds
still       weights that training leaves at a multiple of their initial value
search      a pass over all seeds, a few weights of each
threefry    single elements of what JAX draws
words       words of the generators of PyTorch, NumPy and scikit-learn
laws        which weight comes from which word
null_space  directions in which D_- has no extent
retrained   small families: training from every seed
"""

from informed.attacks.seeds.recovery import (
    NOT_FOUND,
    RecoveredSeeds,
    makes_its_own_start,
    recover,
)

__all__ = ["NOT_FOUND", "RecoveredSeeds", "makes_its_own_start", "recover"]
