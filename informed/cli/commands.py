"""`informed <command> --config=configs/x.py --config.field=value --workdir=DIR`.

Everything below takes an `Experiment`.
"""

import argparse
import contextlib
import functools
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import absl.logging
import jax

from informed import report
from informed.attacks import registry
from informed.audit import AuditStoppedError
from informed.cli import artefact, audit, helping, privacy, shadow
from informed.cli.configuration import load_experiment, load_sweep, values
from informed.runs import diagnose, evaluation, pipeline, sweep
from informed.runs.stages import Paths
from shadow import devices, places, records
from shadow.launchers.share import Share
from shadow.records import (
    ConfigurationMismatchError,
    NotMadeError,
    VersionMismatchError,
)
from shadow.store import CorruptBlockError

_COMMANDS = {
    "run": "all stages: shadow, train, attack, evaluate",
    "shadow": "train shadow and released models; info, verify, merge: of stores",
    "train": "train the RecoNN on the shadow models",
    "attack": "reconstruct the test targets from the released models",
    "invert": "training inversion of the first config.inversion.targets models",
    "evaluate": "compare with the truth: table, pictures, results.json",
    "diagnose": "why targets are easy or hard: diagnostics.json and pictures",
    "kkt": "weights alone: the KKT attack on a homogeneous network",
    "landscape": "weights alone: where attacks end, by where they begin",
    "deletion": "two models: the row that was deleted between them",
    "attacks": "list all attacks: what each sees, needs to be told, and gives",
    "sweep": "run a grid of experiments: sweep.csv and sweep.png",
}
_EXPECTED = (
    ValueError,
    LookupError,
    RuntimeError,
    OSError,
    ArithmeticError,
    ImportError,
    MemoryError,
)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point.

    Exits with 0; with 2 and one line on what was wrong; with 3 where an audit's
    pre-flight found what has to be mended first; with 130 where it was interrupted.
    """
    absl.logging.set_verbosity(absl.logging.ERROR)
    with contextlib.suppress(RuntimeError):  # JAX is in use already, as in a notebook
        devices.one_a_core()
    arguments, rest = _parser().parse_known_args(argv)
    try:
        with records.accepting_other_versions(
            getattr(arguments, "accept_versions", False)
        ):
            _execute(arguments, rest)
    except _EXPECTED as error:
        if arguments.debug:
            raise
        text = f"{error} {_remedy(error, arguments)}".rstrip()
        print(f"informed {arguments.command}: {text}", file=sys.stderr)
        sys.exit(3 if isinstance(error, AuditStoppedError) else 2)
    except KeyboardInterrupt:
        print("\nInterrupted; the same command goes on from here.", file=sys.stderr)
        sys.exit(130)


def _remedy(error: Exception, arguments: argparse.Namespace) -> str:
    """What to do about an error, in terms of the command line."""
    workdir = getattr(arguments, "workdir", None)
    if isinstance(error, VersionMismatchError):
        return (
            "Use those versions or another --workdir, or go on knowingly with"
            " --accept-versions."
        )
    if isinstance(error, ConfigurationMismatchError):
        if getattr(arguments, "action", None) == "merge":
            return "Only stores of one configuration can be joined."
        return (
            "Use that configuration, or another --workdir (with --shadow to attack the"
            " same models)."
        )
    if isinstance(error, CorruptBlockError) and error.block is not None:
        shadow = getattr(arguments, "shadow", None) or workdir
        place = f"--workdir={shadow}" if shadow else "STORE, of that store"
        return f"Remake what is corrupt: informed shadow verify {place}"
    if isinstance(error, NotMadeError):
        return f"Make it, or finish it, with `informed {error.by}`."
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="informed",
        description=helping.STORY,
        epilog=helping.END,
        formatter_class=helping.formatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=helping.epilog(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == "shadow":
            shadow.add_arguments(command)
        command.add_argument("--json", action="store_true", help="print JSON")
        command.add_argument("--debug", action="store_true", help="show tracebacks")
        if name == "attacks":
            continue
        command.add_argument("--workdir", required=name != "shadow")
        command.add_argument(
            "--shadow",
            help="attack the shadow models of another workdir, or of an address such"
            " as s3://bucket/mnist",
        )
        command.add_argument("--data_dir", help="TFDS folder (default: TFDS_DATA_DIR)")
        command.add_argument(
            "--accept-versions",
            action="store_true",
            help="go on with what other versions of jax or of this package made",
        )
        command.add_argument("--quiet", action="store_true", help="no progress bars")
        if name == "train":
            command.add_argument(
                "--distributed",
                nargs="?",
                const="auto",
                metavar="HOST:PORT,I/N",
                help="be process I of N that train one RecoNN; without a value from"
                " Slurm, Open MPI or the like",
            )
    privacy.add_parsers(commands, helping.epilog)
    audit.add_parsers(commands, helping.epilog)
    artefact.add_parser(commands)
    shells = commands.add_parser("completion", help="completion for bash or zsh")
    shells.add_argument("shell", choices=("bash", "zsh"))
    shells.set_defaults(debug=False, parsers=commands.choices)
    return parser


def _execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Run a command and print what it has to say."""
    if arguments.command == "completion":
        print(helping.completion(arguments.shell, arguments.parsers))
        return
    for group in (privacy, audit, artefact):
        if arguments.command in group.COMMANDS:
            if rest:
                raise ValueError(
                    f"Unknown argument {rest[0]!r}. See `informed --help`."
                )
            group.execute(arguments)
            return
    if arguments.command == "attacks":
        if rest:
            raise ValueError(f"Unknown argument {rest[0]!r}. See `informed --help`.")
        print(_attacks(as_json=arguments.json))
        return
    progress = not arguments.quiet
    if arguments.command == "shadow":
        shadow.execute(arguments, rest)
        return
    arguments.workdir = _folder(arguments.workdir)
    paths = Paths(
        workdir=arguments.workdir,
        shadow=arguments.shadow or arguments.workdir,
        data_dir=arguments.data_dir,
    )
    if arguments.command == "sweep":
        _sweep(arguments, rest)
        return
    if arguments.command in ("kkt", "landscape", "deletion"):
        _uninformed(arguments, rest)
        return
    experiment = load_experiment(rest)
    if arguments.command == "train":
        if arguments.distributed:
            _join(arguments.distributed)
        pipeline.train(experiment, paths, progress=progress and not jax.process_index())
    elif arguments.command == "attack":
        pipeline.attack(experiment, paths, progress=progress)
    elif arguments.command == "invert":
        if not experiment.inversion.targets:
            raise ValueError(
                "Expected config.inversion.targets >= 1, got 0: nothing to invert."
            )
        pipeline.invert(experiment, paths, progress=progress)
    elif arguments.command == "diagnose":
        quiet = arguments.quiet or arguments.json
        results = diagnose.run(experiment, paths, progress=not quiet)
        print(json.dumps(results) if arguments.json else diagnose.table(results))
        return
    else:
        stage = evaluation.evaluate
        if arguments.command == "run":
            stage = functools.partial(pipeline.run, progress=progress)
        results = stage(experiment, paths)
        if arguments.json:
            print(json.dumps(results))
        else:
            print(f"{report.table(results)}\n{'picture':<28}{results['picture']}")
        return
    if arguments.json:
        print(json.dumps({"stage": arguments.command, "done": True}))
    else:
        print(f"{arguments.command}: done, in {paths.workdir}")


def _join(processes: str) -> None:
    """Become one of several processes that train one RecoNN.

    Raises: ValueError: it isn't said which; RuntimeError: they don't come together.
    """
    if processes == "auto":
        jax.distributed.initialize()
        return
    address, comma, share = processes.rpartition(",")
    if not (comma and ":" in address):
        raise ValueError(
            f"Expected --distributed=HOST:PORT,I/N, got {processes!r}. HOST is the"
            " machine of process 0."
        )
    part = Share.parse(share)
    jax.distributed.initialize(address, part.count, part.index)


def _folder(workdir: str) -> Path:
    """Where a run writes.

    Raises: ValueError: an address.
    """
    if not places.is_folder(workdir):
        raise ValueError(
            f"Expected --workdir to be a folder, got {workdir!r}. Only shadow models"
            f" lie in buckets: --shadow={workdir}."
        )
    return Path(workdir)


def _attacks(*, as_json: bool) -> str:
    """All attacks with their threat models."""
    importlib.import_module("uninformed.rows")
    rows = [row.threat_model for row in registry.rows().values()]
    if as_json:
        return json.dumps(rows)
    lines = []
    for row in rows:
        lines += [
            f"{row['name']:<17}{row['about']}",
            f"{'':<17}sees {row['sees']}; needs to know {', '.join(row['knows'])}"
            + (f"; uses {', '.join(row['uses'])}" if row["uses"] else ""),
            f"{'':<17}gives {', '.join(row['gives'])}",
        ]
    return "\n".join(lines)


def _uninformed(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Attack a network of which only the weights are known."""
    if arguments.shadow:
        raise ValueError("This attack has no shadow models; leave out --shadow.")
    experiments = importlib.import_module("uninformed.commands")
    results, lines, pictures = experiments.execute(
        arguments.command, values(rest)[0], arguments.workdir, arguments.data_dir
    )
    if arguments.json:
        print(json.dumps(results))
        return
    print(lines)
    for picture in pictures:
        print(f"{'picture':<32}{picture}")


def _sweep(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Run a grid and print a line per point."""
    if arguments.shadow:
        raise ValueError("A sweep keeps its shadow models itself; leave out --shadow.")
    config, base = load_sweep(rest)

    def report_point(row: Mapping[str, Any]) -> None:
        if arguments.json:
            print(json.dumps(row), flush=True)
            return
        paper = "" if row["paper"] is None else f"   paper {row['paper']}"
        print(f"{row['point']:<34}{row[config.metric]:.5f}{paper}", flush=True)

    sweep.run(
        config,
        base,
        arguments.workdir,
        data_dir=arguments.data_dir,
        progress=not (arguments.quiet or arguments.json),
        on_point=report_point,
    )
    if not arguments.json:
        for name in ("sweep.csv", "sweep.png"):
            print(
                f"{'table' if name.endswith('csv') else 'picture':<32}"
                f"{arguments.workdir / name}"
            )
