"""`informed kkt` and `informed landscape`: weights alone.

Nothing imports the package `uninformed` but this, when one of them is asked for.
"""

import argparse
import importlib
import json
from collections.abc import Sequence

from informed.cli.configuration import values
from informed.cli.running import add_places, folder


def add_arguments(command: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments of both commands."""
    add_places(command, required=True)


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Attack a network of which only the weights are known.

    Raises: ValueError: shadow models are named.
    """
    if arguments.shadow:
        raise ValueError("This attack has no shadow models; leave out --shadow.")
    experiments = importlib.import_module("uninformed.commands")
    workdir = folder(arguments.workdir)
    results, lines, pictures = experiments.execute(
        arguments.command,
        values(rest),
        workdir,
        arguments.data_dir,
        progress=not arguments.quiet,
    )
    if arguments.json:
        print(json.dumps(results))
        return
    print(lines)
    for picture in pictures:
        print(f"{'picture':<32}{picture}")
