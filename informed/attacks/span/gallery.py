"""From a direction to a name: which row of a gallery lies on it."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from informed.attacks.span.basis import EPS, dense
from informed.attacks.span.completion import SURE
from informed.attacks.span.direction import Direction

# Of a row's length: one that is nearer to the span of the known rows has no direction.
_THERE = 1e-6
# Errors of the direction within which a row counts as lying on it. The tests have the
# sine below its estimate; ten of them leave room for training that rounds more.
_WITHIN = 10.0
# Sines that say nothing, however many equations there are: rows aren't random.
_COARSE = 0.1
# Rows that are projected together.
_BLOCK = 2048


class Ranking(NamedTuple):
    """A gallery, ranked.

    Attributes:
      order: (rows,), positions, the nearest first.
      sines: (rows,), of each row of the gallery: the sine of the angle between what it
        has off the span and the direction; 1 where it has nothing there.
      names: positions of the rows that lie on the direction, as far as it is known;
        empty: none of the gallery is the missing row.
    """

    order: Int[np.ndarray, " rows"]
    sines: Float[np.ndarray, " rows"]
    names: Int[np.ndarray, " named"]


def rank(direction: Direction, gallery: Any) -> Ranking:
    """Rank rows by the angle to what is missing.

    With several missing rows a row belongs to them if it lies in what they span.

    Args:
      gallery: (rows, features), candidates as the layer gets them; an array or a sparse
        matrix.
    Returns: names hold no row unless the angle is within the direction's error, and a
      random one wouldn't be; equal rows, multiples of one another, and rows that differ
      by a combination of known ones share a name.
    """
    sines = np.ones(gallery.shape[0])
    for at in range(0, len(sines), _BLOCK):
        rows = np.asarray(dense(gallery[at : at + _BLOCK]), np.float64)
        scaled = rows / direction.basis.scale
        off = direction.basis.off(scaled)
        length = np.linalg.norm(off, axis=1)
        along = off @ direction.vectors.T
        rest = np.linalg.norm(off - along @ direction.vectors, axis=1)
        there = length > _THERE * np.linalg.norm(scaled, axis=1)
        sines[at : at + _BLOCK] = np.where(
            there, rest / np.where(there, length, 1.0), 1.0
        )
    # An error that doesn't rule out one of as many random rows names nobody.
    within = max(_WITHIN * direction.error, EPS)
    names = np.flatnonzero(sines <= within)
    by_chance = np.log10(max(len(sines), 1)) + direction.equations * np.log10(within)
    if direction.equations <= 0 or within >= _COARSE or by_chance > -SURE:
        names = names[:0]
    return Ranking(order=np.argsort(sines, kind="stable"), sines=sines, names=names)
