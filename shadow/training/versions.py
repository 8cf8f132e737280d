"""Hash a user's function, to tell whether it has changed since a result was kept.

`foreign`, audits, and records of victims and attacks that users registered call
`source_hash`; provenance records (`shadow.records`) hold the hash. It covers the
function's file and what it holds: arguments of `partial`, captured variables,
attributes of its object, and the files of functions and classes among these. It doesn't
cover globals computed at run time, other imported files, or libraries: where these may
change, give `JaxFunction`, `PythonFunction` or `register_victim` a `version=`.
"""

import contextlib
import functools
import hashlib
import inspect
import itertools
import os
import types
from pathlib import Path
from typing import Any

import numpy as np

from shadow import checks

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_PLAIN_SIZE = type("Plain", (), {}).__basicsize__  # bytes of an object without values


def source_hash(function: Any) -> str:
    """Hash the source file that defines a function, and the values that it holds.

    Raises: ValueError: it has no file, or holds values other than numbers, strings,
      None, functions, classes, and tuples and objects of these.
    """
    return hashlib.sha256("\0".join(_Identity(function).parts).encode()).hexdigest()


class _Identity:
    """Texts that identify a function, by its files and the values it holds."""

    def __init__(self, function: Any) -> None:
        self.parts: list[str] = []
        self._name = getattr(function, "__qualname__", type(function).__name__)
        self._added: list[Any] = []  # so that cyclic references end
        self._add(function)

    def _add(self, value: Any) -> None:
        places = [i for i, other in enumerate(self._added) if value is other]
        if type(value) in _PLAIN or isinstance(value, np.number):
            self.parts.append(repr(value))
        elif isinstance(value, types.ModuleType):  # imported within a function
            self.parts.append(value.__name__)
        elif isinstance(value, tuple):
            self.parts.append(f"{type(value).__qualname__} of {len(value)}")
            if type(value) is not tuple:  # a class of the user's, with methods perhaps
                self._add(type(value))
            for entry in value:
                self._add(entry)
        elif places:
            self.parts.append(f"the value added at {places[0]}")
        else:
            self._added.append(value)
            self._add_new(value)

    def _add_new(self, value: Any) -> None:
        if isinstance(value, functools.partial):
            self._add((value.func, value.args, *sorted(value.keywords.items())))
        elif isinstance(value, types.MethodType):
            self._add((value.__func__, value.__self__))
        elif isinstance(value, types.FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            if "<locals>" in value.__qualname__:  # its methods may capture values
                raise self._refusal(f"{value.__name__} is defined in a function")
            self.parts.append(value.__qualname__)
            self._add_file(value)
        elif _file(type(value)) is None and hasattr(value, "__wrapped__"):
            self._add(value.__wrapped__)  # as by jax.jit
        elif hasattr(value, "__dict__") and _has_no_slots(type(value)):
            self._add((type(value), *sorted(vars(value).items())))
        else:
            raise self._refusal(
                f"a value of type {type(value).__name__} can't be hashed"
            )

    def _add_function(self, function: types.FunctionType) -> None:
        code, wrapped = function.__code__, getattr(function, "__wrapped__", None)
        if wrapped is None or _file(code) is not None:  # beartype's wrappers lack one
            self._add_file(code)
        # Functions with equal names, such as two lambdas, begin at different places.
        begins = [place for place in code.co_positions() if place[2] != place[3]][:1]
        self.parts.append(f"{code.co_qualname} {code.co_firstlineno} {begins}")
        cells = [c for c in function.__closure__ or () if c != types.CellType()]
        self._add(tuple(cell.cell_contents for cell in cells))
        named = sorted((function.__kwdefaults__ or {}).items())
        defaults = [*(function.__defaults__ or ()), *itertools.chain(*named)]
        if "<" not in code.co_qualname:  # the file decides those of other types
            defaults = [value for value in defaults if type(value) in _PLAIN]
        self._add(tuple(defaults))
        self._add(wrapped)

    def _add_file(self, value: Any) -> None:
        file = _file(value)
        if file is None:
            raise self._refusal("it has no source file")
        self.parts.append(hashlib.sha256(Path(file).read_bytes()).hexdigest())

    def _refusal(self, why: str) -> checks.FieldError:
        return checks.FieldError(
            "version",
            f"Expected {{}} for {self._name}, since {why}. Name one, and change it"
            " whenever the training changes: version='1'.",
        )


def _file(value: Any) -> str | None:
    """Return the file that defines a class or code; None: there is none."""
    with contextlib.suppress(TypeError, OSError):
        file = inspect.getsourcefile(value)
        return file if file and os.path.isfile(file) else None
    return None


def _has_no_slots(kind: type) -> bool:
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    return kind.__basicsize__ == _PLAIN_SIZE and not slots
