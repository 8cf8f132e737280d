"""From a direction to a row, by whatever the known rows are made of."""

import dataclasses
from typing import Any

import numpy as np
from scipy import sparse as matrices

from informed.attacks.span import levels, sparse
from informed.attacks.span.completion import Completion
from informed.attacks.span.direction import Direction

# Share of zeros from which rows that aren't negative are taken for bags of words.
_SPARSE = 0.8
# Range of whole numbers up to which rounding is tried before sparsity: genotypes are
# both, and rounding takes a tenth of the time.
_FEW_LEVELS = 8
# The least count of any word, at most: documents have a word that stands there once.
_LARGEST_LEAST = 4
# Words that have to come out as whole numbers together: six digits each.
_ENOUGH = 8
# Entries up to which rows are looked at as a whole, and as an array: half a GiB.
_LARGEST = 1 << 26


def complete(direction: Direction, known: Any) -> Completion | None:
    """The missing row, completed by levels or by sparsity.

    Args:
      direction: of one missing row.
      known: (known, features), the rows that its basis was made of.
    Returns: the certified one; of those that aren't the one that was tried first; None:
      the known rows are neither discrete nor sparse.
    """
    found = []
    for way in _ways(known):
        completion = way(direction, known)
        if completion is not None:
            found.append(completion)
            if completion.certified:
                return completion
    return found[0] if found else None


def _ways(known: Any) -> list[Any]:
    entries = known.data if matrices.issparse(known) else np.asarray(known)
    entries = entries[entries != 0]
    size = known.shape[0] * known.shape[1]
    bag = known.min() >= 0 and len(entries) <= (1 - _SPARSE) * size
    by_levels = [levels.complete] if size <= _LARGEST else []
    if not bag:
        return by_levels
    few = (entries == np.round(entries)).all() and entries.max() < _FEW_LEVELS
    return [*by_levels, _by_sparsity] if few else [_by_sparsity, *by_levels]


def _by_sparsity(direction: Direction, known: Any) -> Completion | None:
    """A bag of words, whose length is the known rows' where they share one."""
    found = sparse.complete(direction)
    if found is None:
        return None
    found, whole = _scaled(found, known)
    # Several missing rows are looked at together (`several`).
    single = direction.outputs.shape[1] == 1
    equal = found.certified and single and direction.equal(found.row[None])
    if (direction.alone or whole) and not equal:
        return found
    return dataclasses.replace(
        found,
        certified=False,
        why=f"{found.why}; but it may be the sum of several rows",
    )


def _scaled(found: Completion, known: Any) -> tuple[Completion, bool]:
    """Counts are whole numbers; other rows have the length that known rows share.

    Returns: the row at its length; whether it is one of whole numbers.
    """
    if matrices.issparse(known):
        lengths = np.sqrt(np.asarray(known.multiply(known).sum(axis=1))).ravel()
        entries = known.data
    else:
        lengths = np.linalg.norm(known, axis=1)
        entries = np.asarray(known)[np.asarray(known) != 0]
    lengths = lengths[lengths > 0]
    if not (entries == np.round(entries)).all():
        if np.ptp(lengths) <= 1e-6 * lengths.max():
            row = found.row * float(lengths.mean())
            premise = f"{found.premise}, and it is as long as each known row"
            return dataclasses.replace(found, row=row, premise=premise), False
        why = f"{found.why}; but only up to its length, since known rows have several"
        return dataclasses.replace(found, certified=False, why=why), False
    there = found.row[found.row > 0]
    for least in range(1, _LARGEST_LEAST + 1):
        counts = found.row * (least / there.min())
        if np.abs(counts - np.round(counts)).max() <= 1e-6 * counts.max():
            enough = len(there) >= _ENOUGH
            premise = f"{found.premise}, and all are whole numbers, as small as can be"
            counts = np.round(counts)
            found = dataclasses.replace(found, row=counts, error=0.0, premise=premise)
            return found, enough
    why = f"{found.why}; but no factor makes its entries whole numbers"
    return dataclasses.replace(found, certified=False, why=why), False
