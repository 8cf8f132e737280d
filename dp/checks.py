"""Checks of what a user hands in: one clear line, before anything is computed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Number = float | int  # np.float64 is a float
Numbers = Number | np.ndarray | np.generic | Sequence


class FieldError(ValueError):
    """A named field has a value that it may not have.

    Args:
      field: the name as it is known here, without a path.
      message: says what is wrong; its first `{}` stands for the field.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message.replace("{}", field, 1))
        self.field, self.message = field, message

    def within(self, place: str) -> "FieldError":
        """The same error of the field `place.field`."""
        return FieldError(f"{place}.{self.field}", self.message)

    def called(self, names: Mapping[str, str]) -> "FieldError":
        """The same error, by the name that the caller knows the field under."""
        return FieldError(names.get(self.field, self.field), self.message)


def require(field: str, value: Any, holds: Any, allowed: str) -> None:
    """Raise FieldError unless `holds` everywhere (NaN never does)."""
    if not np.all(holds):
        raise FieldError(field, f"Expected {{}} {allowed}, got {value!r}.")


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
        raise FieldError(field, f"Expected {{}} to be an integer, got {value!r}.")
    require(field, value, value >= bound, f">= {bound}")
    return int(value)


def relation(value: str, allowed: Iterable[str]) -> None:
    """Raises ValueError unless the neighbouring relation is known."""
    if value not in allowed:
        raise FieldError(
            "relation",
            f"Expected {{}} to be one of {', '.join(allowed)}; got {value!r}.",
        )
