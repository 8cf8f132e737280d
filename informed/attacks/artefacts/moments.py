"""Estimators that store a mean: with the count, the mean is the missing row.

    x = n mean - (sum of the known rows)

The count is one more than the known rows, stored or not: stripping `n_samples_seen_`
hides nothing from somebody who knows them. Second moments, where they are stored, are
the certificate. Without the mean they tell the row up to a sign.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from informed.attacks.artefacts import refits
from informed.attacks.artefacts.findings import (
    EPS,
    Finding,
    Leaf,
    OtherRowsError,
    Removed,
    around,
    spread,
)

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
      leaf: for its messages.
      mean: (features,).
      known: (known, features), the rows that went into the mean; NaN: left out.
      weights, target_weight: sample weights.
    Returns: (features,) row and (features,) error, which no order of summation exceeds.
    """
    known = np.asarray(known, np.float64)
    w = np.ones(len(known)) if weights is None else weights
    present = np.isfinite(known)
    shares = np.where(present, known, 0.0) * w[:, None]
    total = (present * w[:, None]).sum(axis=0) + target_weight
    row = (total * np.asarray(mean, np.float64) - _sums(shares)) / target_weight
    count = len(known) + 3
    size = np.abs(shares).sum(axis=0) + np.abs(row) * target_weight
    return row, 2 * count * EPS * size / target_weight


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
    if counts.max() > leaf.count or (counts.size == 1 and counts[0] != leaf.count):
        raise OtherRowsError(
            f"{leaf.path or type(leaf.estimator).__name__}: {field} says"
            f" {int(counts.max())} rows; {leaf.count - 1} known rows and one more are"
            f" {leaf.count}. Is the fixed set the right one?"
        )


def _mean_reader(
    mean: str, *, count: str | None, second: tuple[str, ...], needed: bool = True
) -> Callable[[Leaf], list[Finding]]:
    """A reader of a field that holds the mean of all rows."""

    def read(leaf: Leaf) -> list[Finding]:
        stored = getattr(leaf.estimator, mean, None)
        if stored is None:
            return []
        known = np.asarray(leaf.known, np.float64)
        if count is not None:
            check_count(leaf, getattr(leaf.estimator, count, None), field=count)
        row, error = from_mean(leaf, stored, known, leaf.weights, leaf.target_weight)
        return [_certified(leaf, mean, row, error, second, needed)]

    return read


_MEANS = ("mean_", "location_")


def _certified(
    leaf: Leaf,
    field: str,
    row: np.ndarray,
    error: np.ndarray,
    second: tuple[str, ...],
    needed: bool,
) -> Finding:
    """A finding of a whole row, checked by the second moments."""
    label = None if leaf.labels is None else leaf.labels[0]  # moments don't look at it
    # A mean agrees with the row that was computed from it, whatever the known rows.
    stored = [
        field for field in second if getattr(leaf.estimator, field, None) is not None
    ]
    evidence = [field for field in stored if field not in _MEANS]
    sure = refits.certificate(leaf, stored, row, label) if evidence else None
    if sure is False:
        return Finding(
            field=field,
            tells="its mean and its other moments fit no row",
            certified=False,
            needed=needed,
        )
    return Finding(
        field=field, tells=_ROW, certified=sure, needed=needed, **around(row, error)
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
    if holes.any() or (counts is not None and np.ndim(counts) > 0):
        row = _with_holes(leaf, row, known, counts)
    second = ("var_",) if getattr(scaler, "var_", None) is not None else ("scale_",)
    if not np.all(np.isfinite(row)) or leaf.weights is not None:
        return [Finding(field="mean_", tells=_ROW, **around(row, error))]
    return [_certified(leaf, "mean_", row, error, ("mean_", *second), True)]


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
    holes = ~np.isfinite(plain)
    if holes.any() or (counts is not None and np.ndim(counts) > 0):
        row = _with_holes(leaf, row, plain, counts)
    ends = [
        transformer.inverse_transform(((each - scaler.mean_) / scaler.scale_)[None])[0]
        for each in (row - error, row, row + error)
    ]
    width = np.maximum(ends[2] - ends[1], ends[1] - ends[0])
    wide = 4 * np.abs(width) + 1e-9 * spread(known)
    # Refits find another lambda in the last digits; the variance is told for this one.
    there = np.isfinite(row)
    total = leaf.count - holes.sum(axis=0) - ~there
    squares = np.nansum((plain - scaler.mean_) ** 2, axis=0)
    squares += np.where(there, (row - scaler.mean_) ** 2, 0.0)
    variance = np.asarray(scaler.scale_) ** 2
    off = np.abs(squares / total - variance)
    fits = bool(np.all((off <= 1e-9 * leaf.count * variance) | (variance == 1.0)))
    # Where x is missing, or may be, moments can only be refuted.
    sure = fits if not fits or there.all() else None
    bounds = around(ends[1], wide) if fits else {}
    return [Finding(field="_scaler.mean_", tells=_ROW, certified=sure, **bounds)]


def covariance(leaf: Leaf) -> list[Finding]:
    """`location_`; where the data were taken for centred, the second moment alone."""
    estimator = leaf.estimator
    if getattr(estimator, "assume_centered", False):
        return _second_moment(leaf)
    return _mean_reader("location_", count=None, second=("location_", "covariance_"))(
        leaf
    )


def _second_moment(leaf: Leaf) -> list[Finding]:
    """x x' is told, so x up to its sign."""
    known = np.asarray(leaf.known, np.float64)
    if type(leaf.estimator).__name__ != "EmpiricalCovariance":
        return []
    outer = leaf.count * leaf.estimator.covariance_ - known.T @ known
    values, vectors = np.linalg.eigh(outer)
    size = max(values[-1], 0.0)
    if np.abs(values[:-1]).max(initial=0.0) > 1e-6 * size:
        return [
            Finding(
                field="covariance_",
                tells="what the known rows leave of it is no single row's",
                certified=False,
            )
        ]
    row = np.sqrt(size) * vectors[:, -1]
    error = 100 * EPS * leaf.count * np.abs(known).max() ** 2 / np.sqrt(size)
    return [
        Finding(
            field="covariance_",
            tells="the missing row up to its sign: the data were taken for centred",
            lower=-np.abs(row) - error,
            upper=np.abs(row) + error,
            estimate=row,
            certified=True,
        )
    ]


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
    error = 100 * EPS * np.sqrt(leaf.count) * largest / np.sqrt(squares[best])
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


def variance_threshold(leaf: Leaf) -> list[Finding]:
    """`variances_`: one square a feature, so two candidates each."""
    known = np.asarray(leaf.known, np.float64)
    variances = np.asarray(leaf.estimator.variances_, np.float64)
    if leaf.estimator.threshold == 0:  # then they may be ranges
        return []
    m, n = known.mean(axis=0), leaf.count
    around_mean = ((known - m) ** 2).sum(axis=0)
    away = np.sqrt(np.maximum((n * variances - around_mean) * n / (n - 1), 0.0))
    slack = 1e-6 * spread(known)
    return [
        Finding(
            field="variances_",
            tells="how far the missing row is from the mean, not on which side",
            lower=m - away - slack,
            upper=m + away + slack,
            needed=False,
        )
    ]


def kmeans(leaf: Leaf) -> list[Finding]:
    """A centre is the mean of its cluster; the other clusters are the certificate."""
    model = leaf.estimator
    known = np.asarray(leaf.known, np.float64)
    centres = np.asarray(model.cluster_centers_, np.float64)
    groups = model.predict(known)
    scale = spread(known)
    counts = None
    labels = getattr(model, "labels_", None)
    if labels is not None:
        check_count(leaf, len(labels), field="labels_")
        counts = np.bincount(labels, minlength=len(centres))
    w = leaf.sample_weights
    wrong = []
    for k in range(len(centres)):
        inside = groups == k
        own = w[inside]
        mean = own @ known[inside] / own.sum() if inside.any() else centres[k] * np.nan
        if not np.all(np.abs(mean - centres[k]) <= 1e-9 * scale):
            wrong.append(k)
    if len(wrong) != 1 or len(centres) < 2:
        return [
            Finding(
                field="cluster_centers_",
                tells="not one centre, but "
                f"{len(wrong)} differ from the known rows' means: not converged, or"
                " other rows",
                certified=None if len(centres) < 2 else False,
            )
        ]
    k = wrong[0]
    inside = groups == k
    if counts is not None and counts[k] != inside.sum() + 1:
        return [Finding(field="labels_", tells="fits no row", certified=False)]
    row, error = from_mean(
        leaf, centres[k], known[inside], w[inside], leaf.target_weight
    )
    error = error + 20 * EPS * leaf.count * np.abs(known).max(axis=0)  # it centres X
    if model.predict(row[None])[0] != k:
        return [Finding(field="cluster_centers_", tells="fits no row", certified=False)]
    sure = None
    if getattr(model, "inertia_", None) is not None and leaf.weights is None:
        own = ((known - centres[groups]) ** 2).sum() + ((row - centres[k]) ** 2).sum()
        sure = bool(abs(own - model.inertia_) <= 1e-9 * model.inertia_)
    if sure is False:
        return [Finding(field="inertia_", tells="fits no row", certified=False)]
    return [
        Finding(
            field="cluster_centers_",
            tells="one centre is not the mean of its known rows: the rest is the"
            " missing row's",
            certified=sure,
            **around(row, error),
        )
    ]


def strip_counts(estimator: Any) -> list[Removed]:
    """Counts and second moments that transform doesn't use."""
    removed = []
    unused = {
        "StandardScaler": ("n_samples_seen_", "var_"),
        "PCA": ("n_samples_",),
        "IncrementalPCA": ("n_samples_seen_", "var_", "singular_values_"),
        "TruncatedSVD": ("singular_values_", "explained_variance_ratio_"),
        "KMeans": ("labels_", "inertia_", "n_iter_"),
    }
    for field in unused[type(estimator).__name__]:
        if hasattr(estimator, field):
            delattr(estimator, field)
            removed.append(
                Removed(
                    field=field,
                    action="removed",
                    helps=False,
                    why="not used by predictions; who knows the other rows can count"
                    " them",
                )
            )
    if type(estimator).__name__ == "StandardScaler" and not estimator.with_mean:
        estimator.mean_ = None
        removed.append(
            Removed(
                field="mean_",
                action="removed",
                helps=True,
                why="not used without centring; the missing row follows from it alone",
            )
        )
        return removed
    if type(estimator).__name__ == "TruncatedSVD":
        del estimator.explained_variance_
        removed.append(
            Removed(
                field="explained_variance_",
                action="removed",
                helps=True,
                why="not used by predictions; with the singular values it gave the row",
            )
        )
    kept = {"KMeans": "cluster_centers_", "TruncatedSVD": "components_"}
    removed.append(
        Removed(
            field=kept.get(type(estimator).__name__, "mean_"),
            action="kept: predictions need it",
            helps=None,
            why="the missing row follows from it alone",
        )
    )
    return removed


_LOCATION = ("location_", "covariance_")
READERS = {
    "StandardScaler": standard_scaler,
    "PowerTransformer": power_transformer,
    "PCA": _mean_reader(
        "mean_", count="n_samples_", second=("mean_", "explained_variance_")
    ),
    "IncrementalPCA": _mean_reader(
        "mean_", count="n_samples_seen_", second=("mean_", "var_")
    ),
    "FactorAnalysis": _mean_reader("mean_", count=None, second=()),
    "FastICA": _mean_reader("mean_", count=None, second=()),
    "SparsePCA": _mean_reader("mean_", count=None, second=()),
    "TruncatedSVD": truncated_svd,
    "VarianceThreshold": variance_threshold,
    "KMeans": kmeans,
    **dict.fromkeys(
        ("EmpiricalCovariance", "LedoitWolf", "OAS", "ShrunkCovariance"), covariance
    ),
    "GraphicalLasso": _mean_reader("location_", count=None, second=_LOCATION),
}
STRIPPERS = dict.fromkeys(
    ("StandardScaler", "PCA", "IncrementalPCA", "TruncatedSVD", "KMeans"), strip_counts
)
