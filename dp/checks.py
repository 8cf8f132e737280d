"""Checks of what a user hands in: one clear line, before anything is computed."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Number = float | int  # np.float64 is a float
Numbers = Number | np.ndarray | np.generic | Sequence


def require(field: str, value: Any, holds: Any, allowed: str) -> None:
    """Raise ValueError unless `holds` everywhere (NaN never does)."""
    if not np.all(holds):
        raise ValueError(f"Expected {field} {allowed}, got {value!r}.")


def probability(field: str, value: Numbers) -> np.ndarray:
    """As float64. Raises ValueError unless in [0, 1]."""
    found = np.asarray(value, float)
    require(field, value, (found >= 0) & (found <= 1), "in [0, 1]")
    return found


def log_probability(field: str, value: Numbers) -> np.ndarray:
    """As float64. Raises ValueError unless <= 0."""
    found = np.asarray(value, float)
    require(field, value, found <= 0, "<= 0, a natural logarithm of a probability")
    return found


def baseline(kappa: Numbers | None, log_kappa: Numbers | None) -> np.ndarray:
    """log kappa from either; float64. Raises ValueError unless exactly one is given."""
    if log_kappa is not None and kappa is None:
        return log_probability("log_kappa", log_kappa)
    if kappa is None or log_kappa is not None:
        raise ValueError("Expected either kappa or log_kappa, not both or none.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probability("kappa", kappa)))


def above(field: str, value: Numbers, bound: Number) -> np.ndarray:
    """As float64. Raises ValueError unless > bound."""
    found = np.asarray(value, float)
    require(field, value, found > bound, f"> {bound:g}")
    return found


def at_least_0(field: str, value: Numbers) -> np.ndarray:
    """As float64. Raises ValueError unless >= 0."""
    found = np.asarray(value, float)
    require(field, value, found >= 0, ">= 0")
    return found


def whole(field: str, value: Any, bound: int) -> int:
    """Raises ValueError unless an integer >= bound."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"Expected {field} to be an integer, got {value!r}.")
    require(field, value, value >= bound, f">= {bound}")
    return int(value)


def relation(value: str, allowed: Iterable[str]) -> None:
    """Raises ValueError unless the neighbouring relation is known."""
    if value not in allowed:
        raise ValueError(
            f"Expected relation to be one of {', '.join(allowed)}; got {value!r}."
        )
