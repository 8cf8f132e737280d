"""Compare guesses with targets, which no attack may see: errors, baselines, rates."""

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
