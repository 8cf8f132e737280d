"""The command `informed`: `command_table` has every command by its name."""

from informed.cli.command_table import main

__all__ = ["main"]
