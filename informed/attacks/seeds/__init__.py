"""The seed behind an unknown initialisation, and with it theta_0.

recovery    the attack: which of three ways applies, and the seeds that it finds
still       weights that training leaves at a multiple of their initial value
seed_search a pass over all seeds of a family, drawing a few weights of each
threefry    single elements of the arrays that JAX draws
null_space  directions in which D_- has no extent, for gradient descent
retrained   small families: training from every seed
"""

from informed.attacks.seeds.null_space import NOT_FOUND
from informed.attacks.seeds.recovery import recover, with_seeds

__all__ = ["NOT_FOUND", "recover", "with_seeds"]
