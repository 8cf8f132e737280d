"""Reconstruct a converged network's target without the seed: all gradients sum to zero.

stationary_attack  the attack: closed form, then the most probable target
gradients          gradients and Hessian of the penalised loss, and how much is left
"""

from informed.attacks.stationary.stationary_attack import (
    StationaryAttack,
    StationaryConfig,
)

__all__ = ["StationaryAttack", "StationaryConfig"]
