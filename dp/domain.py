"""Checks of numeric arguments: one-line errors that name the field and its range.

`dp` calls them before it computes, so that no NaN becomes a bound. Most return float64.
`shadow.checks` builds on them for the other packages.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Number = float | int  # np.float64 is a float
Numbers = Number | np.ndarray | np.generic | Sequence  # what NumPy makes an array of


class FieldError(ValueError):
    """The error of a named field whose value is not allowed.

    Args:
      field: the name of the argument or attribute, without a path.
      message: what is wrong; its first `{}` stands for the field.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message.replace("{}", field, 1))
        self.field, self.message = field, message

    def __reduce__(self) -> tuple[type, tuple[str, str]]:  # process pools pickle it
        return type(self), (self.field, self.message)

    def within(self, place: str) -> "FieldError":
        """Return the same error of the field `place.field`."""
        return FieldError(f"{place}.{self.field}", self.message)

    def called(self, names: Mapping[str, str]) -> "FieldError":
        """Return the same error by the name that the caller knows the field under."""
        return FieldError(names.get(self.field, self.field), self.message)


def require(field: str, value: Any, holds: Any, allowed: str) -> None:
    """Raise FieldError unless `holds` everywhere (NaN never does)."""
    if not np.all(holds):
        raise FieldError(field, f"Expected {{}} {allowed}, got {_shown(value, holds)}.")


def _shown(value: Any, holds: Any) -> str:
    """Write a value on one line: of many numbers the first that is refused."""
    good = np.asarray(holds)
    if good.ndim and np.shape(value) == good.shape:
        index = np.unravel_index(np.argmin(good), good.shape)
        place = ", ".join(str(int(i)) for i in index)
        return f"{np.asarray(value)[index].item()!r} at [{place}]"
    return " ".join(repr(value).split())


def numbers(field: str, value: Numbers) -> np.ndarray:
    """Return any value as float64, or refuse it if it isn't made of numbers."""
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise FieldError(
            field, f"Expected {{}} to be numbers that float64 holds: {error}."
        ) from error


def _checked(
    field: str, value: Numbers, holds: Callable[[np.ndarray], Any], allowed: str
) -> np.ndarray:
    """Return as float64, or raise FieldError unless `holds` of every number."""
    values = numbers(field, value)
    require(field, value, holds(values), allowed)
    return values


def probability(field: str, value: Numbers) -> np.ndarray:
    """Return as float64, or raise FieldError unless in [0, 1]."""
    return _checked(field, value, lambda v: (v >= 0) & (v <= 1), "in [0, 1]")


def share(field: str, value: Numbers) -> np.ndarray:
    """Return as float64, or raise FieldError unless in (0, 1]."""
    above(field, value, 0)
    return _checked(field, value, lambda v: v <= 1, "in (0, 1]")


def between(field: str, value: Numbers, low: Number, high: Number) -> np.ndarray:
    """Return as float64, or raise FieldError unless one number, low < value < high."""
    one(field, value)
    allowed = f"> {low:g} and < {high:g}"
    return _checked(field, value, lambda v: (v > low) & (v < high), allowed)


def log_probability(field: str, value: Numbers) -> np.ndarray:
    """Return as float64, or raise FieldError unless <= 0; -inf is probability 0."""
    allowed = "<= 0, a natural logarithm of a probability"
    return _checked(field, value, lambda v: v <= 0, allowed)


def baseline(kappa: Numbers | None, log_kappa: Numbers | None) -> np.ndarray:
    """Return log kappa from either, as float64.

    Raises: ValueError: not exactly one of them is given; kappa isn't in (0, 1]. A tiny
      kappa may have been rounded to 0, for which a gamma of 0 would be no bound.
    """
    if log_kappa is not None and kappa is None:
        return log_probability("log_kappa", log_kappa)
    if kappa is None or log_kappa is not None:
        raise ValueError("Expected either kappa or log_kappa, not both or none.")
    values = probability("kappa", kappa)
    allowed = "> 0 (where it underflows, give log_kappa; -inf is impossible success)"
    require("kappa", kappa, values > 0, allowed)
    return np.asarray(np.log(values))


def above(field: str, value: Numbers, bound: Number) -> np.ndarray:
    """Return as float64, or raise FieldError unless > bound; infinity is allowed."""
    return _checked(field, value, lambda v: v > bound, f"> {bound:g}")


def one(field: str, value: Numbers) -> None:
    """Raise FieldError unless the value is a single number."""
    if np.ndim(value):
        raise FieldError(
            field, f"Expected {{}} to be one number, got shape {np.shape(value)}."
        )


def finite_above(field: str, value: Numbers, bound: Number) -> np.ndarray:
    """Return as float64, or raise FieldError unless > bound and finite."""
    allowed = f"> {bound:g} and finite"
    return _checked(field, value, lambda v: (v > bound) & np.isfinite(v), allowed)


def at_least_0(field: str, value: Numbers) -> np.ndarray:
    """Return as float64, or raise FieldError unless >= 0; infinity is allowed."""
    return _checked(field, value, lambda v: v >= 0, ">= 0")


def finite_at_least_0(field: str, value: Numbers) -> np.ndarray:
    """Return as float64, or raise FieldError unless >= 0 and finite."""
    allowed = ">= 0 and finite"
    return _checked(field, value, lambda v: (v >= 0) & np.isfinite(v), allowed)


def one_epsilon(value: Numbers) -> float:
    """Return epsilon, or raise FieldError unless one number, >= 0 and finite."""
    one("epsilon", value)
    return float(finite_at_least_0("epsilon", value))


def finite(field: str, value: Numbers) -> np.ndarray:
    """Return as float64, or raise FieldError unless finite."""
    return _checked(field, value, np.isfinite, "to be finite")


def some(field: str, value: np.ndarray) -> np.ndarray:
    """Return the value, or raise FieldError if it has no numbers at all."""
    require(field, np.shape(value), value.size, "to hold at least one number")
    return value


def as_many(field: str, value: np.ndarray, other: str, others: np.ndarray) -> None:
    """Raise FieldError unless two arrays have the same shape."""
    if value.shape != others.shape:
        shapes = f"{value.shape} and {others.shape}"
        raise FieldError(field, f"Expected as many {{}} as {other}, got {shapes}.")


def integer(field: str, value: Any, bound: int) -> int:
    """Return an integer >= bound that float64 holds exactly, or raise FieldError."""
    # Products of NumPy's smaller and unsigned integers overflow silently.
    if isinstance(value, bool) or not isinstance(value, int | np.int64):
        raise FieldError(field, f"Expected {{}} to be an int, got {value!r}.")
    require(field, value, value >= bound, f">= {bound}")
    require(field, value, value <= 2**53, "<= 2^53, which float64 counts up to")
    return int(value)


def choice(field: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value`, or raise FieldError, with the nearest name, unless allowed."""
    names = list(allowed)
    if value in names:
        return value
    raise FieldError(
        field,
        f"Expected {{}} to be one of {', '.join(sorted(names))}; got {value!r}."
        f"{nearest(value, names)}",
    )


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return a hint " Did you mean 'x'?" for a misspelt name, or nothing."""
    by_lower = {known.lower(): known for known in allowed}
    matches = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1)
    return f" Did you mean {by_lower[matches[0]]!r}?" if matches else ""
