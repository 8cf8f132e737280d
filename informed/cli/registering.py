"""Run a user's file that registers victims, data sets, attacks or bounds.

The options `--registers` (`audit_command`, `shadow_command`) and `--bounds` (`privacy`)
name it. A run's folder holds the names of its victim, data set and attacks. If the user
registered these (docs/extending.md), a command that reads the folder needs the file
again, because no command runs code that a folder names.
"""

import runpy
import sys
from pathlib import Path


def run(file: Path | None) -> None:
    """Run the file of the option; None: the option wasn't given.

    Raises: OSError: the file can't be read; ValueError: it raised an error.
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
    """Append a file's folder to sys.path, so that the file can import its neighbours.

    `python FILE` does this by itself; a console command doesn't. `configuration` calls
    it for the file of --config.
    """
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
