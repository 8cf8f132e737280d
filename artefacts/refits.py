"""The forward check: put the row back, fit again, and compare what is stored.

Two differences are set against each other, field by field: of the refit with the
candidate, and of a refit with another row in its place. The first must be rounding
where the second is not. That needs no tolerance in the units of a field.

A refit that differs says that the known rows are other ones only where nothing else can
explain it: not where a solver stops when it is near enough, and not where rows in
another order, in single precision, or a candidate moved by its own rounding, change as
much.
"""

import dataclasses
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import optimize, sparse
from sklearn import base

from artefacts.findings import Leaf, single_precision, spread

# Of what another row would change: a refit that differs by less confirms the row.
# Rounding is 1e-7 of it or less, and a wrong row is near 1.
AGREES = 1e-5
# Of what another row would change: below it a difference refutes nothing. A known row
# that is another one changes a moment as much as the missing row does, so about 1.
REFUTES = 0.02
# A difference that is less than this many times the rounding that was measured may be
# rounding: two orders of summation are few samples of it.
ROUNDING = 100.0
# In spreads: the least error that is told, because the missing row at another place
# among the others is summed in another order.
FLOOR = 1e-9


def refit(
    leaf: Leaf, row: np.ndarray, label: Any = None, *, dtype: Any = np.float64
) -> Any:
    """A clone of the leaf, fitted on the known rows and `row`.

    The row goes to the told position, else to the end. Warnings are dropped: they were
    the developer's to see.
    """
    at = leaf.count - 1 if leaf.position is None else leaf.position
    if sparse.issparse(leaf.known):
        parts = (leaf.known[:at], row[None], leaf.known[at:])
        rows = sparse.csr_array(sparse.vstack(parts)).astype(dtype)
    else:
        rows = np.insert(np.asarray(leaf.known, np.float64), at, row, axis=0)
        rows = rows.astype(dtype)
    arguments: dict[str, Any] = {}
    if leaf.labels is not None:
        # A fit that ignores labels gets any of them.
        own = leaf.labels[0] if label is None else label
        arguments["y"] = np.insert(real(leaf.labels, own), at, own, axis=0)
    if leaf.weights is not None:
        arguments["sample_weight"] = np.insert(
            leaf.sample_weights, at, leaf.target_weight
        )
    model, counts = base.clone(leaf.estimator), _class_counts(leaf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if counts is not None and not counts.all():
            # A class without rows is one that `partial_fit` was told of.
            classes = leaf.estimator.classes_
            return model.partial_fit(rows, classes=classes, **arguments)
        return model.fit(rows, **arguments)


def _class_counts(leaf: Leaf) -> np.ndarray | None:
    """How many rows each class had, by an estimator that counts them."""
    counts = getattr(leaf.estimator, "class_count_", None)
    able = hasattr(leaf.estimator, "partial_fit") and leaf.labels is not None
    return np.asarray(counts) if able and counts is not None else None


def difference(
    leaf: Leaf, fields: Iterable[str], row: np.ndarray, label: Any = None
) -> float | None:
    """How far the refit with this row is from what is stored, over what a row changes.

    Args:
      leaf: the estimator as it is stored, and the known rows.
      fields: names of the estimator's fields to compare; those that aren't stored any
        more are left out.
      row: (features,), the candidate for the missing row.
      label: the candidate's label, where the leaf has labels.
    Returns: the worst entry's; None where no field is left. Rounding is 1e-7 or less;
      a wrong row is near 1.
    """
    if not np.all(np.isfinite(row)):
        return None
    again = refit(leaf, row, label)
    moved = refit(leaf, _elsewhere(leaf, row), label)
    return _apart(leaf.estimator, again, moved, fields)


def _apart(stored: Any, new: Any, moved: Any, fields: Iterable[str]) -> float | None:
    """How far two models are apart, over how far a third one is from the first."""
    worst = None
    for field in fields:
        first, second, third = (
            flat(getattr(model, field, None)) for model in (stored, new, moved)
        )
        if first is None or second is None:
            continue
        if second.shape != first.shape:
            return np.inf
        if third is None or third.shape != first.shape:
            third = first
        size = np.maximum(np.abs(first), np.abs(third))
        scale = np.maximum(np.abs(third - first), 1e-7 * size)
        scale = np.maximum(scale, 1e-12 * size.max(initial=0.0))
        scale[scale == 0] = 1.0
        off = float(np.max(np.abs(second - first) / scale, initial=0.0))
        worst = off if worst is None else max(worst, off)
    return worst


def _elsewhere(leaf: Leaf, row: np.ndarray) -> np.ndarray:
    """A row that is far from `row` in every feature, among known values."""
    known = np.asarray(leaf.known, np.float64)
    least, most = known.min(axis=0), known.max(axis=0)
    return np.where(np.abs(least - row) > np.abs(most - row), least, most)


def certificate(
    leaf: Leaf,
    fields: Iterable[str],
    row: np.ndarray,
    label: Any = None,
    *,
    error: np.ndarray | float,
    closed: bool,
) -> bool | None:
    """Whether what is stored comes out again with a row put back.

    Args:
      leaf: the estimator as it is stored, and the known rows.
      fields: names of the estimator's fields to compare.
      row: (features,), the candidate for the missing row.
      label: the candidate's label, where the leaf has labels.
      error: (features,), how far the candidate may be off by rounding.
      closed: whether training is a closed form; if not, the solver may have stopped
        early.
    Returns: True: it does. False: it doesn't, and neither convergence nor rounding
      explains the difference. None: nothing to compare, or it can't be told.
    """
    fields = list(fields)
    off = difference(leaf, fields, row, label)
    if off is None:
        return None
    if off <= AGREES:
        return True
    if not closed or off <= REFUTES:
        return None
    noise = rounding(leaf, fields, row, label, error=error)
    return False if off > ROUNDING * noise else None


def rounding(
    leaf: Leaf,
    fields: Iterable[str],
    row: np.ndarray,
    label: Any = None,
    *,
    error: np.ndarray | float = 0.0,
) -> float:
    """How far refits are apart that differ in rounding alone, as `difference` counts.

    Rows in the opposite order; the candidate moved by its error; and single precision,
    where the known rows are numbers of single precision, so that training may have been
    in it.
    """
    fields = list(fields)
    again = refit(leaf, row, label)
    moved = refit(leaf, _elsewhere(leaf, row), label)
    others = [
        refit(backwards(leaf), row, label),
        refit(leaf, row + error, label),
    ]
    if single_precision(leaf.known):
        others.append(refit(leaf, row, label, dtype=np.float32))
    told = [_apart(again, other, moved, fields) for other in others]
    return max((each for each in told if each is not None), default=np.inf)


def backwards(leaf: Leaf) -> Leaf:
    """The known rows in the opposite order, the missing one at the end."""
    return dataclasses.replace(
        leaf,
        known=np.asarray(leaf.known)[::-1],
        labels=None if leaf.labels is None else leaf.labels[::-1],
        weights=None if leaf.weights is None else leaf.weights[::-1],
        position=None,
    )


def real(labels: np.ndarray, label: Any) -> np.ndarray:
    """Whole outputs as real numbers, where a real one is put among them."""
    if labels.dtype.kind in "iub" and np.asarray(label).dtype.kind == "f":
        return labels.astype(np.float64)
    return labels


def flat(value: Any) -> np.ndarray | None:
    """All numbers of a stored field, one after the other; None: there are none."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        parts = [flat(part) for part in value]
        kept = [part for part in parts if part is not None]
        return np.concatenate(kept) if kept else None
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        return None
    return array.astype(np.float64).ravel()


def search(
    leaf: Leaf, fields: Iterable[str], start: np.ndarray, label: Any = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The row whose refit gives the stored fields, by least squares from `start`.

    For solvers that are smooth in their rows and have no closed form to invert.

    Args:
      leaf: the estimator as it is stored, and the known rows.
      fields: names of the estimator's fields to compare, together more numbers than
        there are features.
      start: (features,), the row at which the search begins.
      label: the missing row's label, where the leaf has labels.
    Returns: the row and its error, (features,) each, if the refit gives what is stored
      to rounding; else None.
    """
    fields = [name for name in fields if hasattr(leaf.estimator, name)]
    stored = _all(leaf.estimator, fields)
    scale = spread(leaf.known)
    far = _elsewhere(leaf, start)
    effect = np.abs(_all(refit(leaf, far, label), fields) - stored)
    unit = np.maximum(effect, 1e-3 * effect.max(initial=0.0))
    if stored.size <= start.size or not unit.max(initial=0.0) > 0:
        return None

    def off(u: np.ndarray) -> np.ndarray:
        new = _all(refit(leaf, start + u * scale, label), fields)
        return (new - stored) / unit if new.shape == stored.shape else 1e6 + 0 * stored

    found = optimize.least_squares(
        off,
        np.zeros_like(start),
        method="lm",
        diff_step=1e-6,
        max_nfev=12 * (start.size + 1),
    )
    step = np.linalg.lstsq(found.jac, found.fun, rcond=None)[0]
    small = np.max(np.abs(found.fun)) <= AGREES * 1e-2 and np.max(np.abs(step)) <= 1e-8
    if not small or np.linalg.cond(found.jac) > 1e8:
        return None
    return start + found.x * scale, (100 * np.abs(step) + FLOOR) * scale


def bends(leaf: Leaf, fields: Iterable[str], row: np.ndarray, label: Any) -> float:
    """Second over first differences of what refits store, a step of 1e-4 spreads apart.

    Solvers that count iterations, or whose path is chaotic, are near 1 or above: no
    search by slopes gets anywhere. Smooth ones are far below.
    """
    fields = [name for name in fields if hasattr(leaf.estimator, name)]
    step = 1e-4 * spread(leaf.known) * np.resize([1.0, -1.0], row.shape)
    at = [_all(refit(leaf, row + k * step, label), fields) for k in range(3)]
    first = float(np.linalg.norm(at[1] - at[0]))
    second = float(np.linalg.norm(at[2] - 2 * at[1] + at[0]))
    return second / first if first > 0 else np.inf


def _all(model: Any, fields: Iterable[str]) -> np.ndarray:
    """Several fields, flat."""
    parts = [flat(getattr(model, name, None)) for name in fields]
    return np.concatenate([part for part in parts if part is not None])
