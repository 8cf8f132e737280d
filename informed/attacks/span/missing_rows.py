"""Complete directions to one or several missing rows, by the method for their columns.

A direction is a row's part off the known rows' span, up to a factor. The methods are
`lattice` for discrete columns and `bag_of_words` for sparse non-negative rows, or both
in turn. `linear_fit` and `span_attack` complete one row; `complete_all` is for users
who miss k rows. A layer of k outputs or more shows the span of their directions, unless
rows have equal weight. Its points along one random direction contain a multiple of
every missing row, so completing a single row finds one of them. It then counts as
known, and we repeat.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import sparse

from informed.attacks.span import bag_of_words, lattice, uniqueness
from informed.attacks.span import columns as values
from informed.attacks.span.basis import dense
from informed.attacks.span.completion import Completion
from informed.attacks.span.direction import Direction

# Non-negative rows with at least this share of zeros count as bags of words.
_SPARSE = 0.8
# If all values are below this, rounding is tried before sparsity: genotypes suit both,
# and rounding takes a tenth of the time.
_FEW_LEVELS = 8
# Largest value tried for the smallest word count; most documents have a word once.
_LARGEST_LEAST = 4
# Number of words that must come out as whole numbers, to six digits each.
_ENOUGH = 8
# Largest number of entries of rows that are handled as a dense array: half a GiB.
_LARGEST = 1 << 26
# Random directions to try in a row without success. Each succeeds in four of ten cases
# for genotypes, in nine of ten for documents.
_TRIES = 15


def complete(direction: Direction, known: Any) -> Completion | None:
    """Complete one missing row by levels or by sparsity.

    Args:
      direction: the direction of one missing row.
      known: (known, features), the rows that span its basis.
    Returns: a certified completion if there is one, else that of the method tried
      first; None: no method gives a row.
    """
    entries = known.data if sparse.issparse(known) else np.asarray(known)
    entries = entries[entries != 0]
    size = known.shape[0] * known.shape[1]
    ways = [lattice.complete] if size <= _LARGEST else []
    if known.min() >= 0 and len(entries) <= (1 - _SPARSE) * size:
        few = (entries == np.round(entries)).all() and entries.max() < _FEW_LEVELS
        ways = [*ways, _by_sparsity] if few else [_by_sparsity, *ways]
    first = None
    for way in ways:
        completion = way(direction, known)
        if completion is not None and completion.certified:
            return completion
        first = first or completion
    return first


def complete_all(direction: Direction, known: Any) -> list[Completion]:
    """Complete as many missing rows as possible.

    Args:
      direction: the directions of any number of missing rows.
      known: (known, features), the rows that span its basis.
    Returns: at most one completion per missing row, unordered; all or none certified,
      as the reasons below say. For a single direction, the result of `complete`.
    """
    if direction.rank == 1:
        single = complete(direction, known)
        return [] if single is None else [single]
    rng = np.random.default_rng(0)
    completed: list[Completion] = []
    rest, rows, tries = direction, known, 0
    while tries < _TRIES:
        tries += 1
        along = rng.standard_normal(rest.rank)
        last = rest.rank == 1
        single = complete(
            rest if last else rest.sliced(along / np.linalg.norm(along)), rows
        )
        if single is not None and single.certified:
            completed.append(single)
            tries = 0
            if last:
                break
            rest, rows = rest.without(rows, single.row)
        elif last:
            break
    # Certify all or none: rows that aren't completed may be mixed into the others.
    why = ""
    if len(completed) < direction.rank:
        why = f"{len(completed)} of {direction.rank} missing rows are found, which may"
        why += " be mixed with the others"
    elif direction.equal(np.stack([completion.row for completion in completed])):
        why = "training gave rows equal weight: one of these may be the sum of two"
    elif not _apart(completed, known):
        why = "known rows make other rows of them that may be as good"
    if not why:
        return completed
    return [dataclasses.replace(c, certified=False, why=why) for c in completed]


def _apart(completed: list[Completion], known: Any) -> bool:
    """Return whether no integer row is another one plus or minus known ones."""
    if not any(completion.by == "levels" for completion in completed):
        return True
    rows = np.asarray(dense(known), np.float64)
    columns = values.of(rows)
    assert columns is not None
    grid = columns.discrete
    every = np.vstack([rows, *(completion.row for completion in completed)])[:, grid]
    return not any(
        uniqueness.possible(
            completion.row[grid],
            np.delete(every, len(rows) + at, axis=0),
            columns.part(grid),
        )
        for at, completion in enumerate(completed)
        if completion.by == "levels"
    )


def _by_sparsity(direction: Direction, known: Any) -> Completion | None:
    """Complete a bag of words, at the known rows' length if they share one."""
    bag = bag_of_words.complete(direction)
    if bag is None:
        return None
    bag, counted = _scaled(bag, known)
    # `complete_all` certifies several missing rows together.
    single = direction.outputs.shape[1] == 1
    equal = bag.certified and single and direction.equal(bag.row[None])
    if (direction.alone or counted) and not equal:
        return bag
    why = f"{bag.why}; but it may be the sum of several rows"
    return dataclasses.replace(bag, certified=False, why=why)


def _scaled(bag: Completion, known: Any) -> tuple[Completion, bool]:
    """Scale counts to whole numbers, other rows to the length that known rows share.

    Returns: the scaled row; whether it consists of whole numbers.
    """
    if sparse.issparse(known):
        lengths = np.sqrt(np.asarray(known.multiply(known).sum(axis=1))).ravel()
        entries = known.data
    else:
        lengths = np.linalg.norm(known, axis=1)
        entries = np.asarray(known)[np.asarray(known) != 0]
    lengths = lengths[lengths > 0]
    if not (entries == np.round(entries)).all():
        if np.ptp(lengths) <= 1e-6 * lengths.max():
            row = bag.row * float(lengths.mean())
            premise = f"{bag.premise}, and it is as long as each known row"
            return dataclasses.replace(bag, row=row, premise=premise), False
        why = f"{bag.why}; but only up to its length, since known rows have several"
        return dataclasses.replace(bag, certified=False, why=why), False
    there = bag.row[bag.row > 0]
    for least in range(1, _LARGEST_LEAST + 1):
        counts = bag.row * (least / there.min())
        if np.abs(counts - np.round(counts)).max() <= 1e-6 * counts.max():
            premise = f"{bag.premise}, and all are whole numbers, as small as can be"
            bag = dataclasses.replace(
                bag, row=np.round(counts), error=0.0, premise=premise
            )
            return bag, len(there) >= _ENOUGH
    why = f"{bag.why}; but no factor makes its entries whole numbers"
    return dataclasses.replace(bag, certified=False, why=why), False
