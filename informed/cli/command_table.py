"""The entry point `informed COMMAND ...`: all commands, their help and exit codes.

A shell calls `main`, by `informed` or `python -m informed.cli`. `options` has the
arguments of all commands, so a command's module is imported only when it runs. `main`
calls its `execute(arguments, rest)`; `rest` are `--config=FILE`, `--config.field=value`
and, for `shadow`, stores behind options.
"""

import argparse
import contextlib
import importlib
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from informed.cli import options

_STARTED = time.monotonic()  # before anything heavy is imported
_STORY = """\
Can one training record be read back out of a model that you hand to others?

Start here: audit your own training script, and get a one-page report.
  informed audit mine.py:train --data mine.npz --check    which attacks apply
  informed audit mine.py:train --data mine.npz --minutes 30 --out audit.html

Reproduce published attacks. An interrupted run continues when it is run again.
  informed run --config=digits --workdir=runs/digits
  informed report runs/digits                             writes an .html report

How much noise of DP-SGD prevents reconstruction? kappa is an attacker's success
without the model, gamma the highest success that you accept.
  informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3
  informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3
"""
_END = """\
informed COMMAND --help has its options and an example. Exit codes: 0 done, 2 an error
(a one-line message), 3 the audit's pre-flight found something to fix first, 4 it was
not shown that success stays within --max-success, 130 interrupted, 141 closed pipe.
"""
_CONFIGURED = """\
Every field of a configuration can be set: --config.seed=1.
Finished stages are skipped; interrupted ones resume where they were.
"""
_STAGE = "informed {} --config=configs/digits.py --workdir=runs/digits"
_TRAINING = "--records 60000 --batch 256 --epochs 15 --sampling shuffled --kappa 0.01"


class Command(NamedTuple):
    """A command of `informed`, by its module.

    Attributes:
      module: name of the module that implements it.
      about: what it does, for its help.
      example: a call of it, for its help and for errors.
      trains: whether it trains or attacks models.
    """

    module: str
    about: str
    example: str = _STAGE
    trains: bool = True


_RUN, _AUDIT = "informed.cli.run_commands", "informed.cli.audit_command"
_BOUND = "informed.cli.privacy"
COMMANDS = {
    "audit": Command(
        _AUDIT,
        "audit your own training: can one record be read out of what it releases?",
        "informed audit examples/audit_sklearn.py:train --data digits --fixed 100 \\\n"
        "      --targets 10 --minutes 10 --out audit.html --out audit.json",
    ),
    "report": Command(
        _AUDIT,
        "write one page (.html) about a run",
        "informed report runs/digits --out digits.html",
    ),
    "run": Command(_RUN, "run all stages of an experiment: shadow, attack, evaluate"),
    "shadow": Command(
        "informed.cli.shadow_command",
        "train shadow models and models to attack; inspect, verify or merge stores",
        "informed shadow plan --config=configs/mnist.py --workdir=runs/mnist\n"
        "  informed shadow --config=configs/mnist.py --workdir=runs/mnist",
    ),
    "attack": Command(
        _RUN,
        "attack the released models with each of config.attacks",
        f"{_STAGE} --only reconn",
    ),
    "evaluate": Command(
        _RUN, "compare guesses with the true records: table, pictures, results.json"
    ),
    "kkt": Command(
        _RUN,
        "weights alone: the KKT attack recovers images from a homogeneous network",
        "informed kkt --config=configs/kkt.py --workdir=runs/kkt",
    ),
    "landscape": Command(
        _RUN,
        "weights alone: does the result of an attack depend on where it starts?",
        "informed landscape --config=configs/landscape.py --workdir=runs/ends",
    ),
    "bilevel": Command(
        _RUN,
        "weights alone: search for records whose training would end at the weights",
        "informed bilevel --config=configs/landscape.py --workdir=runs/bilevel",
    ),
    "attacks": Command(
        _RUN,
        "list the reconstruction attacks: what each sees, needs to know, and gives",
        "informed attacks --json",
        trains=False,
    ),
    "bound": Command(
        _BOUND,
        "bound how often reconstruction can succeed, given the noise of training",
        f"informed bound --noise-multiplier 1.1 {_TRAINING}\n"
        "  informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3",
        trains=False,
    ),
    "calibrate": Command(
        _BOUND,
        "find the least noise that keeps reconstruction below a probability",
        f"informed calibrate --gamma 0.02 {_TRAINING}\n"
        "  informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3",
        trains=False,
    ),
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
    """Run the command line; an error ends the process with an exit code of `_END`."""
    try:
        try:
            _command(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _command(argv: Sequence[str] | None) -> None:
    """Run the command that `argv` asks for; exit with a code of `_END`."""
    started = _STARTED if argv is None else time.monotonic()
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv[:1] == ["help"]:
        argv = ["--help", *argv[1:]]
    asked = next((word for word in argv if not word.startswith("-")), "")
    if {"-h", "--help"} & {*argv}:
        meant = options.closest(asked, COMMANDS)
        parser, one = parser_of(meant or "")
        (one if meant else parser).print_help()
        sys.exit()
    parser, one = parser_of(asked if asked in COMMANDS else "")
    if asked not in COMMANDS:
        hint = options.did_you_mean(asked, COMMANDS)
        what = f"there is no command {asked!r}.{hint}" if asked else "missing command."
        parser.error(f"{what} Commands: {', '.join(COMMANDS)}. See `informed --help`.")
    others = [*argv]
    others.remove(asked)
    arguments, rest = parser.parse_known_args([asked, *one.spelled(others)])
    surplus = [word for word in rest if not word.startswith("--config.")]
    if surplus and asked != "shadow":  # whose stores may follow options
        one.error(f"unexpected {surplus[0]!r}. See `informed {asked} --help`.")
    if getattr(arguments, "config", None):
        rest.insert(0, f"--config={arguments.config}")
    arguments.argv, arguments.started = argv, started
    try:
        options.require_folders(arguments)
        _execute(arguments, rest)
    except BrokenPipeError:
        raise
    except _EXPECTED as error:
        if arguments.debug:
            raise
        text = f"{_as_typed(error, one)} {_remedy(error, arguments)}".rstrip()
        print(f"informed {arguments.command}: {text}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
    except KeyboardInterrupt:
        on = arguments.command != "audit" or bool(arguments.out)
        what = (
            "the same command goes on with what is finished"
            if on
            else "nothing was kept"
        )
        print(f"\nInterrupted; {what}.", file=sys.stderr)
        sys.exit(130)


def parser_of(asked: str) -> tuple[options.Parser, options.Parser]:
    """Return the parser of all commands, and that of one, with its options.

    Args:
      asked: the command; "": none, and the parser of all is returned twice.
    """
    parser = one = options.Parser(
        prog="informed",
        description=_STORY,
        epilog=_END,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=15, width=96
        ),
        allow_abbrev=False,
    )
    added = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, command in COMMANDS.items():
        example = command.example.format(name)
        more = f"\n{_CONFIGURED}" if name in options.CONFIGURED else ""
        subparser = added.add_parser(
            name,
            help=command.about,
            description=command.about,
            epilog=f"Example:\n  {example}\n{more}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        first = example.partition("\n  informed")[0]
        subparser.example = " ".join(first.replace("\\\n", "").split())
        if name == asked:
            one = subparser
            options.add(one, name)
    return parser, one


def _as_typed(error: Exception, parser: argparse.ArgumentParser) -> Exception:
    """Return the error of a field by the option that set the field, if one did."""
    from dp.domain import FieldError

    names = {a.dest: a.option_strings[0] for a in parser._actions if a.option_strings}
    names.setdefault("name", names.get("data", "name"))
    return error.called(names) if isinstance(error, FieldError) else error


def _execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Load the module of a command, and run it."""
    command = COMMANDS[arguments.command]
    module: Any = importlib.import_module(command.module)
    with contextlib.ExitStack() as stack:
        if command.trains:
            import absl.logging

            from shadow import devices, records

            absl.logging.set_verbosity(absl.logging.ERROR)
            with contextlib.suppress(RuntimeError):  # JAX already runs: a notebook
                devices.one_a_core()
            accepted = getattr(arguments, "accept_versions", False)
            stack.enter_context(records.accepting_other_versions(accepted))
        module.execute(arguments, rest)


def _remedy(error: Exception, arguments: argparse.Namespace) -> str:
    """Return the command or option that helps with an error; "" if none does."""
    from shadow.records import (
        ConfigurationMismatchError,
        NotMadeError,
        VersionMismatchError,
    )

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
    if type(error).__name__ == "CorruptBlockError" and error.block is not None:  # type: ignore[attr-defined]
        shadow = getattr(arguments, "shadow", None) or workdir
        place = f"--workdir={shadow}" if shadow else "STORE"
        return f"Remake what is corrupt: informed shadow verify {place}"
    if isinstance(error, NotMadeError):
        by = error.by if error.by in COMMANDS else error.by.partition("-")[0]
        return f"Make it, or finish it, with `informed {by}`."
    return ""
