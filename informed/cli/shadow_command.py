"""Run the command `shadow`, which trains the models that learned attacks learn from.

`command_table` calls `execute`; `pipeline` and `shadow_sets` do the work. The command
also plans the cost, and describes, verifies or merges the stores of models:

informed shadow --config=configs/mnist.py --workdir=runs/mnist
informed shadow plan --config=configs/mnist.py:paper --devices=8
informed shadow --config=... --workdir=s3://bucket/mnist --launcher=ray
informed shadow info|verify s3://bucket/mnist
informed shadow merge runs/all runs/first runs/second
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from informed.cli import registering
from informed.cli.configuration import load_experiment
from informed.experiment import pipeline, shadow_sets
from informed.experiment.stored import Paths
from shadow import checks, compiled, devices, reserved
from shadow.launchers import Launch, table
from shadow.launchers.share import Share
from shadow.plan import Plan

_OPTIONS = ("address", "cpus", "gpus", "memory", "forward")  # of launchers
# Options that only some of the actions take -> these actions.
_OF = dict.fromkeys(("devices",), ("plan",)) | {
    "sample": ("verify",),
    "registers": ("verify",),
    "deterministic": ("make", "plan", "verify"),
    **dict.fromkeys(
        ("launcher", "worker", "form", "compilation_cache", *_OPTIONS), ("make",)
    ),
}


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Make, plan, inspect, verify or merge shadow data sets, and print the result."""
    if arguments.deterministic:  # before JAX is first used
        devices.make_deterministic()
    for name, actions in _OF.items():
        value = getattr(arguments, name)
        given = value is not None and value is not False
        if given and arguments.action not in actions:
            commands = [f"`informed shadow {action}`" for action in actions]
            of = " and ".join(commands).replace(" make", "")
            raise ValueError(f"--{name.replace('_', '-')} is of {of}.")
    address = arguments.shadow or arguments.workdir
    if arguments.action in ("make", "plan"):
        plan = arguments.action == "plan"
        if arguments.stores or not (address or plan):
            raise ValueError(
                "Expected --config=FILE and --workdir=DIR, a folder or an address such"
                f" as s3://bucket/mnist, got {[*arguments.stores, *rest]}."
            )
        paths = Paths(
            workdir=Path(), shadow=address or ".", data_dir=arguments.data_dir
        )
        (_plan if plan else _make)(arguments, rest, paths)
        return
    # argparse leaves a STORE that follows an option in `rest`.
    late = [word for word in rest if not word.startswith("-")]
    stores = [*arguments.stores, *late, *([address] if address else [])]
    if unknown := [word for word in rest if word not in late]:
        raise ValueError(
            f"`informed shadow {arguments.action}` takes no {unknown[0]!r}."
        )
    if not stores:
        raise ValueError(f"Expected `informed shadow {arguments.action} STORE`.")
    _look_after(arguments, stores)


def _make(arguments: argparse.Namespace, rest: Sequence[str], paths: Paths) -> None:
    """Train the models of a shadow data set."""
    if arguments.compilation_cache:  # all before JAX is first used
        compiled.keep_in(arguments.compilation_cache)
    if arguments.launcher == "ray":
        devices.cpu_only()  # the driver trains nothing
    else:
        reserved.prepare()
    experiment = load_experiment(rest)  # its file may register a launcher
    pipeline.shadow(
        experiment,
        paths,
        launch=_launch(arguments),
        form=arguments.form,
        progress=not arguments.quiet,
    )
    done = {"stage": "shadow", "done": True}
    print(json.dumps(done) if arguments.json else f"shadow: done, in {paths.shadow}")


def _launch(arguments: argparse.Namespace) -> Launch:
    """Return the launcher that the options name."""
    with checks.called({"launcher": "--launcher"}):
        row = table.find(arguments.launcher or "local")
    options = {name: getattr(arguments, name) for name in _OPTIONS}
    given = {name: value for name, value in options.items() if value is not None}
    for name in given.keys() - set(row.options):
        raise ValueError(f"--{name} is of --launcher=ray.")
    if arguments.worker is None:
        return row.make(**given)
    if arguments.launcher not in (None, "local"):
        raise ValueError("Expected --worker or --launcher=ray, not both.")
    return Share.parse(arguments.worker)


def _plan(arguments: argparse.Namespace, rest: Sequence[str], paths: Paths) -> None:
    """Print the time and the memory that a shadow data set will take."""
    count = arguments.devices
    plan = pipeline.plan(load_experiment(rest), paths)
    print(json.dumps(_numbers(plan, count)) if arguments.json else _table(plan, count))


def _numbers(plan: Plan, count: int | None) -> dict[str, Any]:
    """Return the numbers of a plan, for --json."""
    about = dataclasses.asdict(plan) | {"seconds": plan.seconds()}
    if count:
        about["seconds_on_devices"] = plan.seconds(count)
    return about


def _table(plan: Plan, count: int | None) -> str:
    """Format a plan as text."""
    rows = {
        "models": f"{plan.models:,} of {plan.params:,} parameters",
        "stores": f"{plan.store_bytes / 2**30:.2f} GiB",
        "memory": f"{plan.memory_bytes / 2**30:.2f} GiB in a process, about",
        "speed": f"{plan.models_per_s:.2f} models/s, measured on one batch;"
        f" {plan.models_at_once} models at once on a device",
        "time": f"{_duration(plan.seconds())} on this machine"
        f" ({plan.devices} devices of kind {plan.device})",
    }
    if count:
        rows[f"on {count}"] = (
            f"{_duration(plan.seconds(count))} on {count} such devices"
        )
    return "\n".join(f"{name:<10}{text}" for name, text in rows.items())


def _duration(seconds: float) -> str:
    """Format a time in hours and minutes, or in seconds."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _look_after(arguments: argparse.Namespace, stores: Sequence[str]) -> None:
    """Print a store's contents, verify it, or merge other stores into it."""
    progress = not (arguments.quiet or arguments.json)
    if arguments.action == "merge":
        facts = shadow_sets.merge(stores[0], stores[1:], progress=progress)
        text = shadow_sets.merged(facts)
    elif len(stores) > 1:
        raise ValueError(f"Expected one STORE, got {', '.join(map(repr, stores))}.")
    elif arguments.action == "info":
        facts = shadow_sets.info(stores[0])
        text = shadow_sets.described(facts)
    else:
        sample = arguments.sample
        sample = shadow_sets.SAMPLE if sample is None else sample
        registering.run(arguments.registers)
        facts = shadow_sets.verify(
            stores[0], sample=sample, data_dir=arguments.data_dir, progress=progress
        )
        text = shadow_sets.verified(facts)
    print(json.dumps(facts) if arguments.json else text)
    if arguments.action == "verify":
        shadow_sets.require_sound(facts)
