"""Near a stationary point theta tells the target, whatever training began from.

attack     the attack: closed form, then the most probable target
gradients  of the penalised loss at theta, and the Hessian, in float64
spread     what isn't converged, as a function of curvature
"""

from informed.attacks.stationary.attack import StationaryAttack
from informed.attacks.stationary.config import StationaryConfig

__all__ = ["StationaryAttack", "StationaryConfig"]
