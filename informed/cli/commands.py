"""`informed <command> --config=configs/x.py --config.field=value --workdir=DIR`.

This is where a ConfigDict ends: everything below takes an `Experiment`.
"""

import argparse
import contextlib
import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import absl.logging
from absl import flags
from ml_collections import config_flags

from informed import report
from informed.attacks import registry
from informed.cli import privacy
from informed.runs import diagnose, evaluation, pipeline, shadow_sets, sweep
from informed.runs.experiment import Experiment
from informed.runs.stages import Paths
from informed.runs.sweep import SweepConfig
from informed.studies import kkt as uninformed
from informed.studies.landscape import command as landscape
from informed.studies.landscape.runs import LandscapeConfig
from shadow import checks, devices, places, records
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
)
_EPILOG = """\
Every field of a configuration can be set: --config.shadow.count=20000.
Finished stages do nothing, interrupted ones go on where they were.
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point. Exits with 0, or with 2 and one line on what was wrong."""
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
        sys.exit(2)
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


def load_experiment(overrides: Sequence[str]) -> Experiment:
    """An experiment from `--config=FILE` and `--config.field=value` arguments.

    Raises: ValueError: no file, an unknown field (with the nearest name), or a value of
      the wrong type.
    """
    return Experiment.from_mapping(_values(overrides)[0])


def load_sweep(overrides: Sequence[str]) -> tuple[SweepConfig, dict[str, Any]]:
    """A sweep, and the values of its base configuration, from the same arguments.

    Raises: ValueError: as `load_experiment`.
    """
    values, file = _values(overrides)
    config = checks.build(SweepConfig, values, "sweep")
    return config, _values([f"--config={file.parent / config.base}"])[0]


def _values(overrides: Sequence[str]) -> tuple[dict[str, Any], Path]:
    """What a configuration file holds after the overrides, and the file."""
    if "--config" in overrides[:-1]:  # `--config FILE`, with a space
        i = overrides.index("--config")
        joined = f"--config={overrides[i + 1]}"
        return _values([*overrides[:i], joined, *overrides[i + 2 :]])
    argv, file = ["informed", *overrides], None
    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=argv)
    for argument in overrides:
        if not argument.startswith("--config"):
            raise ValueError(f"Unknown argument {argument!r}. See `informed --help`.")
        if not argument.startswith("--config="):
            continue
        file = Path(argument.removeprefix("--config=").partition(":")[0])
        if not file.is_file():
            raise ValueError(f"Expected --config=FILE; there is no file {str(file)!r}.")
    try:
        left = values(argv)[1:]
    except AttributeError as error:  # what ml_collections raises for unknown fields
        hint = str(error).strip("'\"").replace("\\n", " ").replace("\n", " ")
        raise ValueError(f"Unknown configuration field: {hint}") from error
    except (flags.Error, OSError) as error:
        raise ValueError(str(error).strip().splitlines()[-1].strip()) from error
    except Exception as error:  # anything that the user's file may raise
        raise ValueError(
            f"{file} could not be read as a configuration:"
            f" {type(error).__name__}: {error}"
        ) from error
    if left:
        raise ValueError(f"Unknown argument {left[0]!r}. See `informed --help`.")
    if values.config is None or file is None:
        raise ValueError("Expected --config=FILE, such as --config=configs/digits.py.")
    return values.config.to_dict(), file


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="informed",
        description="Reconstruct single training points from released models.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, text in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == "shadow":
            command.add_argument(
                "action",
                nargs="?",
                choices=("make", *shadow_sets.ACTIONS),
                default="make",
                help="train models, or: what is in STORE; check it; join others to it",
            )
            command.add_argument(
                "stores",
                nargs="*",
                metavar="STORE",
                help="folder or address of a store, or of a run's two stores",
            )
            command.add_argument(
                "--sample",
                type=int,
                default=shadow_sets.SAMPLE,
                help="verify: models of each store that are trained again",
            )
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
    privacy.add_parsers(commands)
    return parser


def _execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Run a command and print what it has to say."""
    if arguments.command in privacy.COMMANDS:
        if rest:
            raise ValueError(f"Unknown argument {rest[0]!r}. See `informed --help`.")
        privacy.execute(arguments)
        return
    if arguments.command == "attacks":
        if rest:
            raise ValueError(f"Unknown argument {rest[0]!r}. See `informed --help`.")
        print(_attacks(as_json=arguments.json))
        return
    progress = not arguments.quiet
    if arguments.command == "shadow":
        _shadow(arguments, rest)
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
    if arguments.command in ("kkt", "landscape"):
        _uninformed(arguments, rest)
        return
    experiment = load_experiment(rest)
    if arguments.command == "train":
        pipeline.train(experiment, paths, progress=progress)
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


def _shadow(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Make a shadow data set, or look after one."""
    address = arguments.shadow or arguments.workdir
    progress = not (arguments.quiet or arguments.json)
    if arguments.action == "make":
        if not address or arguments.stores:
            raise ValueError(
                "Expected --config=FILE and --workdir=DIR, a folder or an address such"
                f" as s3://bucket/mnist, got {[*arguments.stores, *rest]}."
            )
        paths = Paths(workdir=Path(), shadow=address, data_dir=arguments.data_dir)
        pipeline.shadow(load_experiment(rest), paths, progress=not arguments.quiet)
        done = {"stage": "shadow", "done": True}
        print(json.dumps(done) if arguments.json else f"shadow: done, in {address}")
        return
    stores = [*arguments.stores, *([address] if address else [])]
    if rest:
        raise ValueError(f"`informed shadow {arguments.action}` takes no {rest[0]!r}.")
    if not stores:
        raise ValueError(f"Expected `informed shadow {arguments.action} STORE`.")
    if arguments.action == "merge":
        found = shadow_sets.merge(stores[0], stores[1:], progress=progress)
        text = shadow_sets.merged(found)
    elif len(stores) > 1:
        raise ValueError(f"Expected one STORE, got {', '.join(map(repr, stores))}.")
    elif arguments.action == "info":
        found = shadow_sets.info(stores[0])
        text = shadow_sets.described(found)
    else:
        found = shadow_sets.verify(
            stores[0],
            sample=arguments.sample,
            data_dir=arguments.data_dir,
            progress=progress,
        )
        text = shadow_sets.verified(found)
    print(json.dumps(found) if arguments.json else text)
    if arguments.action == "verify":
        shadow_sets.require_sound(found)


def _attacks(*, as_json: bool) -> str:
    """All attacks with their threat models."""
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
    values, workdir = _values(rest)[0], arguments.workdir
    if arguments.command == "kkt":
        experiment = checks.build(uninformed.Uninformed, values)
        results = uninformed.run(experiment, workdir, arguments.data_dir)
        lines = uninformed.table(results)
        pictures = ["reconstructions.png", "outputs.png"]
    else:
        grid = checks.build(LandscapeConfig, values)
        results = landscape.run(grid, workdir, arguments.data_dir)
        lines = landscape.table(results, grid.methods)
        pictures = [*landscape.PICTURES, *(f"images_{m}.png" for m in grid.methods)]
    if arguments.json:
        print(json.dumps(results))
        return
    print(lines)
    for name in pictures:
        print(f"{'picture':<32}{workdir / name}")


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
