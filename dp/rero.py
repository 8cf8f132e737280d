"""Reconstruction robustness (ReRo): the bound on the success of every attack.

`rero_bound` takes a mechanism, which says how a training was made private, and kappa,
the success without the release. It returns the least bound on gamma, the success with
the release. `informed bound`, runs, audits, `calibration` and `plots` call it.

    import dp
    run = dp.PoissonGaussian(
        noise_multiplier=1.0, sampling_probability=0.01, steps=1000, relation="zero_out"
    )
    print(dp.rero_bound(run, kappa=1e-3))

Source: Balle, Cherubin and Hayes 2022, Section VII; formulas in `bounds`.
"""

import dataclasses
import decimal as decimals
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dp import domain
from dp.domain import Numbers
from dp.mechanisms import Bounds, Mechanism


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ReRoBound:
    """An upper bound on the probability of successful reconstruction.

    Attributes:
      log_kappa: natural log of the success without the release; any shape.
      log_gamma: natural log of the bound; the same shape, float64.
      by: the name of the bound that is least, same shape.
      all: log gamma by the name of every valid bound that was computed.
    """

    log_kappa: np.ndarray
    log_gamma: np.ndarray
    by: np.ndarray
    all: dict[str, np.ndarray]

    def __post_init__(self) -> None:
        domain.log_probability("log_kappa", self.log_kappa)
        domain.log_probability("log_gamma", self.log_gamma)
        above = self.log_gamma >= self.log_kappa
        domain.require("log_gamma", self.log_gamma, above, ">= log_kappa")

    @property
    def kappa(self) -> np.ndarray:
        """Return kappa, which underflows below 1e-308; `log_kappa` doesn't."""
        return np.asarray(np.exp(self.log_kappa))

    @property
    def gamma(self) -> np.ndarray:
        """Return gamma, which underflows below 1e-308; `log_gamma` doesn't."""
        return np.asarray(np.exp(self.log_gamma))

    def __str__(self) -> str:
        columns = (self.log_kappa, self.log_gamma, self.by)
        entries = zip(*(column.ravel() for column in columns), strict=True)
        return "\n".join(
            f"kappa {decimal(kappa)}  gamma <= {decimal(gamma, up=True)}  ({by})"
            for kappa, gamma, by in entries
        )


Bound = Callable[[Mechanism, np.ndarray], np.ndarray | None]
"""(mechanism, log kappa of any shape) -> log gamma; None: doesn't apply."""
_REGISTERED: dict[str, Bound] = {}


def register_bound(name: str, bound: Bound) -> None:
    """Add a user's bound to those of `rero_bound`, until this process ends.

    The bound has to hold for every attack on every mechanism for which it returns a
    value, because `rero_bound` reports the least of all bounds.

    Args:
      name: what the bound is called in `ReRoBound.by` and `ReRoBound.all`.
      bound: see `Bound`.
    Raises: ValueError: another registered bound has that name. Where a mechanism has a
      bound of that name, the mechanism's is reported.
    """
    there = _REGISTERED.get(name, bound)
    # A module that is reloaded registers the same bound again.
    if _place(there) != _place(bound):
        raise ValueError(f"There is a bound called {name!r} already.")
    _REGISTERED[name] = bound


def _place(bound: Bound) -> tuple[Any, ...]:
    """Return where a bound's code is written."""
    code = getattr(bound, "__code__", None)
    line = code and (code.co_filename, code.co_firstlineno)
    name = getattr(bound, "__qualname__", repr(bound))
    return getattr(bound, "__module__", None), name, line


def rero_bound(
    mechanism: Mechanism,
    *,
    kappa: Numbers | None = None,
    log_kappa: Numbers | None = None,
) -> ReRoBound:
    """Return the tightest valid bound on reconstruction from a mechanism's release.

    Args:
      mechanism: one of `dp.mechanisms`, or anything with their method `bounds`.
      kappa, log_kappa: success without the release, any shape; exactly one of them.
    Raises: ValueError: both or none of kappa and log_kappa, or outside their range; the
      mechanism gives no bound at all, or one that is NaN.
    """
    allowed = "with a method bounds, such as Batches.mechanism(...) returns"
    domain.require("mechanism", mechanism, hasattr(mechanism, "bounds"), allowed)
    base = domain.baseline(kappa, log_kappa)
    users = {name: bound(mechanism, base) for name, bound in _REGISTERED.items()}
    every: Bounds = {name: value for name, value in users.items() if value is not None}
    every |= mechanism.bounds(base)
    if not every:
        raise domain.FieldError("mechanism", "Expected {} to give a bound, got none.")
    for name, value in every.items():
        domain.require(f"bound {name!r}", value, ~np.isnan(value), "to be no NaN")
    names = np.array(list(every))
    values = np.stack([np.broadcast_to(every[name], base.shape) for name in names])
    best = values.argmin(axis=0)
    least = np.take_along_axis(values, best[None], axis=0)[0]
    return ReRoBound(
        log_kappa=base,
        log_gamma=np.asarray(np.clip(least, base, 0.0)),
        by=np.asarray(names[best]),
        all={name: np.asarray(value) for name, value in every.items()},
    )


def implied_delta(gamma: Numbers, epsilon: Numbers) -> np.ndarray:
    """Return the delta that robustness of all pairs of targets implies: Theorem 5.

    delta = max(0, gamma - (1 - gamma) e^epsilon), under "replace_one". gamma has to
    bound exact success for every fixed set and every prior on two targets of which the
    likelier has probability e^eps / (e^eps + 1).
    """
    gamma = domain.probability("gamma", gamma)
    epsilon = domain.at_least_0("epsilon", epsilon)
    with np.errstate(over="ignore", invalid="ignore"):
        failing = np.where(gamma < 1, (1 - gamma) * np.exp(epsilon), 0.0)
    return np.asarray(np.maximum(0.0, gamma - failing))


def decimal(log_value: float | np.ndarray, *, up: bool = False) -> str:
    """Return e^log_value as text of three digits, rounded down, or up if `up`."""
    if np.isneginf(log_value):
        return "0"
    exponent = int(np.floor(log_value / np.log(10)))
    digits = 100 * np.exp(log_value - exponent * np.log(10))
    digits = np.ceil(digits * (1 - 1e-12)) if up else np.floor(digits * (1 + 1e-12))
    digits = int(digits)
    if digits >= 1000:
        digits, exponent = digits // 10, exponent + 1
    if exponent >= -3:
        return f"{digits * 10.0 ** (exponent - 2):.4g}"
    return f"{digits / 100:.2f}e{exponent:+03d}"


def rounded_up(value: float, digits: int) -> str:
    """Return a number as text, rounded up to so many significant digits if finite."""
    if not math.isfinite(value):
        return f"{value:g}"
    context = decimals.Context(prec=digits, rounding=decimals.ROUND_CEILING)
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"
