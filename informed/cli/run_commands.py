"""The commands that run a configured experiment: all stages, or one; the attack list.

They also run the experiments on weights alone: only this module imports `uninformed`,
and only when such a command is called.
"""

import argparse
import importlib
import json
from collections.abc import Sequence
from pathlib import Path

import jax

from informed import report
from informed.attacks import registry
from informed.cli import gate
from informed.cli.command_table import refuse_unknown
from informed.cli.configuration import load_experiment, values
from informed.experiment import evaluation, pipeline
from informed.experiment.stored import Paths
from shadow import places, reserved
from shadow.launchers.share import Share

# Command -> the module that runs this experiment on weights alone.
_WEIGHTS_ALONE = {
    "kkt": "uninformed.kkt.scoring",
    "landscape": "uninformed.landscape.study",
    "bilevel": "uninformed.landscape.study",
}


def add_arguments(command: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments of the command `name`."""
    if name == "attacks":
        return
    add_places(command, required=True)
    if name == "kkt":
        command.add_argument(
            "--weights",
            metavar="FILE",
            help="attack these weights, .safetensors or .npz, that any program trained",
        )
        command.add_argument(
            "--data",
            help="their training images, then others: .npz, see docs/kkt.md",
        )
    if name == "run":
        gate.add_argument(command)
    if name == "attack":
        command.add_argument(
            "--only", metavar="NAME", help="one of config.attacks (default: all)"
        )
        command.add_argument(
            "--distributed",
            nargs="?",
            const="auto",
            metavar="HOST:PORT,I/N",
            help="join as process I of N training one RecoNN; with no value, read this"
            " from Slurm or Open MPI",
        )


def add_places(command: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the arguments for where a command reads and writes, and for its output.

    Args:
      required: whether --workdir is required.
    """
    command.add_argument("--workdir", required=required)
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


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Run a command and print its results."""
    command = arguments.command
    if command == "attacks":
        refuse_unknown(rest)
        print(_attacks(as_json=arguments.json))
        return
    workdir = folder(arguments.workdir)
    if command in _WEIGHTS_ALONE:
        _attack_weights_alone(arguments, rest, workdir)
        return
    if command in ("run", "attack"):
        reserved.prepare()
    paths = Paths(
        workdir=workdir, shadow=arguments.shadow or workdir, data_dir=arguments.data_dir
    )
    max_success = gate.of_arguments(arguments) if command == "run" else None
    experiment = load_experiment(rest)
    if command == "attack":
        if arguments.distributed:
            _join(arguments.distributed)
        progress = not arguments.quiet and not jax.process_index()
        pipeline.attack(experiment, paths, only=arguments.only, progress=progress)
        done = {"stage": command, "done": True}
        print(json.dumps(done) if arguments.json else f"{command}: done, in {workdir}")
        return
    with gate.closed(max_success):
        if command == "run":
            results = pipeline.run(experiment, paths, progress=not arguments.quiet)
        else:
            results = evaluation.evaluate(experiment, paths)
    if arguments.json:
        print(json.dumps(results))
    else:
        print(f"{report.table(results)}\n{'picture':<28}{results['picture']}")
    if max_success is not None:
        gate.require(results, max_success)


def _attack_weights_alone(
    arguments: argparse.Namespace, rest: Sequence[str], workdir: Path
) -> None:
    """Run an experiment whose adversary has only the weights, and print its results.

    Raises: ValueError: --shadow was given; one of --weights and --data.
    """
    if arguments.shadow:
        raise ValueError("This attack has no shadow models; leave out --shadow.")
    weights, data = (getattr(arguments, name, None) for name in ("weights", "data"))
    if (weights is None) != (data is None):
        raise ValueError("Expected --weights and --data together: the data judge.")
    configured = any(word.split("=")[0] == "--config" for word in rest)
    config = values(rest if configured or not weights else ["--config=kkt", *rest])
    more = {}
    if weights:
        config["data"] |= {"name": data, "classes": "all"}
        more["weights"] = Path(weights)
    experiment = importlib.import_module(_WEIGHTS_ALONE[arguments.command])
    if arguments.command == "bilevel":
        config["methods"] = ("bilevel",)
    results, lines, pictures = experiment.execute(
        config,
        workdir,
        arguments.data_dir,
        progress=not arguments.quiet,
        **more,
    )
    if arguments.json:
        print(json.dumps(results))
        return
    print(lines)
    for picture in pictures:
        print(f"{'picture':<32}{picture}")


def _join(processes: str) -> None:
    """Join the processes that train one RecoNN.

    Args:
      processes: "HOST:PORT,I/N", or "auto": read it from Slurm or Open MPI.
    Raises: ValueError: not of this form; RuntimeError: the processes don't connect.
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
    jax.distributed.initialize(address, part.of, part.index)


def folder(workdir: str) -> Path:
    """Return --workdir as a path.

    Raises: ValueError: it is an address, such as that of a bucket.
    """
    if not places.is_folder(workdir):
        raise ValueError(
            f"Expected --workdir to be a folder, got {workdir!r}. Only shadow models"
            f" lie in buckets: --shadow={workdir}."
        )
    return Path(workdir)


def _attacks(*, as_json: bool) -> str:
    """List all attacks with their threat models; those on weights alone come last."""
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
