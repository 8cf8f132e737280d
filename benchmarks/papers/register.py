"""All rows of the three papers: what rows.toml says of them, and what measures them."""

import importlib
import pkgutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.papers import balle, haim, runkel
from benchmarks.papers.row import MEASURES, Row

# Functions register themselves as what measures a row.
for _package in (balle, haim, runkel):
    for _module in pkgutil.iter_modules(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_module.name)

_TEXTS = Path(__file__).parent / "rows.toml"
ROWS: tuple[Row, ...] = tuple(
    Row(paper=paper, name=name, measure=MEASURES.get(f"{paper}/{name}"), **texts)
    for paper, rows in tomllib.loads(_TEXTS.read_text()).items()
    for name, texts in rows.items()
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
