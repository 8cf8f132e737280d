"""Reconstruct a converged network's target without the seed: all gradients sum to zero.

stationary_attack  the attack: closed form, then the most probable target
gradients          gradients and Hessian of the penalised loss at a release, in float64
spread             how much gradient training leaves, as a function of curvature
"""

from informed.attacks.stationary.stationary_attack import (
    StationaryAttack,
    StationaryConfig,
)

__all__ = ["StationaryAttack", "StationaryConfig"]
