"""The entry point `informed COMMAND ...`: all commands, their help and exit codes.

The module of a command is imported only when the command runs. It has
`add_arguments(parser, command)` and `execute(arguments, rest)`, where `rest` are
arguments that its parser doesn't know, such as `--config.field=value`.
"""

import argparse
import contextlib
import importlib
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

_STARTED = time.monotonic()  # before anything heavy is imported
_STORY = """\
Can one training record be read back out of a released model?

Your own training, one page:
  informed audit mine.py:train --data mine.npz --check    seconds: what applies
  informed audit mine.py:train --data mine.npz --minutes 30 --out audit.html
  informed compare audit.json                             attacks side by side

The attacks of the papers, in stages that go on where they were interrupted:
  informed run --config=configs/digits.py --workdir=runs/digits
  informed report runs/digits                             its page

How much noise stops it:
  informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3
  informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3
"""
_END = """\
informed COMMAND --help has an example. Exit codes: 0 done, 2 an error in one line,
3 the audit's pre-flight found what has to be mended first, 4 --max-success isn't
shown to hold, 130 interrupted.
"""
_CONFIGURED = """\
Every field of a configuration can be set: --config.shadow.count=20000.
Finished stages do nothing, interrupted ones go on where they were.
"""
_STAGE = "informed {} --config=configs/digits.py --workdir=runs/digits"


class Command(NamedTuple):
    """A command of `informed`, by its module.

    Attributes:
      module: name of the module that implements it.
      about: what it does, for its help.
      example: a call of it, for its help.
      trains: whether it trains or attacks models.
      resumes: whether it continues where it was interrupted.
    """

    module: str
    about: str
    example: str = _STAGE
    trains: bool = True
    resumes: bool = True


_RUN, _AUDIT = "informed.cli.run_commands", "informed.cli.audit_command"
_BOUND = "informed.cli.privacy"
COMMANDS = {
    "run": Command(_RUN, "all stages: shadow, attack, evaluate"),
    "shadow": Command(
        "informed.cli.shadow_command",
        "train shadow and released models; info, verify, merge: of stores",
        "informed shadow plan --config=configs/mnist.py --workdir=runs/mnist\n"
        "  informed shadow --config=configs/mnist.py --workdir=runs/mnist",
    ),
    "attack": Command(
        _RUN,
        "attack the released models, by each of config.attacks",
        f"{_STAGE} --only reconn",
    ),
    "evaluate": Command(_RUN, "compare with the truth: table, pictures, results.json"),
    "kkt": Command(
        _RUN,
        "weights alone: the KKT attack on a homogeneous network",
        "informed kkt --config=configs/kkt.py --workdir=runs/kkt",
    ),
    "landscape": Command(
        _RUN,
        "weights alone: where attacks end, by where they begin",
        "informed landscape --config=configs/landscape.py --workdir=runs/ends",
    ),
    "bilevel": Command(
        _RUN,
        "weights alone: points whose training ends at the weights",
        "informed bilevel --config=configs/landscape.py --workdir=runs/bilevel",
    ),
    "attacks": Command(
        _RUN,
        "list all attacks: what each sees, needs to be told, and gives",
        "informed attacks --json",
        trains=False,
    ),
    "bound": Command(
        _BOUND,
        "how often reconstruction can succeed, given the noise of training",
        "informed bound --noise-multiplier 1 --steps 100 --kappa 1e-3",
        trains=False,
    ),
    "calibrate": Command(
        _BOUND,
        "the least noise that keeps reconstruction below a probability",
        "informed calibrate --gamma 0.01 --steps 100 --kappa 1e-3",
        trains=False,
    ),
    "audit": Command(
        _AUDIT,
        "your own training: can one record be read out of what it ships?",
        "informed audit examples/audit_sklearn.py:train --data digits --fixed 100 \\\n"
        "      --targets 10 --minutes 10 --out audit.html --out audit.json",
        resumes=False,
    ),
    "compare": Command(
        _AUDIT,
        "attacks side by side, of an audit's .json or a work directory",
        "informed compare audit.json",
    ),
    "report": Command(
        _AUDIT,
        "a page of any work directory: one .html file",
        "informed report runs/digits --out digits.html",
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
    """Run the command line, the entry point of `informed`.

    Exit codes: 0 done; 2 an error, described in one line; 3 an audit's pre-flight
    found a fault that voids the audit; 4 --max-success isn't shown to hold; 130
    interrupted.
    """
    started = _STARTED if argv is None else time.monotonic()
    argv = sys.argv[1:] if argv is None else list(argv)
    asked = next((word for word in argv if not word.startswith("-")), "")
    arguments, rest = parser_of(asked).parse_known_args(argv)
    arguments.argv, arguments.started = argv, started
    try:
        _execute(arguments, rest)
    except _EXPECTED as error:
        if arguments.debug:
            raise
        text = f"{error} {_remedy(error, arguments)}".rstrip()
        print(f"informed {arguments.command}: {text}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
    except KeyboardInterrupt:
        on = COMMANDS[arguments.command].resumes
        what = "the same command goes on from here" if on else "nothing was kept"
        print(f"\nInterrupted; {what}.", file=sys.stderr)
        sys.exit(130)


def parser_of(asked: str) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the arguments of one of them.

    Args:
      asked: the command whose arguments to add; "": none, and no module is loaded.
    """
    parser = argparse.ArgumentParser(
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
        example = f"Example:\n  {command.example.format(name)}\n"
        if "--config=" in example:
            example += f"\n{_CONFIGURED}"
        one = added.add_parser(
            name,
            help=command.about,
            description=command.about,
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == asked:
            module: Any = importlib.import_module(command.module)
            module.add_arguments(one, name)
            one.add_argument("--json", action="store_true", help="print JSON")
            one.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def refuse_unknown(rest: Sequence[str]) -> None:
    """Raise a ValueError for arguments that the command doesn't know."""
    if rest:
        raise ValueError(f"Unknown argument {rest[0]!r}. See `informed --help`.")


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
        place = f"--workdir={shadow}" if shadow else "STORE, of that store"
        return f"Remake what is corrupt: informed shadow verify {place}"
    if isinstance(error, NotMadeError):
        by = error.by if error.by in COMMANDS else error.by.partition("-")[0]
        return f"Make it, or finish it, with `informed {by}`."
    return ""
