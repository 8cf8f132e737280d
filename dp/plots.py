"""Plot bounds against noise and epsilon, for `informed bound --figure` and users."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import matplotlib.figure
import numpy as np

from dp import domain
from dp.domain import Number
from dp.rero import rero_bound

_TIMES = np.geomspace(1 / 8, 8, 13)  # multiples of the mechanism's noise


def plot(
    mechanism: Any,
    kappas: Sequence[float] = (1e-3, 1e-2, 1e-1),
    *,
    gamma: Number | None = None,
    delta: Number = 1e-5,
) -> matplotlib.figure.Figure:
    """Return a figure of the bound gamma against the noise multiplier and epsilon.

        dp.plot(mechanism, kappas=[0.01], gamma=0.05).savefig("bound.png")

    Every point is a bound of `dp.rero_bound` for the mechanism with an eighth to eight
    times its noise. A vertical line marks the mechanism, a horizontal one `gamma`.

    Args:
      mechanism: has a scalar `noise_multiplier`, such as `dp.RandomAllocation`.
      kappas: values of success without the release, in (0, 1], one curve each.
      gamma: a value to mark; None: no mark.
      delta: the delta of epsilon, in (0, 1).
    Raises: FieldError: the mechanism has no noise multiplier, or a number is outside
      its range.
    """
    if np.ndim(getattr(mechanism, "noise_multiplier", ())):
        raise domain.FieldError(
            "mechanism",
            "Expected {} to have a noise_multiplier of one number, not"
            f" {type(mechanism).__name__}: there is no one noise to vary.",
        )
    domain.finite_above("noise_multiplier", mechanism.noise_multiplier, 0)
    baselines = domain.probability("kappas", np.atleast_1d(np.array(kappas, float)))
    target = None if gamma is None else float(domain.probability("gamma", gamma))
    noises = np.append(mechanism.noise_multiplier * _TIMES, mechanism.noise_multiplier)
    runs = [dataclasses.replace(mechanism, noise_multiplier=float(n)) for n in noises]
    gammas = np.array([rero_bound(run, kappa=baselines).gamma for run in runs])
    epsilons = np.array([run.epsilon(delta) for run in runs])
    figure = matplotlib.figure.Figure(figsize=(8.4, 3.4), dpi=120, layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, along in zip(axes, (noises, epsilons), strict=True):
        order = np.argsort(along[:-1])
        for kappa, values in zip(baselines, gammas.T, strict=True):
            axis.loglog(along[order], values[order], label=f"kappa {kappa:g}")
        axis.axvline(along[-1], color="black", linewidth=0.8)
        if target is not None:
            axis.axhline(target, color="black", linewidth=0.8, linestyle=":")
        axis.grid(visible=True, alpha=0.3)
    axes[0].set(xlabel="noise multiplier", ylabel="gamma (at most)")
    axes[1].set(xlabel=f"epsilon at delta {float(delta):g}")
    axes[0].legend(frameon=False)
    return figure
