"""Reconstruct the target of a converged network, whose gradients add up to zero.

stationary_attack  the attack, which runs play as `stationary`; it needs no seed
gradients          gradients and Hessian of the penalised loss, and how much is left
"""

from informed.attacks.stationary.stationary_attack import (
    StationaryAttack,
    StationaryConfig,
)

__all__ = ["StationaryAttack", "StationaryConfig"]
