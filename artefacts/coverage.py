"""Which features of the whole a leaf's certificate is of: those it tells apart.

A certificate says that what is stored comes out again with a row put back. Behind steps
that forget it says so of what they leave alone.
"""

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from artefacts import walk
from artefacts.inverse import exactly
from artefacts.walk import Site

# Known rows on which it is tried whether anything of a feature comes back, and words
# that are put in its place.
_FEW, _WORDS = 16, 8
# Known rows that are carried back to see what a leaf tells apart; their values, and the
# share of a column's spread from which on two of these differ.
_TRIED, _VALUES, _DIFFERS = 256, 500_000, 1e-9


def covered(site: Site, whole: Any) -> np.ndarray | None:
    """Features of the whole that a leaf's certificate is of; None: that isn't known.

    Of those that it was fitted to by way of other steps, the ones of which it tells
    known values apart. Behind a selector, bins, fewer components or a group of rare
    categories another value would have given the leaf the same rows.

    Args:
      site: the leaf's.
      whole: the known rows as the whole got them.
    """
    if site.reach is None or site.columns is not None or not site.features:
        return site.reach
    count = max(2, min(_TRIED, _VALUES // site.features))
    rows = np.asarray(walk.dense(site.leaf.known[:count]), object)
    values = np.asarray(walk.dense(whole[:count]), object)
    if values.shape != (len(rows), site.features):
        return site.reach[:0]  # of some of the rows, or of texts
    told = [_told(site, row) for row in rows]
    apart = [_all_apart([each[j] for each in told], values[:, j]) for j in site.reach]
    return site.reach[np.array(apart, bool)]


def hidden(site: Site, whole: Any) -> np.ndarray:
    """Features that reach a leaf by steps that carry nothing of them back.

    Args:
      site: the leaf's.
      whole: the known rows as the whole got them.
    """
    nothing = np.zeros(0, int)
    if site.reach is None or site.columns is not None or not site.features:
        return nothing
    known = site.leaf.known
    rows = np.asarray(walk.dense(known[:_FEW]), object)
    values = np.asarray(walk.dense(whole[:_FEW]), object)
    counts = {each.shape[0] for each in (known, whole) if hasattr(each, "shape")}
    if values.shape != (len(rows), site.features) or len(counts) > 1:
        return nothing  # of some of the rows, or of texts
    told = [_told(site, row) for row in rows]
    silent = [int(j) for j in site.reach if all(each[j] in _SILENT for each in told)]
    found = [
        j
        for j in silent
        if _reaches(site, values, j, _safe_indexing(whole, [j], axis=1))
    ]
    return np.array(found, int)


# What `_told` gives where nothing is told of a feature: bounds, and a name.
_SILENT = {
    (lower, upper, name)
    for lower, upper in ((None, None), (-np.inf, np.inf))
    for name in (None, "None")
}


def _reaches(site: Site, values: np.ndarray, j: int, whole: Any) -> bool:
    """Whether a leaf's rows depend on a feature, tried on some known rows.

    Args:
      values: these, as the whole got them.
      whole: the feature of all known rows.
    """
    column = np.asarray(walk.dense(whole), object)[:, 0]
    try:
        numbers = column.astype(np.float64)
        numbers = np.append(numbers[np.isfinite(numbers)], 0.0)
        low, high = float(numbers.min()), float(numbers.max())
        others: list[Any] = [low, high, low - 1, high + 1]
    except (ValueError, TypeError):  # words
        others = list({str(each): each for each in column}.values())[:_WORDS]
    for other in others:
        moved = values.copy()
        moved[:, j] = other
        try:
            made = (walk.dense(site.forward(each)) for each in (values, moved))
            one, two = (np.asarray(each, object).astype(str) for each in made)
        except Exception:  # of anybody's step; what can't be tried may depend on it
            return True
        if not np.array_equal(one, two):
            return True
    return False


def _told(site: Site, row: np.ndarray) -> list[tuple]:
    """What comes back of each feature, of a row as the leaf gets it."""
    exact = exactly(row)
    lower, upper = (None, None) if exact.bounds is None else site.carried(*exact.bounds)
    named = site.back(exact).values
    blank = [None] * site.features
    return list(
        zip(
            blank if lower is None else lower.tolist(),
            blank if upper is None else upper.tolist(),
            blank if named is None else [str(each) for each in named],
            strict=True,
        )
    )


def _all_apart(told: list[tuple], values: np.ndarray) -> bool:
    """Whether no two values of a feature are told alike; missing ones aside."""
    groups: dict[tuple, list[Any]] = {}
    for key, value in zip(told, values, strict=True):
        if value is not None and value == value:
            groups.setdefault(key, []).append(value)
    try:
        room = _DIFFERS * float(np.nanstd(np.asarray(values, np.float64)))
        return all(max(each) - min(each) <= room for each in groups.values())
    except (ValueError, TypeError):  # words, or dates
        return all(len(set(map(str, each))) == 1 for each in groups.values())
