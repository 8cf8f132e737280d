"""`--registers FILE`: a Python file of the user's own, run before anything is read.

A run's folder names its victim, data set and attacks. Where the user registered them
(docs/extending.md), whoever reads the folder has to register them again: no command
runs code that a folder names.
"""

import argparse
import runpy
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option, for commands that read what others made."""
    parser.add_argument(
        "--registers",
        type=Path,
        metavar="FILE",
        help="Python file that registers victims, data sets or attacks of your own that"
        " the folder names, such as the configuration that it was made by",
    )


def run(file: Path | None) -> None:
    """Run the file of `--registers`; None: there is none.

    Raises: OSError: it can't be read; ValueError: it raised, in one line.
    """
    if file is None:
        return
    see_beside(file)
    try:
        runpy.run_path(str(file))
    except OSError:
        raise
    except Exception as error:  # whatever the user's file raises
        kind = type(error).__name__
        raise ValueError(f"{file} could not be run: {kind}: {error}") from error


def see_beside(file: Path) -> None:
    """Let Python import what lies in a file's folder, after all that it knows already.

    The command has no folder of its own there, as `python FILE` has.
    """
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
