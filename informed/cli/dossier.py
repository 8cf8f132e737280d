"""`informed dossier`: an audit's numbers as a document for whoever decides.

informed dossier init about.toml
informed dossier audit.json --about about.toml --out dossier.html --out dossier.json
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from informed.cli.commands import refuse_unknown
from informed.report import dossier, report
from informed.report.about import TEMPLATE, About
from shadow import files


def add_arguments(command: argparse.ArgumentParser, name: str) -> None:
    """What the command takes."""
    command.add_argument("source", metavar="AUDIT.json|init")
    command.add_argument(
        "file", nargs="?", metavar="ABOUT.toml", help="of init: what is written"
    )
    command.add_argument(
        "--about", metavar="ABOUT.toml", help="what the owner states; see init"
    )
    command.add_argument(
        "--out",
        action="append",
        default=[],
        metavar="FILE",
        help="document (.html), numbers (.json); may be given several times",
    )


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Write the template, or the dossier.

    Raises: ValueError, FileNotFoundError, FileExistsError: what is asked for can't be
      done; says why.
    """
    refuse_unknown(rest)
    if arguments.source == "init":
        _init(arguments)
        return
    if arguments.file is not None:
        raise ValueError(
            f"Unknown argument {arguments.file!r}: what the owner states is named by"
            " --about."
        )
    for out in arguments.out:
        report.require_end(out, tables=False)
    stated = About.read(arguments.about)
    made = dossier.Dossier.of(report.read(Path(arguments.source)), stated)
    for out in arguments.out:
        made.save(out)
    if arguments.json:
        print(made.json, end="")
        return
    for each in made.values["residual"]:
        print(each["text"])
    for out in arguments.out:
        print(f"{'written':<12}{out}")


def _init(arguments: argparse.Namespace) -> None:
    if arguments.file is None or arguments.out or arguments.about:
        raise ValueError("Expected `informed dossier init ABOUT.toml`.")
    file = Path(arguments.file)
    if file.exists():
        raise FileExistsError(f"{file} is there already, and is not overwritten.")
    files.write_bytes(file, TEMPLATE.encode())
    written = {"written": str(file)}
    print(json.dumps(written) if arguments.json else f"{'written':<12}{file}")
