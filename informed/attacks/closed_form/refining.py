"""Correct a linear model's reconstructed row by refits, where its solver stopped early.

The closed form (`linear`) is exact at an optimum. If the solver stops short of it, a
gradient remains, which shifts the computed row. Refitting the model with a nearby
candidate leaves almost the same shift, so the difference corrects the candidate.
`linear` calls `refine`; `span.linear_fit` only `refit`.
Source: ours, with Anderson acceleration.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import base

Invert = Callable[[Any], np.ndarray]
Train = Callable[[np.ndarray], Any]

# All lengths are in column spreads. Steps are accelerated once they are below this;
# acceleration from farther away fails.
_NEAR = 0.5
# Largest number of plain refits, and of accelerated ones. A head on sentence embeddings
# (n = 2 d) converged after 25 of these.
_PLAIN, _MEMORY = 40, 80
# Give up after this many accelerated steps without a new smallest one. The head above
# had three of them in a row.
_PATIENCE = 15
# Steps that settle below this length give an estimate with an error, not a failure.
_ESTIMATE = 1e-3
# If steps no longer shrink and are below this length, they are rounding.
_SETTLED = 1e-6
# Smallest error that is claimed: the order of rows, which is unknown, affects rounding.
_FLOOR = 1e-9


def refit(
    model: Any, known: Any, labels: Any, row: np.ndarray, label: Any, at: int = -1
) -> Any:
    """Return a clone of a model, fitted to the known rows and a row at `at`."""
    at = known.shape[0] if at < 0 else at
    rows = np.insert(known, at, row, axis=0)
    labels = np.asarray(labels)
    if labels.dtype.kind in "iub" and np.asarray(label).dtype.kind == "f":
        labels = labels.astype(np.float64)
    with warnings.catch_warnings():
        # Warnings that the solver stopped early are expected here.
        warnings.simplefilter("ignore")
        return base.clone(model).fit(rows, np.insert(labels, at, label, axis=0))


def refine(
    invert: Invert, train: Train, stored: Any, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solve train(z) = stored by z <- z + invert(stored) - invert(train(z)).

    Args:
      invert: model -> (unknowns,), the closed form's row and output, or NaN.
      train: (unknowns,) -> model, the refit with this row and output.
      scale: (unknowns,), the spread of each unknown among the known rows.
    Returns: z, and (unknowns,) its error: a hundred times the last steps once they no
      longer shrink, infinite where they don't get small.
    """
    goal = invert(stored)
    z = goal.copy()
    steps: list[np.ndarray] = []
    sizes: list[float] = []
    stalled = False
    for _ in range(_PLAIN):
        step = goal - invert(train(z))
        if not np.all(np.isfinite(step)):
            break
        size = float(np.max(np.abs(step) / scale))
        steps.append(np.abs(step))
        sizes.append(size)
        if size <= 1e-12:
            return z, 100 * steps[-1] + _FLOOR * scale
        # If steps no longer shrink, they are rounding (if small) or do not converge.
        stalled = len(sizes) > 3 and size > 0.5 * min(sizes[:-2])
        if stalled:
            break
        z = z + step
    least = min(sizes, default=np.inf)
    if _SETTLED < least <= _NEAR:
        accelerated = _accelerated(invert, train, goal, scale)
        if accelerated is not None:
            return accelerated
    if stalled and least <= _ESTIMATE:
        return z, 100 * np.max(steps[-3:], axis=0) + _FLOOR * scale
    return goal, np.full(z.shape, np.inf)


def _accelerated(
    invert: Invert, train: Train, goal: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Refine by Anderson's acceleration (1965), of type II, undamped.

    Differences of steps give the slopes along the few directions in which plain steps
    diverge. None if the steps don't get small.
    """
    z = goal / scale
    places: list[np.ndarray] = []
    steps: list[np.ndarray] = []
    sizes: list[float] = []
    for _ in range(_MEMORY):
        step = (goal - invert(train(z * scale))) / scale
        if not np.all(np.isfinite(step)):
            return None
        places.append(z)
        steps.append(step)
        sizes.append(float(np.max(np.abs(step))))
        settled = len(sizes) > 3 and min(sizes) <= _SETTLED
        if settled and sizes[-1] > 0.5 * min(sizes[:-2]):
            # Use the smallest step and the one before it; later ones are rounding.
            best = int(np.argmin(sizes))
            error = np.max(np.abs(steps[max(best - 1, 0) : best + 1]), axis=0)
            return places[best] * scale, (100 * error + _FLOOR) * scale
        if len(sizes) > _PATIENCE and min(sizes[-_PATIENCE:]) > min(sizes):
            return None
        # The smallest affine combination of all steps so far, and its point.
        moved = np.diff(np.stack(places), axis=0).T
        turned = np.diff(np.stack(steps), axis=0).T
        if turned.size:
            shares = np.linalg.lstsq(turned, step, rcond=1e-10)[0]
            z = z + step - (moved + turned) @ shares
        else:
            z = z + step
    return None
