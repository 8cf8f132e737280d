"""Estimators that store counts: naive Bayes on counts, presences and categories.

The counts of the target's class are the known rows' and its own. Where they were
stripped, `feature_log_prob_` says the same: its exponentials are the smoothed counts
over one unknown total, and counts are whole numbers.

Counts that no row explains refute the known rows. That one row does explain them
confirms nothing: a sum looks the same with another known row and another missing one.
"""

from typing import Any

import numpy as np

from artefacts.findings import (
    EPS,
    EPS32,
    Finding,
    Leaf,
    ReconstructionImpossibleError,
    around,
    nothing,
    refuted,
    single_precision,
)
from artefacts.registry import register


def _classes(leaf: Leaf) -> np.ndarray:
    """(known, classes) one-hot; needs labels.

    Raises: ReconstructionImpossibleError: no labels are known.
    """
    if leaf.labels is None:
        raise ReconstructionImpossibleError(
            f"{leaf.path or type(leaf.estimator).__name__}: counts of classes need"
            " y_known."
        )
    return (leaf.labels[:, None] == leaf.estimator.classes_).astype(np.float64)


def discrete(leaf: Leaf) -> list[Finding]:
    """`feature_count_` of MultinomialNB, ComplementNB and BernoulliNB."""
    model = leaf.estimator
    name = type(model).__name__
    known = np.asarray(leaf.known, np.float64)
    if name == "BernoulliNB" and model.binarize is not None:
        known = (known > model.binarize).astype(np.float64)
    shares = _classes(leaf) * leaf.sample_weights[:, None]
    own = shares.T @ known
    eps = EPS32 if single_precision(known) else EPS
    slack = 4 * eps * leaf.count * max(float(np.abs(own).max()), 1.0)
    counts = getattr(model, "feature_count_", None)
    if counts is None:
        return [] if name == "ComplementNB" else _from_logarithms(leaf, own, shares)
    left = counts - own
    moved = set(np.flatnonzero(np.any(np.abs(left) > slack, axis=1)).tolist())
    field, where = "feature_count_", moved
    sizes = getattr(model, "class_count_", None)
    # The counts of classes tell the class of a row of zeros too.
    if sizes is not None:
        room = 1e-9 * max(1.0, float(np.max(sizes)))
        more = np.abs(sizes - shares.sum(axis=0)) > room
        field, where = "class_count_", set(np.flatnonzero(more).tolist())
    if len(where) != 1:
        return [refuted(field)]
    (k,) = where
    if moved - where:
        return [refuted("feature_count_")]
    tells = "the counts of one class, less its known rows', are the missing row"
    row = left[k] / leaf.target_weight
    ceiling = 1 + slack if name == "BernoulliNB" else np.inf
    if row.min() < -slack or row.max() > ceiling:
        return [refuted("feature_count_")]
    return [
        _counted(leaf, "feature_count_", tells, row, slack, model.classes_[k], False)
    ]


def _counted(
    leaf: Leaf,
    field: str,
    tells: str,
    row: np.ndarray,
    slack: float,
    label: Any,
    needed: bool,
) -> Finding:
    """The row, or on which side of the threshold it is where rows were made binary."""
    model = leaf.estimator
    if type(model).__name__ == "BernoulliNB" and model.binarize is not None:
        lower, upper = nothing(len(row))
        lower[row > 0.5] = np.nextafter(model.binarize, np.inf)
        upper[row < 0.5] = model.binarize
        return Finding(
            field=field,
            tells="which features of the missing row are above the threshold",
            lower=lower,
            upper=upper,
            label=label,
            needed=needed,
        )
    return Finding(
        field=field,
        tells=tells,
        label=label,
        needed=needed,
        **around(row, slack / leaf.target_weight),
    )


def _from_logarithms(leaf: Leaf, own: np.ndarray, shares: np.ndarray) -> list[Finding]:
    """Counts from smoothed log probabilities, where counts are whole numbers."""
    model = leaf.estimator
    if leaf.weights is not None or not np.all(own == np.round(own)):
        return []
    alpha = np.broadcast_to(model.alpha, own.shape[1])
    chances = np.exp(np.asarray(model.feature_log_prob_, np.float64))
    bernoulli = type(model).__name__ == "BernoulliNB"
    sizes = shares.sum(axis=0)
    totals = sizes + 2 * alpha[0] if bernoulli else (own + alpha).sum(axis=1)
    off = np.max(np.abs((own + alpha) / totals[:, None] - chances), axis=1)
    moved = np.flatnonzero(off > 1e-12)
    if len(moved) != 1 or np.any(alpha <= 0):
        return []
    k = int(moved[0])
    if bernoulli:
        row = chances[k] * (totals[k] + 1) - own[k] - alpha
    else:
        # Some feature is 0 in the row: the smallest total that leaves none negative.
        total = np.max((own[k] + alpha) / chances[k])
        row = chances[k] * total - own[k] - alpha
    whole = np.round(row)
    if np.max(np.abs(row - whole)) > 1e-6 or whole.min() < 0:
        return []
    return [
        Finding(
            field="feature_log_prob_",
            tells="the counts again, as a whole row that has a zero somewhere",
            label=model.classes_[k],
            estimate=whole,
        )
        if not bernoulli
        else _counted(
            leaf,
            "feature_log_prob_",
            "the counts again",
            whole,
            1e-9,
            model.classes_[k],
            True,
        )
    ]


def categorical(leaf: Leaf) -> list[Finding]:
    """`category_count_`: one category of every feature has one row more."""
    model = leaf.estimator
    known = np.asarray(leaf.known, np.int64)
    shares = _classes(leaf) * leaf.sample_weights[:, None]
    row, labels = np.empty(known.shape[1]), set()
    counts = getattr(model, "category_count_", None)
    if counts is None:
        counts = _smoothed(leaf, shares)
    for j, stored in enumerate(counts):
        own = np.zeros_like(stored)
        for k in range(len(own)):
            own[k] = np.bincount(known[:, j], shares[:, k], minlength=stored.shape[1])[
                : stored.shape[1]
            ]
        room = 1e-9 * max(1.0, float(np.max(stored)))
        left = np.argwhere(np.abs(stored - own) > room)
        if len(left) != 1:
            return [refuted("category_count_")]
        labels.add(int(left[0, 0]))
        row[j] = left[0, 1]
    if len(labels) != 1:
        return [refuted("category_count_")]
    # Of columns with decimals it counts what these are cut off to.
    cut = np.any(known != leaf.known, axis=0)
    lower = np.where(cut & (row == 0), -1.0, row)
    upper = np.where(cut, np.nextafter(row + 1, 0), row)
    return [
        Finding(
            field="category_count_",
            tells="one count a feature is one too many for the known rows",
            lower=lower,
            upper=upper,
            label=model.classes_[labels.pop()],
            needed=False,
        )
    ]


def _smoothed(leaf: Leaf, shares: np.ndarray) -> list[np.ndarray]:
    """Counts from log probabilities: (count + alpha) / (class count + alpha n)."""
    model = leaf.estimator
    sizes = getattr(model, "class_count_", None)
    counts = []
    for logs in model.feature_log_prob_:
        chances, alpha = np.exp(logs), model.alpha
        total = shares.sum(axis=0) if sizes is None else np.asarray(sizes)
        count = chances * (total[:, None] + alpha * chances.shape[1]) - alpha
        counts.append(np.round(count, 6) if leaf.weights is None else count)
    return counts


def dummy(leaf: Leaf) -> list[Finding]:
    """`class_prior_` or `constant_`: the label alone."""
    model = leaf.estimator
    if leaf.labels is None:
        return []
    if type(model).__name__ == "DummyRegressor":
        if model.strategy != "mean" or leaf.weights is not None:
            return []
        means = np.ravel(model.constant_)
        outputs = np.reshape(leaf.labels, (len(leaf.labels), -1))
        label = leaf.count * means - outputs.sum(axis=0)
        label = label[0] if len(label) == 1 else label
        return [Finding(field="constant_", tells="the target's output", label=label)]
    if isinstance(model.class_prior_, list):
        return []
    shares = _classes(leaf) * leaf.sample_weights[:, None]
    total = leaf.sample_weights.sum() + leaf.target_weight
    left = np.asarray(model.class_prior_) * total - shares.sum(axis=0)
    k = int(np.argmax(left))
    room = 1e-6 * leaf.target_weight + 8 * EPS * leaf.count * total
    sure = bool(np.abs(np.delete(left, k)).max(initial=0.0) < room)
    return [
        Finding(
            field="class_prior_",
            tells="the class that has one row more than are known",
            label=model.classes_[k] if sure else None,
            certified=None if sure else False,
        )
    ]


register(("MultinomialNB", "ComplementNB", "BernoulliNB"), discrete)
register("CategoricalNB", categorical)
register(("DummyClassifier", "DummyRegressor"), dummy)
