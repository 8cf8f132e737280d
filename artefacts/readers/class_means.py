"""Estimators that store a mean for every class: the target's class has one row more.

Which class that is follows from stored counts or priors; without them every class is
tried, and the others' means, which must be the known rows' own, decide.
"""

import numpy as np

from artefacts import refits
from artefacts.findings import (
    EPS,
    EPS32,
    Finding,
    Leaf,
    ReconstructionImpossibleError,
    around,
    refuted,
    single_precision,
    spread,
)
from artefacts.readers.moments import from_mean, settled, without_evidence
from artefacts.registry import register


def read(leaf: Leaf) -> list[Finding]:
    """The class whose mean isn't that of its known rows, and the row that explains it.

    Raises: ReconstructionImpossibleError: no labels are known.
    """
    model = leaf.estimator
    name = type(model).__name__
    field, second = _FIELDS[name]
    means = getattr(model, field, None)
    if means is None and name != "LinearDiscriminantAnalysis":
        return []
    if leaf.labels is None:
        raise ReconstructionImpossibleError(
            f"{leaf.path or name}: means of classes need y_known."
        )
    known = np.asarray(leaf.known, np.float64)
    if means is None:
        return _without_means(leaf, known)
    means = np.asarray(means)
    if name == "NearestCentroid" and (
        model.metric != "euclidean" or model.shrink_threshold is not None
    ):
        return []
    w = leaf.sample_weights
    off, slack = _off(leaf, means, known)
    k = int(np.argmax(off))
    others = np.delete(off, k)
    several = "more than one class's mean differs from the known rows' own"
    if np.any(others > 100 * slack):
        return [refuted(field, several)]
    if np.any(others > slack):
        return [
            Finding(
                field=field,
                tells="nothing: rounding of the means hides which class's mean moved",
            )
        ]
    # No class's mean moved: x is its own class's mean, and the counts tell which class.
    if off[k] <= 1e-12:
        k = _class_by_count(leaf, k)
    inside = leaf.labels == model.classes_[k]
    row, error = from_mean(leaf, means[k], known[inside], w[inside], leaf.target_weight)
    label = model.classes_[k]
    # Its fit keeps single precision, and stores the means in double precision.
    if keeps := name == "NearestCentroid":
        error = settled(leaf, error, None)
    sure = refits.certificate(leaf, second, row, label, error=error, closed=True)
    single = means[k].dtype == np.float32 or single_precision(known)
    # Several calls of `partial_fit`, of which a class without rows tells, leave second
    # moments that one fit doesn't give again.
    in_parts = np.any(np.asarray(getattr(model, "class_count_", 1)) == 0)
    if sure is False and not single and not in_parts:
        return [refuted(field, several)]
    sure = sure or None
    found = Finding(
        field=field,
        tells="the mean of one class, with its count, is the missing row",
        label=label,
        certified=sure,
        **around(row, error if keeps else settled(leaf, error, sure)),
    )
    if name in ("GaussianNB", "NearestCentroid"):
        found = without_evidence(found, known, row)
    return [found]


def _off(leaf: Leaf, means: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, float]:
    """How far each class's mean is from its known rows', and what rounding explains.

    Returns: (classes,), in spreads, infinite where a class has no known row; the
      largest difference of a class that the missing row is not in.
    """
    w, scale = leaf.sample_weights, spread(known)
    off = np.full(len(means), np.inf)
    # A class that `partial_fit` was told of, and that had no row yet.
    counts = getattr(leaf.estimator, "class_count_", None)
    if counts is not None:
        off[np.asarray(counts) == 0] = 0.0
    for k, label in enumerate(leaf.estimator.classes_):
        inside = leaf.labels == label
        if inside.any():
            mean = w[inside] @ known[inside] / w[inside].sum()
            off[k] = np.max(np.abs(mean - means[k]) / scale)
    single = means.dtype == np.float32 or single_precision(known)
    size = float(np.max(np.abs(known).max(axis=0) / scale))
    return off, 1e-9 + leaf.count * (EPS32 if single else EPS) * size


def _without_means(leaf: Leaf, known: np.ndarray) -> list[Finding]:
    """Linear discriminants from their coefficients alone, by refits."""
    found = []
    for label in leaf.estimator.classes_:
        start = known[leaf.labels == label].mean(axis=0)
        told = refits.search(leaf, ("coef_", "intercept_"), start, label)
        if told is not None:
            found.append((label, *told))
    if len(found) != 1:
        return []
    label, row, error = found[0]
    return [
        Finding(
            field="coef_, intercept_",
            tells="fitted again with one row, and with no other, they come out again",
            label=label,
            certified=True,
            **around(row, error),
        )
    ]


def _class_by_count(leaf: Leaf, fallback: int) -> int:
    """The class that has one row more than are known, where counts are stored."""
    model = leaf.estimator
    counts = getattr(model, "class_count_", None)
    if counts is None:
        return fallback
    known = np.array([(leaf.labels == label).sum() for label in model.classes_])
    return int(np.argmax(counts - known))


_FIELDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "GaussianNB": ("theta_", ("var_",)),
    "LinearDiscriminantAnalysis": ("means_", ("coef_", "intercept_", "covariance_")),
    "QuadraticDiscriminantAnalysis": ("means_", ("scalings_",)),
    "NearestCentroid": ("centroids_", ("within_class_std_dev_",)),
}


register(tuple(_FIELDS), read)
