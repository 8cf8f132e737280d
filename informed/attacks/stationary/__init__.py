"""Near a stationary point theta tells the target, whatever training began from.

stationary_attack  the attack: closed form, then the most probable target
gradients          gradients and Hessian of the penalised loss at theta, in float64
spread             how much training leaves unconverged, as a function of curvature
"""

from informed.attacks.stationary.stationary_attack import (
    StationaryAttack,
    StationaryConfig,
)

__all__ = ["StationaryAttack", "StationaryConfig"]
