"""Completion of the command line in bash, zsh and fish, by argcomplete.

A shell runs `informed` with `_ARGCOMPLETE` in its environment.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import argcomplete
from argcomplete.completers import FilesCompleter

from informed.cli import configuration, options


def answer(parser: options.Parser, one: options.Parser, command: str) -> None:
    """Print what may follow, as the shell asked, and exit.

    Args:
      parser: of the whole command line.
      one: of the command, with its options.
      command: its name; "": none has been typed.
    """
    line = os.environ.get("COMP_LINE", "")
    if command in options.CONFIGURED and re.search(r"\s--config\.\S*$", line):
        for field, value in _fields(line, command):
            one.add_argument(f"--config.{field}", help=repr(value).replace("%", "%%"))
    for action in one._actions:
        if isinstance(action.type, options.Number):  # no file is a number
            action.completer = lambda **_: ()  # type: ignore[attr-defined]
        if action.dest == "config":
            action.completer = _configurations  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _configurations(prefix: str, **_: Any) -> list[str]:
    """Return bundled configurations by name, and Python files."""
    return [*configuration.names(), *FilesCompleter(["py"])(prefix)]


def _fields(line: str, command: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields and values of the bundled configuration that a line names.

    A file of the user's isn't run at the press of a key: its place takes the bundled
    configuration of the command.
    """
    named = re.findall(r"--config[= ](?:\S*/)?(\w+)", line)
    names = configuration.names()
    name = next((name for name in [*named[-1:], command] if name in names), "digits")
    yield from _flat(configuration.values([f"--config={name}"]))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested fields by their paths."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
