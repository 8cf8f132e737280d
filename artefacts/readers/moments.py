"""Estimators that store a mean: with the count, the mean is the missing row.

    x = n mean - (sum of the known rows)

The count is one more than the known rows, stored or not: stripping `n_samples_seen_`
hides nothing from somebody who knows them. Second moments, where they are stored, are
the certificate. Without the mean they tell the row up to a sign.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from artefacts import refits
from artefacts.findings import (
    EPS,
    EPS32,
    Finding,
    Leaf,
    OtherRowsError,
    around,
    refuted,
    single_precision,
    spread,
    two_valued,
)
from artefacts.registry import register

_ROW = "its mean times the number of rows, less the known rows, is the missing row"


def from_mean(
    leaf: Leaf,
    mean: np.ndarray,
    known: np.ndarray,
    weights: np.ndarray | None = None,
    target_weight: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The row that a (weighted) mean and the known rows leave, and its rounding.

    Args:
      leaf: the estimator whose mean it is.
      mean: (features,), the stored mean.
      known: (known, features), the known rows that went into the mean; NaN: a value
        that was left out.
      weights: (known,), the known rows' sample weights; None: all are 1.
      target_weight: the missing row's sample weight.
    Returns: (features,) row and (features,) error, which no order of summation exceeds.
      A mean that is stored in single precision was computed in it.
    """
    known = np.asarray(known, np.float64)
    w = np.ones(len(known)) if weights is None else weights
    present = np.isfinite(known)
    shares = np.where(present, known, 0.0) * w[:, None]
    total = (present * w[:, None]).sum(axis=0) + target_weight
    row = (total * np.asarray(mean, np.float64) - _sums(shares)) / target_weight
    count = len(known) + 3
    size = np.abs(shares).sum(axis=0) + np.abs(row) * target_weight
    eps = EPS32 if np.asarray(mean).dtype == np.float32 else EPS
    return row, 2 * count * eps * size / target_weight


def settled(leaf: Leaf, error: np.ndarray, sure: bool | None) -> np.ndarray:
    """The error of a row from a mean, if training may have been in single precision.

    It was in double precision where moments of double precision come out again.
    """
    if sure is True or not single_precision(leaf.known):
        return error
    return error * (EPS32 / EPS)


def _sums(shares: np.ndarray) -> np.ndarray:
    """Column sums in twice the precision."""
    return shares.astype(np.longdouble).sum(axis=0).astype(np.float64)


def check_count(leaf: Leaf, count: Any, *, field: str = "n_samples_seen_") -> None:
    """Raise unless the stored count is one more than the known rows.

    Raises: OtherRowsError: it isn't.
    """
    if count is None or leaf.weights is not None:
        return
    counts = np.unique(np.asarray(count))
    if counts.size == 1 and _fits_holes(leaf, int(counts[0])):
        return
    if counts.max() > leaf.count or (counts.size == 1 and counts[0] != leaf.count):
        raise OtherRowsError(
            f"{leaf.path or type(leaf.estimator).__name__}: {field} says"
            f" {int(counts.max())} rows; {leaf.count - 1} known rows and one more are"
            f" {leaf.count}. Is the fixed set the right one?"
        )


def _fits_holes(leaf: Leaf, count: int) -> bool:
    """Whether one count fits every column, of which each lacks as many values.

    The missing row may lack its own.
    """
    try:
        known = np.asarray(leaf.known, np.float64)
    except (ValueError, TypeError):
        return False
    most = leaf.count - np.isnan(known).sum(axis=0)
    return bool(
        np.all((count == most) | (count == most - 1)) and np.any(most < leaf.count)
    )


def mean_reader(
    mean: str,
    *,
    count: str | None,
    second: tuple[str, ...],
    needed: bool = True,
    closed: Callable[[Any], bool] = lambda model: True,
) -> Callable[[Leaf], list[Finding]]:
    """A reader of a field that holds the mean of all rows.

    `closed`: whether an estimator's second moments come from a closed form, and not
    from a solver that stops early or draws numbers.
    """

    def read(leaf: Leaf) -> list[Finding]:
        stored = getattr(leaf.estimator, mean, None)
        if stored is None:
            return []
        known = np.asarray(leaf.known, np.float64)
        if count is not None:
            check_count(leaf, getattr(leaf.estimator, count, None), field=count)
        row, error = from_mean(leaf, stored, known, leaf.weights, leaf.target_weight)
        return [
            _certified(leaf, mean, row, error, second, needed, closed(leaf.estimator))
        ]

    return read


_MEANS = ("mean_", "location_")


def _certified(
    leaf: Leaf,
    field: str,
    row: np.ndarray,
    error: np.ndarray,
    second: tuple[str, ...],
    needed: bool,
    closed: bool,
) -> Finding:
    """A finding of a whole row, checked by the second moments."""
    # A refit takes a label; moments don't depend on which.
    label = None if leaf.labels is None else leaf.labels[0]
    # A mean agrees with the row that was computed from it, whatever the known rows.
    stored = [
        field for field in second if getattr(leaf.estimator, field, None) is not None
    ]
    evidence = [field for field in stored if field not in _MEANS]
    sure = None
    if evidence:
        sure = refits.certificate(leaf, stored, row, label, error=error, closed=closed)
    if sure is False:
        return refuted(
            field, "its mean and its other moments fit no row", needed=needed
        )
    return Finding(
        field=field,
        tells=_ROW,
        certified=sure,
        needed=needed,
        **around(row, settled(leaf, error, sure)),
    )


def standard_scaler(leaf: Leaf) -> list[Finding]:
    """`mean_`; where a column has missing values, the counts tell whether x has."""
    scaler = leaf.estimator
    mean = getattr(scaler, "mean_", None)
    counts = getattr(scaler, "n_samples_seen_", None)
    known = np.asarray(leaf.known, np.float64)
    check_count(leaf, counts)
    if mean is None:
        return []
    row, error = from_mean(leaf, mean, known, leaf.weights, leaf.target_weight)
    holes = ~np.isfinite(known)
    if holes.any() or counts is None or np.ndim(counts) > 0:
        row = _with_holes(leaf, row, known, counts)
    second = ("var_",) if getattr(scaler, "var_", None) is not None else ("scale_",)
    if not np.all(np.isfinite(row)) or leaf.weights is not None:
        wide = settled(leaf, error, None)
        return [Finding(field="mean_", tells=_ROW, **around(row, wide))]
    found = _certified(leaf, "mean_", row, error, ("mean_", *second), True, True)
    return [without_evidence(found, known, row)]


def without_evidence(found: Finding, known: np.ndarray, row: np.ndarray) -> Finding:
    """Certified by variances, column by column: of two values these say nothing."""
    silent = two_valued(known, row)
    if not found.certified or not silent.any():
        return found
    if silent.all():
        return dataclasses.replace(found, certified=None)
    columns = ", ".join(map(str, np.flatnonzero(silent)[:8]))
    more = " and others" if silent.sum() > 8 else ""
    note = (
        f"of features of two values ({columns}{more}) nothing is confirmed: with a"
        " wrong known value there, a wrong one is told there"
    )
    return dataclasses.replace(found, notes=(*found.notes, note))


def _with_holes(
    leaf: Leaf, row: np.ndarray, known: np.ndarray, counts: Any
) -> np.ndarray:
    """NaN where x is missing, or may be."""
    if counts is None or leaf.weights is not None:
        present = np.isfinite(known)
        mean = np.where(present, known, 0).sum(axis=0) / present.sum(axis=0)
        same = np.abs(row - mean) <= 1e-9 * spread(known)
        return np.where(same, np.nan, row)
    seen = np.broadcast_to(counts, row.shape)
    return np.where(seen > np.isfinite(known).sum(axis=0), row, np.nan)


def power_transformer(leaf: Leaf) -> list[Finding]:
    """The scaler inside: its mean is that of the transformed rows."""
    transformer = leaf.estimator
    scaler = getattr(transformer, "_scaler", None)
    if scaler is None or not hasattr(scaler, "mean_"):
        return []
    known = np.asarray(leaf.known, np.float64)
    plain = transformer.transform(known) * scaler.scale_ + scaler.mean_
    counts = getattr(scaler, "n_samples_seen_", None)
    check_count(leaf, counts)
    row, error = from_mean(leaf, scaler.mean_, plain)
    error = settled(leaf, error, None)
    holes = ~np.isfinite(plain)
    if holes.any() or counts is None or np.ndim(counts) > 0:
        row = _with_holes(leaf, row, plain, counts)
    ends = [
        transformer.inverse_transform(((each - scaler.mean_) / scaler.scale_)[None])[0]
        for each in (row - error, row, row + error)
    ]
    width = np.maximum(ends[2] - ends[1], ends[1] - ends[0])
    wide = 4 * np.abs(width) + 1e-9 * spread(known)
    # What single precision made of the rows while it was fitted isn't what it makes of
    # them now.
    single = single_precision(leaf.known)
    sure = None if single else _transformed_variance(leaf, plain, row, error)
    bounds = {} if sure is False else around(ends[1], wide)
    found = Finding(field="_scaler.mean_", tells=_ROW, certified=sure, **bounds)
    return [without_evidence(found, known, ends[1])]


def _transformed_variance(
    leaf: Leaf, plain: np.ndarray, row: np.ndarray, error: np.ndarray
) -> bool | None:
    """Whether the stored variance is that of the transformed rows, the row with them.

    A refit finds another lambda in the last digits, so the variance is taken for the
    stored one. Some lambdas leave few digits: of numbers around 1000 with a spread of
    1, transformed ones may agree in their first ten digits. What rounding changes is
    bounded, and where it hides what a wrong row would change nothing is said.

    Args:
      plain: (known, features), the known rows, transformed but not scaled; NaN: a
        missing value.
      row: (features,), the missing row, transformed but not scaled; NaN: its value is,
        or may be, missing.
      error: (features,), how far rounding may have moved `row`.
    """
    scaler = leaf.estimator._scaler
    there = np.isfinite(row)
    total = leaf.count - (~np.isfinite(plain)).sum(axis=0) - ~there
    away = np.where(there, row - scaler.mean_, 0.0)
    squares = np.nansum((plain - scaler.mean_) ** 2, axis=0) + away**2
    variance = np.asarray(scaler.scale_) ** 2
    size = np.maximum(np.nanmax(np.abs(plain), axis=0), np.abs(np.nan_to_num(row)))
    eps = EPS32 if single_precision(leaf.known) else EPS
    digits = 1e-9 + 8 * eps * size / np.asarray(scaler.scale_)
    slack = leaf.count * digits * variance + 2 * np.abs(away) * error / total
    off = np.abs(squares / total - variance)
    # Constant columns are scaled by 1, whatever their variance.
    told = variance != 1.0
    clear = told & (off > 100 * slack) & (off > 0.02 * variance / total)
    if np.any(clear):
        return False
    # Where x is missing, or may be, moments can only be refuted.
    strict = slack <= 1e-3 * variance / total
    fits = np.all((off <= slack) & strict | ~told)
    return True if fits and there.all() else None


def covariance(leaf: Leaf) -> list[Finding]:
    """`location_`; nothing where the data were taken for centred."""
    estimator = leaf.estimator
    if getattr(estimator, "assume_centered", False):
        return []
    return mean_reader("location_", count=None, second=("location_", "covariance_"))(
        leaf
    )


def truncated_svd(leaf: Leaf) -> list[Finding]:
    """Components are eigenvectors of X'X: each gives x times its own score.

    X'X v = s^2 v with X'X = K'K + x x', so x (x'v) = s^2 v - K'K v. The sign comes from
    `explained_variance_`, which knows the mean score.
    """
    svd = leaf.estimator
    known = np.asarray(leaf.known, np.float64)
    if getattr(svd, "singular_values_", None) is None:
        return _svd_by_refits(leaf, known)
    s2 = np.asarray(svd.singular_values_, np.float64) ** 2
    v = np.asarray(svd.components_, np.float64)
    shares = v * s2[:, None] - (v @ known.T) @ known
    squares = np.einsum("ij,ij->i", v, shares)
    best = int(np.argmax(squares))
    if squares[best] <= 0:
        return []
    row = shares[best] / np.sqrt(squares[best])
    off = {
        sign: refits.difference(
            leaf, ("singular_values_", "explained_variance_"), sign * row
        )
        for sign in (1.0, -1.0)
    }
    ranked = {each: np.inf if told is None else told for each, told in off.items()}
    sign = min(ranked, key=lambda each: ranked[each])
    row, found = sign * row, off[sign]
    exact = found is not None and found <= refits.AGREES
    if not exact or (off[-sign] or 0.0) <= 1e3 * (found or 0.0):
        return [
            Finding(
                field="components_, singular_values_",
                tells="the missing row roughly: the solver stopped short of the"
                " singular vectors, or its sign isn't told",
                estimate=row,
            )
        ]
    # Rounding of s^2 v - K'K v, over the score.
    largest = float(s2.max())
    eps = EPS32 if svd.components_.dtype == np.float32 else EPS
    error = 100 * eps * np.sqrt(leaf.count) * largest / np.sqrt(squares[best])
    return [
        Finding(
            field="components_, singular_values_, explained_variance_",
            tells="each component is an eigenvector; the known rows leave x times its"
            " score",
            certified=True,
            **around(row, error),
        )
    ]


def _svd_by_refits(leaf: Leaf, known: np.ndarray) -> list[Finding]:
    """Components alone: the row up to its sign, which nothing tells."""
    told = refits.search(leaf, ("components_",), known.mean(axis=0))
    if told is None:
        return []
    row, error = told
    return [
        Finding(
            field="components_",
            tells="fitted again with one row or its negative they come out again",
            lower=-np.abs(row) - error,
            upper=np.abs(row) + error,
            estimate=row,
            certified=True,
        )
    ]


def by_svd(pca: Any) -> bool:
    """Whether all directions were computed; other solvers draw, and stop early."""
    solver = getattr(pca, "_fit_svd_solver", pca.svd_solver)
    return solver in ("full", "covariance_eigh")


_LOCATION = ("location_", "covariance_")


register("StandardScaler", standard_scaler)
register("PowerTransformer", power_transformer)
register(
    "PCA",
    mean_reader(
        "mean_",
        count="n_samples_",
        second=("mean_", "explained_variance_"),
        closed=by_svd,
    ),
)
register(
    "IncrementalPCA",
    mean_reader("mean_", count="n_samples_seen_", second=("mean_", "var_")),
)
register(
    ("FactorAnalysis", "FastICA", "SparsePCA"),
    mean_reader("mean_", count=None, second=()),
)
register("TruncatedSVD", truncated_svd)
register(("EmpiricalCovariance", "LedoitWolf", "OAS", "ShrunkCovariance"), covariance)
register(
    "GraphicalLasso",
    mean_reader("location_", count=None, second=_LOCATION, closed=lambda model: False),
)
