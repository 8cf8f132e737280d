"""Estimators that store what values occur: categories, classes, words.

What is stored and no known row has is the missing row's. `idf_` says more: with the
number of documents it is the number of documents that have a word, so that each word
is in the missing one or not.
"""

from typing import Any

import numpy as np

from artefacts.findings import Finding, Leaf, nothing, refuted
from artefacts.registry import register


def encoder(leaf: Leaf) -> list[Finding]:
    """`categories_` of OneHotEncoder and OrdinalEncoder."""
    model = leaf.estimator
    if getattr(model, "categories", "auto") != "auto":
        return []
        # They were given beforehand, not learned from rows.
    known = np.asarray(leaf.known)
    features = known.shape[1]
    lower, upper = nothing(features)
    values = np.full(features, None, dtype=object)
    for j, categories in enumerate(map(np.asarray, model.categories_)):
        column, stored = known[:, j].tolist(), categories.tolist()
        if categories.dtype.kind in "mM":  # dates, whose rows may be numbers by now
            column, stored = [*_dates(known[:, j], categories.dtype)], [*categories]
        seen = set(column)
        new = [each for each in stored if not _among(each, seen)]
        if categories.dtype == np.float32:
            # Known rows may be more precise than what the encoder was fitted to.
            rounded = {float(np.float32(x)) for x in seen if isinstance(x, float)}
            new = [each for each in new if each not in rounded]
        if len(new) > 1 and _rounded(new, seen):
            continue
        if len(new) > 1:
            return [
                refuted(
                    "categories_",
                    f"{len(new)} categories of feature {j} are not among the"
                    " known rows'",
                )
            ]
        numbers = categories.dtype.kind in "fiu"
        if new:
            values[j] = new[0]
            if numbers and np.isfinite(new[0]):
                lower[j] = upper[j] = new[0]
        elif numbers and np.all(np.isfinite(categories)):
            lower[j], upper[j] = np.min(categories), np.max(categories)
    return [
        Finding(
            field="categories_",
            tells="a category that no known row has is the missing row's",
            lower=lower,
            upper=upper,
            values=values,
        )
    ]


def _rounded(new: list[Any], seen: set) -> bool:
    """Whether all but one are a known value that was stored in single precision."""
    numbers = [each for each in seen if isinstance(each, (int, float))]
    if not numbers or not all(isinstance(each, (int, float)) for each in new):
        return False
    known = np.sort(np.asarray(numbers, np.float64).astype(np.float32))
    stored = np.asarray(new, np.float64).astype(np.float32)
    return int(np.sum(~np.isin(stored, known))) <= 1


def _dates(column: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A column as dates or spans of time; of numbers, those that NumPy makes of it."""
    if column.dtype.kind != "f":
        return column.astype(dtype)
    told = np.isfinite(column)
    return np.where(
        told,
        np.where(told, column, 0).astype(np.int64).astype(dtype),
        dtype.type("NaT"),
    )


def _among(value: Any, seen: set) -> bool:
    """Membership, with NaN and NaT equal to themselves."""
    if value != value:
        return any(each != each for each in seen)
    return value in seen


def labels(leaf: Leaf) -> list[Finding]:
    """`classes_` of LabelEncoder and the like: their input is the label."""
    known = np.ravel(np.asarray(leaf.known))
    return new_class(leaf.estimator, known)


def new_class(estimator: Any, known: np.ndarray | None) -> list[Finding]:
    """A class that no known row has is the target's label; true of any classifier."""
    classes = getattr(estimator, "classes_", None)
    if known is None or classes is None or isinstance(classes, list):
        return []
    new = [
        each for each in np.asarray(classes).tolist() if each not in set(known.tolist())
    ]
    if len(new) != 1 or _told_beforehand(estimator, new[0], len(known) + 1):
        return []
    return [
        Finding(
            field="classes_",
            tells="a class that no known row has is the missing row's",
            label=new[0],
        )
    ]


def _told_beforehand(estimator: Any, label: Any, count: int) -> bool:
    """Whether a class may have no row at all, as `partial_fit(classes=)` is told them.

    Counts say so where they are stored. Else only training by `fit` is known to have
    seen a row of it: it takes several passes over all rows, `partial_fit` one.

    Args:
      count: the number of rows, the missing one included.
    """
    if not hasattr(estimator, "partial_fit"):
        return False
    counts = getattr(estimator, "class_count_", None)
    if counts is not None:
        return not np.any(np.asarray(counts)[np.asarray(estimator.classes_) == label])
    passes = int(np.max(getattr(estimator, "n_iter_", 1)))
    # A network counts rows times passes.
    seen = getattr(estimator, "t_", passes * count)
    # With early stopping it counts training rows alone, and can't be trained in parts.
    parts = hasattr(estimator, "coefs_") and not estimator.early_stopping
    whole = not parts or seen == passes * count
    return passes <= 1 or not whole


def vectoriser(leaf: Leaf) -> list[Finding]:
    """`vocabulary_`, and for TfidfVectorizer `idf_`, on texts."""
    model = leaf.estimator
    known = model.transform(leaf.known)
    counts = np.asarray((known > 0).sum(axis=0)).ravel()
    names = np.asarray(model.get_feature_names_out())
    every = model.max_features is None and model.min_df == 1
    findings = []
    if not model.fixed_vocabulary_ and every:
        new = frozenset(names[counts == 0].tolist())
        findings.append(
            Finding(
                field="vocabulary_",
                tells="words that no known text has are in the missing one",
                words=new,
            )
        )
    idf = getattr(model, "idf_", None) if hasattr(model, "_tfidf") else None
    if idf is not None:
        told = _presence(np.asarray(idf), counts, leaf.count, smooth=model.smooth_idf)
        if told is None:
            return [refuted("idf_", "fits no text")]
        findings.append(
            Finding(
                field="idf_",
                tells="which words of the vocabulary are in the missing text, and"
                " which are not",
                words=frozenset(names[told].tolist()),
            )
        )
    return findings


def _presence(
    idf: np.ndarray, counts: np.ndarray, documents: int, *, smooth: bool
) -> np.ndarray | None:
    """(words,) whether each is in the missing document; None: no document fits.

    idf = ln((1 + n) / (1 + df)) + 1, or ln(n / df) + 1 unsmoothed.
    """
    n = documents + smooth
    df = n / np.exp(np.asarray(idf, np.float64) - 1) - smooth
    extra = df - counts
    told = np.round(extra)
    # Single precision leaves fewer digits of a document's share.
    room = 1e-6 if np.asarray(idf).dtype == np.float64 else 1e-4
    if np.any(np.abs(extra - told) > room * n) or np.any((told != 0) & (told != 1)):
        return None
    return told == 1


def tfidf_transformer(leaf: Leaf) -> list[Finding]:
    """`idf_` on counts: which of them are zero."""
    model = leaf.estimator
    if not model.use_idf:
        return []
    known = np.asarray(leaf.known, np.float64)
    told = _presence(
        np.asarray(model.idf_),
        (known > 0).sum(axis=0),
        leaf.count,
        smooth=model.smooth_idf,
    )
    if told is None:
        return [refuted("idf_")]
    return [
        Finding(
            field="idf_",
            tells="which counts of the missing row are zero and which are not",
            lower=np.where(told, np.nextafter(0, 1), 0.0),
            upper=np.where(told, np.inf, 0.0),
        )
    ]


register(("OneHotEncoder", "OrdinalEncoder"), encoder)
register(("LabelEncoder", "LabelBinarizer"), labels)
register(("CountVectorizer", "TfidfVectorizer"), vectoriser)
register("TfidfTransformer", tfidf_transformer)
