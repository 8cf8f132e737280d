"""Compare guesses with targets, which no attack may see; no file is written.

`pixels` measures, `judging` decides success in runs and audits, users call `compare`.
"""

from informed.metrics.comparison import ComparedGuess, Comparison, compare
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
    "ComparedGuess",
    "Comparison",
    "Neighbours",
    "Rate",
    "compare",
    "lpips",
    "mae",
    "mse",
    "nearest_neighbours",
    "refuse_leaks",
    "success_rate",
]
