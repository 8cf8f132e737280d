"""Launchers by name, for the command line: `informed shadow --launcher=NAME`."""

import dataclasses
from collections.abc import Callable

from shadow import checks
from shadow.launchers import launch
from shadow.launchers.launch import Launch
from shadow.launchers.tasks import Ray


@dataclasses.dataclass(frozen=True)
class Row:
    """A launcher in the table, with its options.

    Attributes:
      make: options by name -> the launcher.
      options: names of the options that `make` takes.
      source: place of a user's launcher (`checks.place`); None: the toolkit's.
    """

    make: Callable[..., Launch]
    options: tuple[str, ...] = ()
    source: tuple[str, str, str] | None = None


_ROWS = {
    "local": Row(lambda: launch.local),
    "ray": Row(Ray, tuple(field.name for field in dataclasses.fields(Ray))),
}


def register(name: str, launch: Launch) -> None:
    """Register a user's launcher under a name; public as `shadow.register_launcher`.

    Raises: ValueError: another launcher has that name.
    """
    source = checks.place(launch)
    # The configuration file that registers it may be read twice.
    if name in _ROWS and _ROWS[name].source != source:
        raise ValueError(f"There is a launcher called {name!r} already.")
    _ROWS[name] = Row(lambda: launch, source=source)


def find(name: str) -> Row:
    """Return the row of a name. Raises: ValueError: the name is unknown."""
    return _ROWS[checks.choice("launcher", name, _ROWS)]
