"""A table or figure of a paper as data, and what measuring it gives."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from benchmarks.papers.lab import Lab

Numbers = Mapping[str, float | str | None]
Measure = Callable[["Lab"], "Found"]
_Function = TypeVar("_Function", bound=Callable[..., "Found"])
# The functions that measure rows, by paper/name.
MEASURES: dict[str, Measure] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a table.

    Attributes:
      name: what the line is about.
      theirs: the paper's numbers, by column; empty where it has none.
      ours: the numbers found here, by column.
    """

    name: str
    theirs: Numbers = dataclasses.field(default_factory=dict)
    ours: Numbers


@dataclasses.dataclass(frozen=True)
class Picture:
    """A figure that was made.

    Attributes:
      png: the file's content.
      caption: what it shows, in a sentence.
    """

    png: bytes
    caption: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """What measuring a row gave.

    Attributes:
      holds: whether the paper's claim holds here; None: that can't be told from this.
      verdict: why, in a sentence or two, with the numbers that decide.
      theirs, ours: the number of each that people look for, in a few words.
      lines: the table.
      pictures: the figures, in their order.
    """

    holds: bool | None
    verdict: str
    theirs: str
    ours: str
    lines: Sequence[Line] = ()
    pictures: Sequence[Picture] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A table, figure or statement of a paper.

    Attributes:
      paper: "balle", "haim" or "runkel".
      name: its name on the command line, such as "table-3".
      title: how the paper calls it.
      claim: what the paper says there, in a sentence.
      size: at which size it is measured here; "" where the paper's size is taken.
      decides: what decides whether the claim holds, fixed before it was measured.
      measure: makes the row; None: see `needs`.
      needs: in a line, what it would take; told while there is no result.
      but: what of the claim the rule doesn't decide, or what was measured speaks
        against, in sentences; written after the measurement. "": nothing is known.
    """

    paper: str
    name: str
    title: str
    claim: str
    size: str = ""
    decides: str = ""
    measure: Measure | None = None
    needs: str = ""
    but: str = ""


def measures(name: str) -> Callable[[_Function], _Function]:
    """Register a function as what measures a row, such as "balle/table-3"."""

    def of(measure: _Function) -> _Function:
        MEASURES[name] = measure
        return measure

    return of
