"""Near a stationary point theta tells the target, whatever training began from.

attack     the attack: closed form, then the most probable target
config     its settings
gradients  gradients and Hessian of the penalised loss at theta, in float64
spread     how much training leaves unconverged, as a function of curvature
"""

from informed.attacks.stationary.attack import StationaryAttack
from informed.attacks.stationary.config import StationaryConfig

__all__ = ["StationaryAttack", "StationaryConfig"]
