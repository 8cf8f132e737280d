"""Completion of the command line in bash, zsh and fish, by argcomplete.

A shell runs `informed` with `_ARGCOMPLETE` in its environment, and `command_table` then
calls `answer`.
"""

from typing import Any

import argcomplete
from argcomplete.completers import FilesCompleter

from informed.cli import options


def answer(parser: options.Parser, one: options.Parser) -> None:
    """Print what may follow, as the shell asked, and exit.

    Args:
      parser: the parser of the whole command line.
      one: that of the typed command, with its options; its actions are changed.
    """
    for action in one._actions:
        names = action.choices if isinstance(action.choices, tuple) else ()
        if names or isinstance(action.type, options.Number):  # no file is a number
            action.completer = lambda names=names, **_: names  # type: ignore[attr-defined]
        if action.dest == "config":
            action.completer = _configurations  # type: ignore[attr-defined]
        action.type = None  # what comes before may be wrong
    argcomplete.autocomplete(parser)


def _configurations(prefix: str, **_: Any) -> list[str]:
    """Return the names of bundled configurations, and Python files."""
    from informed.cli import configuration

    return [*configuration.names(), *FilesCompleter(["py"])(prefix)]
