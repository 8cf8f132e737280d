"""The unknown row of a model whose solver stopped early, by refits.

The closed form is exact at an optimum. If the solver stops short of it, a gradient
remains, which shifts the computed row. Refitting the model with a nearby candidate
leaves almost the same gradient and shift, so the difference corrects the candidate.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import base

# In spreads: how near `refine` has to come to the row before steps are
# accelerated; from farther away that leads nowhere, and each costs a refit.
_NEAR = 0.5
# Plain refits at most.
_PLAIN = 40
# Accelerated refits at most: the directions that plain steps diverge along are fewer.
# One that converged, of a head on sentence embeddings (n = 2 d), took 25.
_MEMORY = 80
# Accelerated steps without a smaller one before the solver's path counts as chaotic;
# the search that converged had three of them in a row.
_PATIENCE = 15
# In spreads: steps that stay below it are an answer with an error, not a failure.
_ESTIMATE = 1e-3
# In spreads: a step that is small, so that steps that shrink no more are rounding.
_SETTLED = 1e-6
# In spreads: the least error that is claimed, because the missing row may stand
# elsewhere among the others, where sums are rounded in another order.
_FLOOR = 1e-9


def refit(
    model: Any, known: Any, labels: Any, row: np.ndarray, label: Any, at: int = -1
) -> Any:
    """Fit a clone of a model to the known rows and a candidate.

    Args:
      model: the fitted estimator.
      known: (known, features), an array or a sparse matrix.
      labels: (known,) or (known, outputs).
      row: (features,), the candidate for the missing row.
      label: the candidate's label.
      at: the candidate's position among the rows; -1: the last.
    """
    at = known.shape[0] if at < 0 else at
    if sparse.issparse(known):
        rows = sparse.csr_array(sparse.vstack((known[:at], row[None], known[at:])))
    else:
        rows = np.insert(known, at, row, axis=0)
    labels = np.asarray(labels)
    if labels.dtype.kind in "iub" and np.asarray(label).dtype.kind == "f":
        labels = labels.astype(np.float64)
    with warnings.catch_warnings():
        # That the solver stopped early was for the developer to see.
        warnings.simplefilter("ignore")
        return base.clone(model).fit(rows, np.insert(labels, at, label, axis=0))


def refine(
    invert: Callable[[Any], np.ndarray],
    train: Callable[[np.ndarray], Any],
    stored: Any,
    scale: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve train(z) = stored, where `invert` is an approximate inverse of `train`.

    A solver that stops short of the optimum leaves a gradient, so the closed form is a
    little off. The same solver, run on the candidate, leaves nearly the same: z moves
    by the difference of what the closed form makes of both.

    Args:
      invert: model -> (unknowns,), the closed form's row and output; NaN where it has
        none.
      train: (unknowns,) -> model, the refit with this row and output.
      stored: the released model.
      scale: (unknowns,), the spread of each unknown among the known rows.
    Returns: z, and (unknowns,) its error: a hundred times the last steps once they no
      longer shrink, infinite where they don't get small.
    """
    goal = invert(stored)
    z = goal.copy()
    # Fixed-point iteration: z moves by what the closed form misses after a refit.
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
        # Steps no longer shrink: rounding if they are small, else no convergence.
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
    invert: Callable[[Any], np.ndarray],
    train: Callable[[np.ndarray], Any],
    goal: np.ndarray,
    scale: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Refine by Anderson's acceleration, which uses all previous steps.

    Plain steps diverge along the few directions in which the solver's remaining
    gradient depends on the row. Differences of steps give the slopes there, so one
    refit is needed for each of these directions, not for every unknown.

    Returns: z and its error, as `refine`; None where the steps don't get small.
    Source: Anderson, Iterative procedures for nonlinear integral equations, J. ACM 12,
      1965; of type II, undamped.
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
            # The smallest step and the one before it: the last ones are rounding.
            best = int(np.argmin(sizes))
            error = np.max(np.abs(steps[max(best - 1, 0) : best + 1]), axis=0)
            return places[best] * scale, (100 * error + _FLOOR) * scale
        if len(sizes) > _PATIENCE and min(sizes[-_PATIENCE:]) > min(sizes):
            return None
        # The least combination of all steps so far, and the place that it was taken at.
        moved = np.diff(np.stack(places), axis=0).T
        turned = np.diff(np.stack(steps), axis=0).T
        if turned.size:
            shares = np.linalg.lstsq(turned, step, rcond=1e-10)[0]
            z = z + step - (moved + turned) @ shares
        else:
            z = z + step
    return None
