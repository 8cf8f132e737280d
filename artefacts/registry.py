"""What is known of each class of estimators: one table, one row a class.

A row has six columns. Each file of this package fills the column that it is about:

    read      readers/         what the fields of a leaf tell of the missing row
    strip     strip.py         what a copy that predicts the same can do without
    parts     parts.py         the estimators inside, and what each was fitted to
    inverse   inverse.py       bounds of a transformer's output as bounds of its input
    repeats   parts.py         whether `fit_transform` gave what `transform` gives
    retrain   (from above)     what a reader finds by running training again

An estimator of one's own is one `register` with the columns that it has. Readers that
have to run training again need more than this package: `informed` registers them.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from artefacts.findings import Box, Finding, Leaf, Removed

ReadLeaf = Callable[[Leaf], list[Finding]]
Stripper = Callable[[Any], list[Removed]]
# Of an `artefacts.walk.Place` the places, or unread parts, inside it.
Parts = Callable[[Any], Iterator[Any]]
Inverse = Callable[[Any, Box, int], Box | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """What is known of one class of estimators; None: nothing.

    Attributes:
      read: `read(leaf) -> list[Finding]`, in the units of the leaf's input; may raise
        `ReconstructionImpossibleError`.
      strip: `strip(estimator) -> list[Removed]` takes off, in place, what predictions
        don't need, and names what has to stay.
      parts: `parts(site)` gives the sites inside; a class without parts is a leaf.
      inverse: `inverse(transformer, (lower, upper), features)` carries bounds of the
        output back to bounds of the input, which has this number of features.
      repeats: `repeats(estimator)` says whether fitting gave the known rows that
        `transform` gives now.
      retrain: `retrain(leaf) -> list[Finding]` by running training again.
    """

    read: ReadLeaf | None = None
    strip: Stripper | None = None
    parts: Parts | None = None
    inverse: Inverse | None = None
    repeats: Callable[[Any], bool] | None = None
    retrain: ReadLeaf | None = None


KINDS: dict[str, Kind] = {}
_EMPTY = Kind()


def register(
    names: str | tuple[str, ...],
    read: ReadLeaf | None = None,
    *,
    strip: Stripper | None = None,
    parts: Parts | None = None,
    inverse: Inverse | None = None,
    repeats: Callable[[Any], bool] | None = None,
    retrain: ReadLeaf | None = None,
) -> None:
    """Say how estimators of some classes are taken.

    Args:
      names: names of classes, as type(estimator).__name__.
      read, strip, parts, inverse, repeats, retrain: the columns of a `Kind`; those that
        are None stay as they are, the others replace what is there.
    """
    given: dict[str, Any] = {
        "read": read,
        "strip": strip,
        "parts": parts,
        "inverse": inverse,
        "repeats": repeats,
        "retrain": retrain,
    }
    columns = {column: each for column, each in given.items() if each is not None}
    for name in (names,) if isinstance(names, str) else names:
        KINDS[name] = dataclasses.replace(kind_of(name), **columns)


def kind_of(name: str) -> Kind:
    """The row of a class of this name; one without entries where there is none."""
    return KINDS.get(name, _EMPTY)
