"""Several missing rows, one after another.

Of k missing rows a layer of k outputs or more shows all directions. Those points of
their span that lie along one random direction hold a multiple of every row, and what
completes a single row completes one of them. It is known from then on.
"""

import dataclasses
from typing import Any

import numpy as np

from informed.attacks.span import columns as values
from informed.attacks.span import single, uniqueness
from informed.attacks.span.basis import dense
from informed.attacks.span.completion import Completion
from informed.attacks.span.direction import Direction

# Random directions that are tried in a row without finding any. Of genotypes four in
# ten find one, of documents nine in ten; a document that is lost costs all of them.
_TRIES = 15


def complete_all(direction: Direction, known: Any) -> list[Completion]:
    """All missing rows, as far as they are found.

    Args:
      direction: of any number of missing rows.
      known: (known, features), the rows that its basis was made of.
    Returns: those that are found, at most one a missing row, in no order; certified if
      all of them are. Where one output may mix two rows, both or none, or what
      `complete` says of a single one.
    """
    if direction.rank == 1:
        one = single.complete(direction, known)
        return [] if one is None else [one]
    rng, found = np.random.default_rng(0), []
    left, here = direction, known
    since = 0
    while since < _TRIES:
        since += 1
        along = rng.standard_normal(left.rank)
        last = left.rank == 1
        one = single.complete(
            left if last else left.sliced(along / np.linalg.norm(along)), here
        )
        if one is not None and one.certified:
            found.append(one)
            since = 0
            if last:
                break
            left, here = left.without(here, one.row)
        elif last:
            break
    return _together(found, direction, known)


def _together(
    found: list[Completion], direction: Direction, known: Any
) -> list[Completion]:
    """Rows count together: those that aren't found may be mixed into the others."""
    count = direction.rank
    why = ""
    if len(found) < count:
        why = f"{len(found)} of {count} missing rows are found, which may be mixed with"
        why += " the others"
    elif direction.equal(np.stack([one.row for one in found])):
        why = "training gave rows equal weight: one of these may be the sum of two"
    elif not _apart(found, known):
        why = "known rows make other rows of them that may be as good"
    if not why:
        return found
    return [dataclasses.replace(one, certified=False, why=why) for one in found]


def _apart(found: list[Completion], known: Any) -> bool:
    """Whether no row of whole numbers is another one plus and less known ones."""
    if not any(one.by == "levels" for one in found):
        return True
    rows = np.asarray(dense(known), np.float64)
    columns = values.of(rows)
    assert columns is not None
    grid = columns.discrete
    every = np.vstack([rows, *(one.row for one in found)])[:, grid]
    return not any(
        uniqueness.possible(
            one.row[grid], np.delete(every, len(rows) + at, axis=0), columns.part(grid)
        )
        for at, one in enumerate(found)
        if one.by == "levels"
    )
