"""Load the user's training function, and check that it keeps the contract of audits:

    train(images, labels, key) -> what is released

`key` is a JAX key, or an int if the parameter is annotated `int` or called `seed`,
`random_seed` or `random_state`; it may be omitted if training draws nothing. The
function returns any tree of arrays, a PyTorch module or its state_dict, or a fitted
estimator of scikit-learn (`released`).

The file may also define:

    predict(released, images) -> scores (examples, classes)   for accuracy and black box
    PRIVACY = {"noise_multiplier": 1.0, "steps": 100, ...}    DP-SGD, for the bounds

With `noise_multiplier` 0, PRIVACY says how training takes its steps and that it adds no
noise yet. The audit then says how much noise these steps need.

If there is PRIVACY and `train` takes a keyword `noise_multiplier`, the audit tries
other values. The default, which released models get, must be what PRIVACY declares.

`auditing` calls `load_training`, which runs the file but not the function; `noise_game`
calls `mechanism`.
"""

import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import numbers
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import dp
from shadow import checks
from shadow.training import foreign

SEEDS = ("seed", "random_seed", "random_state")
TAKES = ("key", "seed", "nothing")
NOISE = "noise_multiplier"
# Neighbouring data sets of the bounds: the record's gradient is replaced by zero.
RELATION = "zero_out"
_FIELDS = (NOISE, "steps", "sampling_probability", "clip_norm")


@dataclasses.dataclass(frozen=True)
class InFile:
    """A function referenced by its file, so that other processes can load it.

    Attributes:
      path: path of the file.
      name: name of the function.
      content: SHA-256 of the file when the function was first loaded.
    """

    path: str
    name: str
    content: str

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function, loading its file first if this process hasn't.

        Raises: ValueError: the file was changed before this process had read it.
        """
        module = _module(Path(self.path), self.content)
        return getattr(module, self.name)(*arguments, **named)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contract:
    """A training function, and what is known about it before it runs.

    Attributes:
      train: the function, in a form that can be sent to other processes.
      name: name to display, such as "mine.py:train".
      takes: one of `TAKES`, what its third argument is.
      predict: (released, images) -> scores (examples, classes), or None.
      privacy: PRIVACY, the declared DP-SGD; None: training declares none.
      noisy: whether `train` takes the keyword `noise_multiplier`.
      shipped_noise: the noise multiplier of released models, by `declared`; None:
        PRIVACY is missing.
      version: a hash of the source, or the user's name for it.
    """

    train: Callable
    name: str
    takes: str
    predict: Callable | None = None
    privacy: Mapping[str, Any] | None = None
    noisy: bool = False
    shipped_noise: float | None = None
    version: str

    @property
    def private(self) -> bool:
        """Whether training declares noise, whose randomness is then secret."""
        return bool(self.shipped_noise)


def load_training(
    where: str | Callable,
    *,
    version: str | None = None,
    predict: Callable | None = None,
    privacy: Mapping[str, Any] | None = None,
) -> Contract:
    """Load a training function; of FILE.py:FUNCTION also the file's declarations.

    Args:
      where: "mine.py:train", or the function itself.
      version: names this version of the function; None: a hash of its source.
      predict, privacy: replace the ones in the file.
    Raises: FieldError: there is no such function, it can't be called as the contract
      says, or PRIVACY declares noise that it doesn't add; FileNotFoundError;
      ValueError: the file can't be run.
    """
    if isinstance(where, str):
        path, colon, name = where.rpartition(":")
        if not colon or not path.endswith(".py"):
            raise checks.FieldError(
                "train", f"Expected {{}} as FILE.py:FUNCTION, got {where!r}."
            )
        file = Path(path).resolve()
        if not file.is_file():
            raise FileNotFoundError(f"There is no file {path}.")
        content = _hash(file)
        module = _module(file, content)
        functions = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and not key.startswith("_")
        ]
        function: Any = getattr(module, name, None)
        if not callable(function):
            raise checks.FieldError(
                "train",
                f"{{}}: {path} has no function {name!r}; it has"
                f" {', '.join(functions) or 'none'}.{checks.nearest(name, functions)}",
            )
        train: Callable = InFile(str(file), name, content)
        if predict is None and hasattr(module, "predict"):
            predict = InFile(str(file), "predict", content)
        privacy = getattr(module, "PRIVACY", None) if privacy is None else privacy
        title, version = f"{file.name}:{name}", version or content
    else:
        train = function = where
        title = getattr(where, "__qualname__", type(where).__name__)
    noise = inspect.signature(function).parameters.get(NOISE)
    default: Any = None if noise is None else noise.default
    number = isinstance(default, int | float) and not isinstance(default, bool)
    default, shipped = float(default) if number else None, None
    if privacy is not None:
        shipped = declared(privacy, given=noise is not None, default=default)
    return Contract(
        train=train,
        name=title,
        takes=takes_of(function),
        predict=predict,
        privacy=privacy,
        noisy=noise is not None,
        shipped_noise=shipped,
        version=version or foreign.source_hash(function),
    )


def _hash(file: Path) -> str:
    """Return the SHA-256 of a file; "" if it no longer exists."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


@functools.cache
def _module(file: Path, content: str) -> ModuleType:
    """Load a Python file if its SHA-256 is `content`; it can import its neighbours.

    A neighbour that this process has imported is not loaded again.

    Raises: ValueError: the file has changed, or can't be run.
    """
    if _hash(file) != content:
        raise ValueError(f"{file} was changed while it was audited. Begin again.")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    name = file.stem if file.stem not in sys.modules else f"audited_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(
            f"{file} can't be read: {type(error).__name__}: {error}"
        ) from error
    return module


def takes_of(function: Callable) -> str:
    """Return the kind of a training function's third argument, one of `TAKES`.

    Raises: FieldError: the function can't be called with images, labels and a key.
    """
    parameters = list(inspect.signature(function).parameters.values())
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, _EITHER)]
    open_end = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required = [p for p in places if p.default is p.empty]
    needs = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if (len(places) < 2 and not open_end) or len(required) > 3 or needs:
        raise checks.FieldError(
            "train",
            "Expected {} to take (images, labels, key), got"
            f" {inspect.signature(function)}. Other arguments need defaults.",
        )
    if len(places) < 3:
        return "key" if open_end else "nothing"
    third = places[2]
    if third.name in SEEDS:
        return "seed"
    if third.name != "key" and third.default is not third.empty:
        return "nothing"  # the third parameter is an unrelated option
    return "seed" if third.annotation in (int, "int") else "key"


def mechanism(privacy: Mapping[str, Any], sigma: float) -> dp.PoissonGaussian:
    """Return the mechanism that PRIVACY declares, at noise multiplier `sigma`.

    Raises: FieldError: a field is missing, unknown or invalid.
    """
    for name in privacy:
        checks.choice("PRIVACY", name, _FIELDS)
    if "steps" not in privacy:
        raise checks.FieldError("PRIVACY", "{} lacks steps, the number of noisy steps.")
    return dp.PoissonGaussian(
        noise_multiplier=sigma,
        sampling_probability=float(privacy.get("sampling_probability", 1.0)),
        steps=privacy["steps"],
        relation=RELATION,
    )


def declared(privacy: Any, *, given: bool, default: float | None) -> float:
    """Return the noise multiplier of the released models, for which the bound holds.

    Args:
      privacy: PRIVACY, what training declares.
      given: whether training takes the noise multiplier as an argument.
      default: default of that argument; None: there is none, or it isn't a number.
    Raises: FieldError: PRIVACY is invalid, or declares other noise than training adds
      by default.
    """
    if not isinstance(privacy, Mapping) or not all(
        isinstance(value, numbers.Real) for value in privacy.values()
    ):
        raise checks.FieldError(
            "PRIVACY", f"Expected {{}} to be a dictionary of numbers, got {privacy!r}."
        )
    named = privacy.get("noise_multiplier")
    if named is None and not given:
        raise checks.FieldError(
            "PRIVACY",
            "{} lacks noise_multiplier, and train has no keyword of that name.",
        )
    if given and default is None:
        raise checks.FieldError(
            "noise_multiplier",
            "Expected the keyword {} of train to have a number as its default, the"
            " noise that is added to what you ship.",
        )
    if given and named is not None and float(named) != default:
        raise checks.FieldError(
            "PRIVACY",
            f"{{}} declares noise_multiplier {float(named):g}, but train adds"
            f" {default:g} by default. Make both the noise of what you ship.",
        )
    sigma = float(default if named is None else named)  # type: ignore[arg-type]
    mechanism(privacy, sigma or 1.0)
    return sigma


_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD
