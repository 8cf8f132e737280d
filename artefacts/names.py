"""Categories that a transformer's output names, as values of its input.

`inverse` carries numbers back. A column of words comes back by name: as the category
whose column of an encoding is surely one, or whose code is told.
"""

from typing import Any

import numpy as np

from artefacts import inverse
from artefacts.findings import Box


def pull(
    transformer: Any, bounds: Box | None, values: np.ndarray | None, features: int
) -> np.ndarray | None:
    """Values of the input from those of the output; None: nothing comes back by name.

    Args:
      transformer: a fitted transformer; "passthrough" and None are the identity.
      bounds: (outputs,) each, bounds of the output; None: nothing is told of numbers.
      values: (outputs,) object, values of the output by name, None where nothing is
        told; None: nothing is told.
      features: how many features the transformer's input has.
    Returns: (features,) object, None where nothing is told.
    """
    if transformer is None or transformer == "passthrough":
        return values
    kind = type(transformer).__name__
    if kind == "FrozenEstimator":
        return pull(transformer.estimator, bounds, values, features)
    if kind in _CODES:
        return None if bounds is None else _categories(transformer, bounds, kind)
    if kind in _PARTS:
        return _PARTS[kind](transformer, bounds, values, features)
    if values is None:
        return None
    if kind == "SimpleImputer":
        return _imputed(transformer, values, features)
    if hasattr(transformer, "get_support"):
        return placed(values, transformer.get_support(), features)
    return None


def placed(values: np.ndarray, at: np.ndarray, features: int) -> np.ndarray:
    """Values at some places of a row of which nothing else is told."""
    found = np.full(features, None, dtype=object)
    found[at] = values
    return found


def _categories(encoder: Any, bounds: Box, kind: str) -> np.ndarray | None:
    """The category of each feature that the encoding tells for certain.

    The row that is missing was one that the encoder was fitted to: where categories
    were learned they are known ones, whatever the encoder does with unknown ones.
    """
    found = np.full(len(encoder.categories_), None, dtype=object)
    for j, at in enumerate(_CODES[kind](encoder, bounds)):
        if at is not None and at >= 0:
            told = np.asarray(encoder.categories_[j])[at]
            # A missing value isn't told by a name.
            found[j] = told if isinstance(told, str) or told == told else None
    return found


def _ones(encoder: Any, bounds: Box) -> list[int | None]:
    """OneHotEncoder: a column that is surely one; where all are zero, the dropped."""
    places, at = inverse.one_hot_columns(encoder), 0
    found: list[int | None] = []
    for j, kept in enumerate(places):
        here = slice(at, at + len(kept))
        at += len(kept)
        ones, zeros = bounds[0][here] > 0.5, bounds[1][here] < 0.5
        if ones.sum() == 1:
            found.append(int(kept[ones][0]))
        elif zeros.all() and inverse.dropped_is_zero(encoder, j):
            found.append(inverse.dropped_category(encoder, j))
        else:
            found.append(None)
    return found


def _codes(encoder: Any, bounds: Box) -> list[int | None]:
    """OrdinalEncoder: a code that is told, as no other whole number is possible."""
    found: list[int | None] = []
    for j in range(len(encoder.categories_)):
        stands = inverse.codes(encoder, j)
        low, high = np.ceil(bounds[0][j] - 1e-6), np.floor(bounds[1][j] + 1e-6)
        one = low == high and 0 <= low < len(stands)
        found.append(int(stands[int(low)]) if one else None)
    return found


def _imputed(imputer: Any, values: np.ndarray, features: int) -> np.ndarray:
    """Identity, but what equals the statistic may have been missing."""
    statistics = np.asarray(imputer.statistics_, dtype=object)
    kept = np.array([each == each for each in statistics], bool)
    kept |= imputer.keep_empty_features
    found = placed(values[: kept.sum()], kept, features)
    for j, told in enumerate(found):
        if told is not None and told == statistics[j]:
            found[j] = None
    return found


def _columns(
    transformer: Any, bounds: Box | None, values: np.ndarray | None, features: int
) -> np.ndarray:
    """Every part has its slice of the output and its columns of the input."""
    found = np.full(features, None, dtype=object)
    for name, part, _ in transformer.transformers_:
        out = transformer.output_indices_.get(name)
        if part == "drop" or out is None or out.start == out.stop:
            continue
        columns = inverse.columns_of(transformer, name)
        told = pull(part, *_cut(bounds, values, out), len(columns))
        if told is not None:
            found[columns] = _first(told, found[columns])
    return found


def _union(
    union: Any, bounds: Box | None, values: np.ndarray | None, features: int
) -> np.ndarray:
    """Parts whose output width is known from their features."""
    found, at = np.full(features, None, dtype=object), 0
    for _, part in union.transformer_list:
        width = 0 if part == "drop" else inverse.width(part, features)
        if width is None:
            break
        told = pull(part, *_cut(bounds, values, slice(at, at + width)), features)
        at += width
        if told is not None:
            found = _first(told, found)
    return found


def _chain(
    pipeline: Any, bounds: Box | None, values: np.ndarray | None, features: int
) -> np.ndarray | None:
    """Backwards through the steps."""
    for step, width in inverse.backwards(pipeline, features):
        if width is None:
            return None
        values = pull(step, bounds, values, width)
        bounds = None if bounds is None else inverse.pull(step, bounds, width)
    return values


def _cut(
    bounds: Box | None, values: np.ndarray | None, out: slice
) -> tuple[Box | None, np.ndarray | None]:
    """What is told of a part's outputs."""
    own = None if bounds is None else (bounds[0][out], bounds[1][out])
    return own, None if values is None else values[out]


def _first(told: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Value by value what is told, and where nothing is, the other."""
    missing = np.array([each is None for each in told], bool)
    return np.where(missing, otherwise, told)


_CODES = {"OneHotEncoder": _ones, "OrdinalEncoder": _codes}
_PARTS = {"ColumnTransformer": _columns, "FeatureUnion": _union, "Pipeline": _chain}
