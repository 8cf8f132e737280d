"""The options of every command: their help and their values.

`command_table` makes a `Parser` and calls `add` for the options of a command. Nothing
here imports JAX or numpy, so that help and mistakes are answered at once.
Defaults and names that other modules define are repeated; a test compares them.
"""

import argparse
import difflib
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

PARTS = ("inversion", "noise")  # of an audit
AUDIT = {"targets": 20, "minutes": 10.0, "threshold": 0.5, "seed": 0}
CANDIDATES = 4  # of the audit's game about noise
SAMPLINGS = ("poisson", "allocation", "shuffled", "fixed")
RELATIONS = ("zero_out", "add_or_remove", "replace_one")
ACTIONS = ("info", "verify", "merge")  # on stores of shadow models
SAMPLE = 8  # models of a store that `verify` trains again
FORWARDED = ("TFDS_DATA_DIR",)  # environment variables that Ray's workers get
CONFIGURED = (  # commands that take --config
    "run", "shadow", "attack", "evaluate", "kkt", "landscape", "bilevel",
)  # fmt: skip


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line that names the option.

    Attributes:
      example: a call of the command, shown where a required option is missing.
    """

    example = ""

    def error(self, message: str) -> NoReturn:
        """Print the error on one line, and exit with 2."""
        text = message.replace("expected one argument", "expected a value.")
        text = text.replace("ignored explicit argument", "takes no value, got")
        text, missing = re.subn("^the following .* required: ", "missing ", text)
        text += f". Example: {self.example}" * missing
        print(f"{self.prog}: {text.removeprefix('argument ')}", file=sys.stderr)
        sys.exit(2)

    def spelled(self, words: Sequence[str]) -> list[str]:
        """Return a command line with dashes for the underscores of its options.

        An option that doesn't exist ends the process with an error.
        """
        known = self._option_string_actions
        spelled: list[str] = []
        for i, word in enumerate(words):
            if word == "--":
                return [*spelled, *words[i:]]
            option, equals, value = word.partition("=")
            is_field = option.startswith("--config.") and "--config" in known
            if not is_field and re.match(r"-[^\d.]", word):
                option = option.replace("_", "-")
                if option not in known:
                    stem = "--" + option.lstrip("-").partition(".")[0]
                    hint = did_you_mean(stem, known)
                    self.error(
                        f"unknown option {word!r}.{hint} See `{self.prog} --help`."
                    )
            spelled.append(option + equals + value)
        return spelled


def closest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that a misspelt word is nearest to; None: no name is near."""
    return next(iter(difflib.get_close_matches(word.lower(), list(names), n=1)), None)


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a hint " Did you mean 'x'?" for a misspelt word, or nothing."""
    name = closest(word, names)
    return f" Did you mean {name!r}?" if name else ""


# Values


def _refused(expected: str, text: str, hint: str = "") -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"expected {expected}, got {text!r}.{hint}")


class Number(NamedTuple):
    """Reads the value of an option that takes a number.

    Attributes:
      kind: int or float.
      allowed: which numbers are allowed, for the error.
      holds: whether a number is allowed; NaN isn't, as no comparison holds for it.
    """

    kind: type
    allowed: str
    holds: Callable[[Any], bool]

    def __call__(self, text: str) -> Any:
        """Return the number, or refuse the text."""
        try:
            if self.holds(value := self.kind(text)):
                return value
        except ValueError:
            pass
        whole = "whole " if self.kind is int else ""
        raise _refused(f"a {whole}number {self.allowed}", text)


_COUNT = Number(int, ">= 1", lambda value: value >= 1)
_FROM_0 = Number(int, ">= 0", lambda value: value >= 0)
_POSITIVE = Number(float, "> 0 and finite", lambda value: 0 < value < math.inf)
_GPUS = Number(float, ">= 0 and finite", lambda value: 0 <= value < math.inf)
_NOISE = Number(float, "> 0", lambda value: value > 0)
_PROBABILITY = Number(float, "in (0, 1]", lambda value: 0 < value <= 1)
_DELTA = Number(float, "> 0 and < 1", lambda value: 0 < value < 1)
_LOG = Number(float, "<= 0", lambda value: value <= 0)
_THRESHOLD = Number(
    float,
    f"> 1/{CANDIDATES}, as often as one of {CANDIDATES} candidates is guessed, and < 1",
    lambda value: 1 / CANDIDATES < value < 1,
)


def _one_of(names: Sequence[str]) -> dict[str, Any]:
    """Return the type and the choices of an option that takes one of some names."""

    def read(text: str) -> str:
        if text in names:
            return text
        raise _refused(f"one of {', '.join(names)}", text, did_you_mean(text, names))

    return {"type": read, "choices": names}


def missing(path: str | Path, what: str = "file") -> str:
    """Say that a file or folder is missing; names the nearest that is there."""
    path = Path(path)
    there = [other.name for other in path.parent.glob("*")]
    hint = did_you_mean(path.name, there)
    return f"there is no {what} {str(path)!r}.{hint or ' Check the path.'}"


def _existing(what: str, exists: Callable[[Path], bool]) -> Callable[[str], Any]:
    """Return a reader of paths that must exist; `what` names the path in errors."""

    def read(text: str) -> Path:
        try:
            if exists(Path(text)):
                return Path(text)
        except OSError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error.strerror}.") from error
        raise argparse.ArgumentTypeError(missing(text, what))

    return read


_file = _existing("file", lambda path: path.exists() and not path.is_dir())
_run = _existing("folder", Path.is_dir)
_weights = _existing("file", Path.exists)


def _training(text: str) -> str:
    path, _, name = text.rpartition(":")
    if not path.endswith(".py") or not name:
        raise _refused("FILE.py:FUNCTION, such as mine.py:train", text)
    _file(path)
    return text


def _data(text: str) -> str:
    if text.endswith((".npz", ".csv")) or text.startswith((".", "/")):
        _existing("file", Path.exists)(text)
    return text  # or the name of a data set


def require_folders(arguments: argparse.Namespace) -> None:
    """Require the folders that a command reads, where that depends on other options.

    Raises: FileNotFoundError: a folder isn't there.
    """
    needed = []
    if arguments.command in ("attack", "evaluate"):
        needed = [arguments.shadow or arguments.workdir]
    elif arguments.command == "shadow" and arguments.action in ACTIONS:
        needed = arguments.stores[1 if arguments.action == "merge" else 0 :]
    for folder in needed:
        if "://" not in folder and not Path(folder).is_dir():
            raise FileNotFoundError(
                f"{missing(folder, 'folder')} `informed shadow` makes one."
            )


# Commands


def add(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of the command `name`."""
    if name in CONFIGURED:
        _add_run(parser, name)
    elif name in ("bound", "calibrate"):
        _add_bound(parser, name)
    elif name == "audit":
        _add_audit(parser)
    elif name == "report":
        _add_page(parser)
    add = _adder(parser)
    add("--json", "print results as JSON")
    add("--debug", "show the traceback of an error")


def _adder(group: Any) -> Callable[..., None]:
    """Return a function that adds an option to a parser or a group.

    Its arguments: the name of the option; its help; its type, or the names that it may
    take (None: it takes no value); what its help calls the value.
    """

    def add(
        name: str, about: str, value: Any = None, metavar: Any = None, **more: Any
    ) -> None:
        more["help"] = about
        if value is None and name.startswith("-"):
            more["action"] = "store_true"
        elif isinstance(value, tuple) and not isinstance(value, Number):
            more |= _one_of(value)
        else:
            more |= {"type": value, "metavar": metavar}
        group.add_argument(name, **more)

    return add


def _add_shared(add: Callable[..., None], *names: str) -> None:
    """Add some of the options that several commands have."""
    shared: dict[str, tuple] = {
        "data-dir": (
            "folder of prepared TFDS data sets (default: TFDS_DATA_DIR)", str, "DIR",
        ),
        "max-success": (
            "exit with 4 if an attack that applies was not finished, or if the upper"
            " end of the 95 %% interval of its success exceeds P, from 0 to 1",
            Number(float, "in [0, 1]", lambda value: 0 <= value <= 1), "P",
        ),
        "quiet": ("print no progress",),
        "redact": ("omit records, guesses, labels and error messages",),
        "registers": (
            "Python file that registers victims, data sets or attacks of your own that"
            " the folder names, such as the configuration that it was made by",
            _file, "FILE",
        ),
    }  # fmt: skip
    for name in names:
        add(f"--{name}", *shared[name])


def _add_audit(parser: argparse.ArgumentParser) -> None:
    add = _adder(parser)
    about = (
        "your function train(images, labels, seed). It gets float32 images (records,"
        " height, width, channels) in [0, 1], or rows of a table. It returns what you"
        " release: a tree of arrays, a PyTorch module, a scikit-learn estimator. It is"
        " called many times: let it train for seconds"
    )
    add("train", about, _training, "FILE.py:FUNCTION")
    about = (
        "the records: an .npz file with the arrays images and labels; a .csv table; a"
        " folder with a folder of images for each class; digits, or a TFDS name"
    )
    add("--data", about, _data, required=True)
    add("--label", "column of a .csv table that has the labels", str, "COLUMN")
    _add_shared(add, "data-dir")
    shown = "(default: %(default)g)"
    about = f"maximum number of records to attack {shown}"
    add("--targets", about, _COUNT, "N", default=AUDIT["targets"])
    about = (
        "number of other training records, which the attacker knows (default: half of"
        " the data, at most 1,000)"
    )
    add("--fixed", about, _COUNT, "N")
    about = (
        "time limit of the whole audit; the page is written at its end from what is"
        f" there {shown}"
    )
    add("--minutes", about, _POSITIVE, default=AUDIT["minutes"])
    about = (
        "report how much noise training needs so that no attack succeeds more often"
        f" than this {shown}"
    )
    add("--threshold", about, _THRESHOLD, "P", default=AUDIT["threshold"])
    about = f"seed of all random choices of the audit {shown}"
    add("--seed", about, _FROM_0, "N", default=AUDIT["seed"])
    about = "also train a network that improves the kernel attack; adds minutes"
    add("--reconn", about)
    more: dict[str, Any] = {"action": "append", "default": []}
    about = (
        "leave out the inversion of the training, or the game with noisy training; may"
        " be given several times"
    )
    add("--skip", about, PARTS, **more)
    about = "only report which attacks apply to your training, and what to fix"
    add("--check", about)
    about = "write a page (.html) or numbers (.json); may be given several times"
    add("--out", about, str, "FILE", **more)
    _add_shared(add, "max-success", "redact", "quiet")


def _add_page(parser: argparse.ArgumentParser) -> None:
    add = _adder(parser)
    add("workdir", "folder of a run", _run, "WORKDIR")
    add("--out", "the page (default: WORKDIR/report.html)", str, "FILE.html")
    _add_shared(add, "redact")
    about = "where the models are that were attacked (default: WORKDIR)"
    add("--shadow", about, str, "DIR")
    _add_shared(add, "registers")


def _add_run(parser: argparse.ArgumentParser, name: str) -> None:
    add, is_shadow = _adder(parser), name == "shadow"
    if is_shadow:
        about = (
            "make (default): train models; plan: what that will cost; info: what is in"
            " STORE; verify: check it; merge: join other stores to it"
        )
        add("action", about, ("make", "plan", *ACTIONS), nargs="?", default="make")
        about = "folder or address of a store, or of a run's two stores"
        add("stores", about, str, "STORE", nargs="*")
    about = (
        "settings of the run: a Python file, such as configs/digits.py, or a bundled"
        " one by name: cifar10, digits, kkt, landscape, mnist (with a size: mnist:cpu)"
    )
    needed = not is_shadow and name != "kkt"
    add("--config", about, str, "FILE[:SIZE]", required=needed)
    about = "folder that the run reads and writes"
    add("--workdir", about, str, "DIR", required=not is_shadow)
    if name not in ("kkt", "landscape", "bilevel"):
        about = "attack the shadow models of another workdir, or of s3://bucket/mnist"
        add("--shadow", about, str, "DIR")
    about = "go on with what other versions of jax or of this package made"
    add("--accept-versions", about)
    _add_shared(add, "data-dir", "quiet")
    if is_shadow:
        _add_shadow(add)
    elif name == "run":
        _add_shared(add, "max-success")
    elif name == "kkt":
        about = (
            "attack these weights, that any program trained: .safetensors, .npz, or a"
            " folder that Orbax wrote"
        )
        add("--weights", about, _weights, "FILE")
        about = "their training images, then others as a control: .npz, see docs/kkt.md"
        add("--data", about, _file, "FILE")
    elif name == "attack":
        add("--only", "one of config.attacks (default: all)", str, "NAME")
        about = "train one RecoNN as process I of N; no value: read Slurm or Open MPI"
        more = {"nargs": "?", "const": "auto"}
        add("--distributed", about, str, "HOST:PORT,I/N", **more)


def _add_shadow(add: Callable[..., None]) -> None:
    about = f"verify: models of each store that are trained again (default: {SAMPLE})"
    add("--sample", about, _FROM_0, "N")
    _add_shared(add, "registers")
    add("--devices", "plan: the time on N devices like this one", _COUNT, "N")
    about = "who starts workers: local (default), ray, or what --config registers"
    add("--launcher", about, str)
    about = "run as worker I of N independent workers, I = 0 ... N - 1"
    add("--worker", about, str, "I/N")
    about = "address of the Ray cluster; auto: the one that this machine belongs to"
    add("--address", about, str)
    add("--cpus", "cores per Ray task (default: 1)", _COUNT, "N")
    about = "GPUs per Ray task (default: 1 if the cluster has GPUs, else 0)"
    add("--gpus", about, _GPUS, "N")
    add("--memory", "memory per Ray task (default: 2 GiB)", _COUNT, "BYTES")
    about = f"environment variables for Ray's workers (default: {','.join(FORWARDED)})"
    add("--forward", about, lambda names: tuple(names.split(",")), "NAMES")
    about = "how a CNN is computed, see docs/clusters.md (default: suits the device)"
    add("--form", about, str)
    about = "the same bits on the same kind of GPU; slower. verify: of a STORE made so"
    add("--deterministic", about)
    about = "folder of yours alone, for compiled programs that later workers reuse"
    add("--compilation-cache", about, str, "DIR")


def _add_bound(parser: argparse.ArgumentParser, name: str) -> None:
    add = _adder(parser)
    if name == "bound":
        about = (
            "standard deviation of the noise on the sum of clipped gradients, divided"
            " by the clipping norm"
        )
        add("--noise-multiplier", about, _NOISE, "SIGMA")
        about = (
            "accountant history saved from Opacus or jax-privacy as JSON; replaces the"
            " noise and the training options"
        )
        add("--from", about, _file, "FILE.json", dest="history")
    else:
        about = "the probability of a reconstruction that you allow, above kappa"
        add("--gamma", about, _PROBABILITY, "P", required=True)
    about = (
        "the attacker's best chance of guessing the record without the model, such as"
        " 0.001 for one in a thousand; required, or --log-kappa"
    )
    add("--kappa", about, _PROBABILITY, "P")
    add("--log-kappa", "natural logarithm of kappa, instead of --kappa", _LOG, "X")
    about = "either --records, --batch, --epochs and --sampling, or --steps"
    group = _adder(parser.add_argument_group("training", about))
    group("--records", "number of training records", _COUNT, "N")
    group("--batch", "records in a batch", _COUNT, "N")
    group("--epochs", "passes over the training records", _COUNT, "N")
    about = (
        "how batches are drawn, and whether the attacker knows who is in which."
        " shuffled: each record in one batch an epoch, as data loaders do; taken as"
        " known. Secret: poisson, each record in each step with probability batch /"
        " records; allocation, each record in one random step an epoch; fixed, a fresh"
        " random batch of that size in each step. weighted: not supported, stops with"
        " the reason"
    )
    group("--sampling", about, (*SAMPLINGS, "weighted"))
    about = (
        "steps of training. If the attacker knows the batches: steps that use a given"
        " record; then --relation add_or_remove holds for full batches only"
    )
    group("--steps", about, _COUNT, "N")
    about = (
        "probability that a record takes part in a step (default: 1, full batches),"
        " if the attacker doesn't know which records a step used"
    )
    group("--sampling-probability", about, _PROBABILITY, "P")
    about = (
        "the neighbouring training: the record's gradient set to zero (default, always"
        " valid for reconstruction), the record removed, or another in its place"
    )
    add("--relation", about, RELATIONS, default="zero_out")
    add(
        "--delta",
        "delta at which epsilon is reported (default: 1e-5)",
        _DELTA,
        default=1e-5,
    )
    about = "also draw the bound (gamma) against the noise and against epsilon"
    add("--figure", about, Path, "FILE.png")
    about = "Python file that registers bounds of your own: `dp.register_bound`"
    add("--bounds", about, _file, "FILE")
