"""Run the stages of a configured experiment, attack weights alone, or list attacks.

`command_table` calls `execute`. For `run`, `attack` and `evaluate`, `experiment` does
the work and writes into --workdir; for `kkt`, `landscape` and `bilevel`, which attack
weights alone, `uninformed` does. Only this module of `informed` imports `uninformed`,
and only for such a command.
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
from informed.cli.configuration import load_experiment, values
from informed.experiment import evaluation, pipeline
from informed.experiment.stored import Paths
from shadow import checks, places, reserved
from shadow.launchers.share import Share

# Command -> the module that runs this experiment on weights alone.
_WEIGHTS_ALONE = {
    "kkt": "uninformed.kkt.scoring",
    "landscape": "uninformed.landscape.study",
    "bilevel": "uninformed.landscape.study",
}


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Run a command and print its results."""
    command = arguments.command
    if command == "attacks":
        print(_attacks(as_json=arguments.json))
        return
    workdir = places.folder(arguments.workdir, "--workdir")
    if command in _WEIGHTS_ALONE:
        _attack_weights_alone(arguments, rest, workdir)
        return
    if command in ("run", "attack"):
        reserved.prepare()
    paths = Paths(
        workdir=workdir, shadow=arguments.shadow or workdir, data_dir=arguments.data_dir
    )
    max_success = arguments.max_success if command == "run" else None
    experiment = load_experiment(rest)
    if command == "attack":
        if arguments.distributed:
            _join(arguments.distributed)
        progress = not arguments.quiet and not jax.process_index()
        with checks.called({"config.attacks": "--only"}):
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
        picture = workdir / Path(results["picture"]).name  # the folder may have moved
        print(f"{report.table(results)}\n{'picture':<28}{picture}")
    if max_success is not None:
        gate.require(results, max_success)


def _attack_weights_alone(
    arguments: argparse.Namespace, rest: Sequence[str], workdir: Path
) -> None:
    """Run an experiment whose adversary has only the weights, and print its results."""
    weights, data = (getattr(arguments, name, None) for name in ("weights", "data"))
    if (weights is None) != (data is None):
        raise ValueError("Expected --weights and --data together: the data judge.")
    if not arguments.config and not weights:
        raise ValueError("Expected --config, or --weights and --data.")
    config = values(rest if arguments.config else ["--config=kkt", *rest])
    more, sized = {}, any("data.points=" in word for word in rest)
    counted = any("attack.candidates=" in word for word in rest)
    if arguments.command == "kkt" and sized and not counted:
        config["attack"]["candidates"] = 2 * config["data"]["points"]
    if weights:
        for name in ("data.name", "victim", "training"):
            if any(word.startswith(f"--config.{name}") for word in rest):
                raise ValueError(
                    f"--weights are of a network that was trained already; leave out"
                    f" --config.{name}."
                )
        if not sized:
            raise ValueError(
                "Expected --config.data.points=N: how many of the images the network"
                " was trained on. The others are the control."
            )
        config["data"]["name"] = str(data)
        if not any(word.startswith("--config.data.classes=") for word in rest):
            config["data"]["classes"] = "all"
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
    """Join the processes of one RecoNN: HOST:PORT,I/N, or "auto" (Slurm, Open MPI)."""
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


def _attacks(*, as_json: bool) -> str:
    """Return the attacks of an informed adversary, with their threat models."""
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
