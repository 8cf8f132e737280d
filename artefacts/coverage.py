"""Which features of the whole a leaf's certificate is of: those it tells apart.

A certificate says that what is stored comes out again with a row put back. Behind steps
that forget it says so of what they leave alone.
"""

from typing import Any

import numpy as np

from artefacts import walk
from artefacts.inverse import exactly
from artefacts.walk import Site

# Known rows on which it is tried whether anything of a feature comes back.
_FEW = 16
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
    rows = np.asarray(walk.dense(site.leaf.known[:_FEW]), object)
    values = np.asarray(walk.dense(whole[:_FEW]), object)
    if values.shape != (len(rows), site.features):
        return nothing  # of some of the rows, or of texts
    told = [_told(site, row) for row in rows]
    silent = [int(j) for j in site.reach if all(each[j] in _SILENT for each in told)]
    found = [j for j in silent if _reaches(site, values, j)]
    return np.array(found, int)


# What `_told` gives where nothing is told of a feature: bounds, and a name.
_SILENT = {
    (lower, upper, name)
    for lower, upper in ((None, None), (-np.inf, np.inf))
    for name in (None, "None")
}


def _reaches(site: Site, values: np.ndarray, j: int) -> bool:
    """Whether a leaf's rows depend on a feature, tried by moving it by one row."""
    moved = values.copy()
    moved[:, j] = np.roll(values[:, j], 1)
    try:
        made = (
            np.asarray(walk.dense(site.forward(v)), object) for v in (values, moved)
        )
        one, other = (each.astype(str) for each in made)
        return not np.array_equal(one, other)
    except Exception:  # a step of anybody's; what can't be tried may depend on it
        return True


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
