"""Categories that columns of an encoding, or codes, tell of a row."""

from typing import Any

import numpy as np

from artefacts.findings import Box, nothing
from artefacts.registry import register


def codes(encoder: Any, j: int) -> np.ndarray:
    """The category that each code of feature j stands for; -1: several rare ones."""
    mappings = getattr(encoder, "_default_to_infrequent_mappings", None)
    mapping = None if mappings is None else mappings[j]
    if mapping is None:
        return np.arange(len(encoder.categories_[j]))
    mapping = np.asarray(mapping)
    shared = np.bincount(mapping)
    found = np.full(len(shared), -1)
    alone = shared[mapping] == 1
    found[mapping[alone]] = np.flatnonzero(alone)
    return found


def one_hot_columns(encoder: Any) -> list[np.ndarray]:
    """Of each feature the categories that have a column of the output; see `codes`."""
    found = []
    for j in range(len(encoder.categories_)):
        kept, dropped = codes(encoder, j), _dropped(encoder, j)
        found.append(kept if dropped is None else np.delete(kept, dropped))
    return found


def _dropped(encoder: Any, j: int) -> int | None:
    """The code of feature j that has no column."""
    dropped = encoder.drop_idx_
    if getattr(encoder, "_infrequent_enabled", False):
        dropped = encoder._drop_idx_after_grouping
    return None if dropped is None else dropped[j]


def dropped_category(encoder: Any, j: int) -> int:
    """The category of feature j that has no column; -1: rare ones have none."""
    return int(codes(encoder, j)[int(_dropped(encoder, j) or 0)])


def dropped_is_zero(encoder: Any, j: int) -> bool:
    """Whether all zeros stand for the category of feature j that has no column.

    Where categories were given, not learned, they may stand for an unknown one.
    """
    if _dropped(encoder, j) is None:
        return False
    learned = isinstance(encoder.categories, str)
    return learned or encoder.handle_unknown == "error"


def _ones(encoder: Any, bounds: Box) -> list[int]:
    """OneHotEncoder: a column that is surely one; where all are zero, the dropped."""
    found, at = [], 0
    for j, kept in enumerate(one_hot_columns(encoder)):
        here = slice(at, at + len(kept))
        at += len(kept)
        ones, zeros = bounds[0][here] > 0.5, bounds[1][here] < 0.5
        if ones.sum() == 1:
            found.append(int(kept[ones][0]))
        elif zeros.all() and dropped_is_zero(encoder, j):
            found.append(dropped_category(encoder, j))
        else:
            found.append(-1)
    return found


def _codes(encoder: Any, bounds: Box) -> list[int]:
    """OrdinalEncoder: a code that is told, as no other whole number is possible."""
    found = []
    for j in range(len(encoder.categories_)):
        stands = codes(encoder, j)
        low, high = np.ceil(bounds[0][j] - 1e-6), np.floor(bounds[1][j] + 1e-6)
        one = low == high and 0 <= low < len(stands)
        found.append(int(stands[int(low)]) if one else -1)
    return found


def categories(encoder: Any, bounds: Box) -> np.ndarray:
    """The category of each feature that the encoding tells for certain.

    The row that is missing was one that the encoder was fitted to: where categories
    were learned they are known ones, whatever the encoder does with unknown ones.
    """
    found = np.full(len(encoder.categories_), None, dtype=object)
    for j, at in enumerate(CODES[type(encoder).__name__](encoder, bounds)):
        if at >= 0:
            told = np.asarray(encoder.categories_[j])[at]
            # A missing value isn't told by a name.
            found[j] = told if isinstance(told, str) or told == told else None
    return found


def _one_hot(encoder: Any, bounds: Box, features: int) -> Box:
    """A column that is surely one names the category, if categories are numbers."""
    lower, upper = nothing(features)
    for j, at in enumerate(_ones(encoder, bounds)):
        named = np.asarray(encoder.categories_[j])
        if at >= 0 and named.dtype.kind in "fiu" and np.all(np.isfinite(named)):
            lower[j] = upper[j] = named[at]
    return lower, upper


def _ordinal(encoder: Any, bounds: Box, features: int) -> Box | None:
    """A code names the category, if categories are numbers."""
    lower, upper = nothing(features)
    for j, each in enumerate(encoder.categories_):
        named = np.asarray(each)
        if named.dtype.kind not in "fiu" or not np.all(np.isfinite(named)):
            continue
        low, high = bounds[0][j], bounds[1][j]
        ranks = codes(encoder, j)
        # Codes of rare categories come last, and grouped ones have no order.
        if not np.array_equal(ranks, np.arange(len(named))):
            code = np.ceil(low - 1e-6)
            one = code == np.floor(high + 1e-6) and 0 <= code < len(ranks)
            if one and ranks[int(code)] >= 0:
                lower[j] = upper[j] = named[ranks[int(code)]]
            continue
        if np.isfinite(low) and low > -0.5:
            lower[j] = named[min(int(np.ceil(low - 1e-6)), len(named) - 1)]
        if np.isfinite(high) and high > -0.5:
            upper[j] = named[min(int(np.floor(high + 1e-6)), len(named) - 1)]
    return lower, upper


CODES = {"OneHotEncoder": _ones, "OrdinalEncoder": _codes}
register("OneHotEncoder", inverse=_one_hot)
register("OrdinalEncoder", inverse=_ordinal)
