"""Where a target meets an attack's guess, and nowhere else.

pixels      MSE, LPIPS, nearest neighbours, success rates
classifier  what a downstream classifier makes of a guess (KL)
difficulty  why some targets are easy and others hard
"""

from informed.metrics.pixels import (
    PERCENTILES,
    Neighbours,
    Rate,
    lpips,
    mae,
    mse,
    nearest_neighbours,
    refuse_leaks,
    success_rate,
)

__all__ = [
    "PERCENTILES",
    "Neighbours",
    "Rate",
    "lpips",
    "mae",
    "mse",
    "nearest_neighbours",
    "refuse_leaks",
    "success_rate",
]
