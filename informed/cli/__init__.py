"""The command `informed`: `commands` has every command by its name."""

from informed.cli.commands import main

__all__ = ["main"]
