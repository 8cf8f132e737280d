"""Reconstruct the target of a converged network, whose gradients add up to zero.

Runs play it as `stationary`. It needs no seed.

stationary_attack  the attack: closed form, then the most probable target
gradients          gradients and Hessian of the penalised loss, and how much is left
"""

from informed.attacks.stationary.stationary_attack import (
    StationaryAttack,
    StationaryConfig,
)

__all__ = ["StationaryAttack", "StationaryConfig"]
