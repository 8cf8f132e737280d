"""Who reads what: class names of scikit-learn -> readers, found when asked for.

A family is a module with `READERS`, class name -> reader, and perhaps `STRIPPERS`,
class name -> function that takes fields off an estimator in place. A reader is
`read(leaf) -> list[Finding]`. `register` adds one's own.
"""

import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from artefacts.findings import Finding, Leaf, Removed

Reader = Callable[[Leaf], list[Finding]]
Stripper = Callable[[Any], list[Removed]]

FAMILIES = (
    "moments",
    "centres",
    "class_means",
    "order",
    "counts",
    "rows",
    "vocabularies",
    "linear",
    "sparse_linear",
    "networks",
    "forests",
)
_OWN: dict[str, Reader] = {}


def register(name: str, reader: Reader) -> None:
    """Read estimators whose class is called `name` with `reader`.

    Args:
      name: the class's name, as type(estimator).__name__.
      reader: `read(leaf) -> list[Finding]`; replaces one that exists.
    """
    _OWN[name] = reader


def reader_of(name: str) -> Reader | None:
    """The reader of a class of this name, or None."""
    return _OWN.get(name) or _tables()[0].get(name)


def stripper_of(name: str) -> Stripper | None:
    """What takes fields off an estimator of this class, or None."""
    return _tables()[1].get(name)


def names() -> list[str]:
    """Classes that can be read, in alphabetical order."""
    return sorted(_tables()[0].keys() | _OWN.keys())


@functools.cache
def _tables() -> tuple[dict[str, Reader], dict[str, Stripper]]:
    """All families' readers and strippers."""
    readers: dict[str, Reader] = {}
    strippers: dict[str, Stripper] = {}
    for family in FAMILIES:
        where = f"artefacts.{family}"
        if importlib.util.find_spec(where) is None:
            continue
        module = importlib.import_module(where)
        readers |= module.READERS
        strippers |= getattr(module, "STRIPPERS", {})
    return readers, strippers
