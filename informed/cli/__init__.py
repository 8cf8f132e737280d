# PYTHON_ARGCOMPLETE_OK
"""The command line `informed`; `command_table` lists every command and its module."""

from informed.cli.command_table import main

__all__ = ["main"]
