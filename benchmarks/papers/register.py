"""All rows of the three papers: what was measured first, then what needs something."""

from collections.abc import Iterator

from benchmarks.papers.balle import (
    attributes,
    cifar,
    default,
    factors,
    losses,
    membership,
    private,
    published,
    theory,
    training,
    transfer,
    unknown,
    warm,
)
from benchmarks.papers.haim import baselines, circle, images, unmeasured, victims
from benchmarks.papers.row import Row
from benchmarks.papers.runkel import starts
from benchmarks.papers.runkel import unmeasured as runkel

ROWS: tuple[Row, ...] = (
    *theory.ROWS,
    *membership.ROWS,
    *default.ROWS,
    *factors.ROWS,
    *unknown.ROWS,
    *private.ROWS,
    *attributes.ROWS,
    *transfer.ROWS,
    *warm.ROWS,
    *cifar.ROWS,
    *training.ROWS,
    *losses.ROWS,
    *published.ROWS,
    *victims.ROWS,
    *circle.ROWS,
    *images.ROWS,
    *baselines.ROWS,
    *unmeasured.ROWS,
    *starts.ROWS,
    *runkel.ROWS,
)


def find(name: str) -> Row:
    """The row of a name; "haim/figure-3" where two papers have one of that name.

    Raises: ValueError: there is none, or more than one; says which there are.
    """
    found = [row for row in ROWS if name in (row.name, f"{row.paper}/{row.name}")]
    if len(found) == 1:
        return found[0]
    if found:
        choices = ", ".join(f"{row.paper}/{row.name}" for row in found)
        raise ValueError(f"{name!r} is the name of several rows: {choices}.")
    raise ValueError(f"No row is called {name!r}. Rows: {', '.join(names())}.")


def names() -> Iterator[str]:
    """paper/name of every row."""
    return (f"{row.paper}/{row.name}" for row in ROWS)
