"""The contract of an audit: a training function of the user's, found and called.

    train(images, labels, key) -> what is released

`key` is a JAX key; it is an int where the parameter is annotated `int` or called
`seed`, `random_seed` or `random_state`; it may be left out where training draws
nothing. What comes back is any tree of arrays, a PyTorch module or its state_dict, or a
fitted estimator of scikit-learn's (`released`).

The file may hold more:

    predict(released, images) -> scores (examples, classes)   for accuracy and black box
    PRIVACY = {"noise_multiplier": 1.0, "steps": 100, ...}     what bounds may rely on

and where `train` takes a keyword `noise_multiplier`, other values of it are tried. Its
default has to be the noise that PRIVACY declares: targets are trained with that.
"""

import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from shadow import checks
from shadow.training import foreign

SEEDS = ("seed", "random_seed", "random_state")
TAKES = ("key", "seed", "nothing")
NOISE = "noise_multiplier"


@dataclasses.dataclass(frozen=True)
class InFile:
    """A function by the file that it is in, so that other processes find it too.

    Attributes:
      path: of the file.
      name: of the function.
      content: SHA-256 of the file as it was when the function was found.
    """

    path: str
    name: str
    content: str

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function, in the file as it was.

        Raises: ValueError: the file was changed before this process had read it.
        """
        module = _module(Path(self.path), self.content)
        return getattr(module, self.name)(*arguments, **named)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contract:
    """A training function, and what is known of it before it is run.

    Attributes:
      train: the function, as it can be sent to other processes.
      name: for people, such as "mine.py:train".
      takes: one of `TAKES`, what its third argument is.
      predict: (released, images) -> scores (examples, classes), or None.
      privacy: what its noise is said to be; None: it adds none.
      noisy: whether it takes the keyword `noise_multiplier`.
      default_noise: the default of that keyword, which is what training adds where
        nobody says otherwise; None: it has none, or it is no number.
      version: a hash of the source, or the user's own.
    """

    train: Callable
    name: str
    takes: str
    predict: Callable | None = None
    privacy: Mapping[str, Any] | None = None
    noisy: bool = False
    default_noise: float | None = None
    version: str


def load(
    where: str | Callable,
    *,
    version: str | None = None,
    predict: Callable | None = None,
    privacy: Mapping[str, Any] | None = None,
) -> Contract:
    """Find a training function, and what its file says of it.

    Args:
      where: "mine.py:train", or the function itself.
      version: names this version of it; None: a hash of its source.
      predict, privacy: where they aren't in the file.
    Raises: FieldError: no such function, or one that can't be called as the contract
      says; FileNotFoundError; ValueError: the file can't be run.
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
        privacy = privacy or getattr(module, "PRIVACY", None)
        title, version = f"{file.name}:{name}", version or content
    else:
        train = function = where
        title = getattr(where, "__qualname__", type(where).__name__)
    noise = inspect.signature(function).parameters.get(NOISE)
    default: Any = None if noise is None else noise.default
    number = isinstance(default, int | float) and not isinstance(default, bool)
    return Contract(
        train=train,
        name=title,
        takes=takes_of(function),
        predict=predict,
        privacy=privacy,
        noisy=noise is not None,
        default_noise=float(default) if number else None,
        version=version or foreign.source_hash(function),
    )


def _hash(file: Path) -> str:
    """Return the SHA-256 of a file; "" where it is gone."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


@functools.cache
def _module(file: Path, content: str) -> ModuleType:
    """Load a file with such a content, which can import its neighbours.

    A neighbour that this process has imported is not loaded again.

    Raises: ValueError: the file has another content, or can't be run.
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
    """Tell what a training function's third argument is: one of `TAKES`.

    Raises: FieldError: it can't be called with images, labels and a key.
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
    if third.annotation in (int, "int") or third.name in SEEDS:
        return "seed"
    if third.name != "key" and third.default is not third.empty:
        return "nothing"  # an option of the user's
    return "key"


_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD
