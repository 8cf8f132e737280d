"""Checks of configurations and arguments, with one-line errors; hashes for records.

All packages but `dp` call this; it builds on `dp.domain`. `build` makes dataclasses of
settings. `records`, stores and others hash by `fingerprint` and `digest`, and compare
by `differences`; tables of registered functions tell these apart by `place`.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from dp.domain import FieldError as FieldError
from dp.domain import choice as choice
from dp.domain import integer as integer
from dp.domain import nearest as nearest
from dp.domain import require as require


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class name if empty."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def named(error: BaseException) -> str:
    """Return an error's class name and the first line of its message."""
    name, first = type(error).__name__, first_line(error)
    return name if first == name else f"{name}: {first}"


def at_least(field: str, value: int | float, bound: int | float) -> None:
    """Raise FieldError unless `value` >= `bound`."""
    require(field, value, value >= bound, f">= {bound}")


def positive(field: str, value: int | float) -> None:
    """Raise FieldError unless `value` is finite and > 0."""
    require(field, value, 0 < value < np.inf, "> 0 and finite")


def within(field: str, value: int | float, low: int | float, high: int | float) -> None:
    """Raise FieldError unless `value` is in [low, high)."""
    require(field, value, low <= value < high, f"in [{low:g}, {high:g})")


@contextlib.contextmanager
def under(place: str) -> Iterator[None]:
    """Rename the field of a FieldError raised inside to `place.field`."""
    try:
        yield
    except FieldError as error:
        raise error.within(place) from error


@contextlib.contextmanager
def called(names: Mapping[str, str]) -> Iterator[None]:
    """Rename the field of a FieldError raised inside to the caller's name for it."""
    try:
        yield
    except FieldError as error:
        raise error.called(names) from error


def build(cls: type, values: Mapping[str, Any], where: str = "config") -> Any:
    """Make a (nested) frozen dataclass from a plain mapping, strictly.

    Args:
      cls: a dataclass whose fields are int, float, bool, str, a tuple of one of
        them, an optional one of them, another such dataclass, a mapping of names to
        one, or a class with a method `from_values(values, where)`.
      values: field name -> value; a field left out takes its default.
      where: the name of the mapping in messages, as in "config.shadow".
    Raises: ValueError: unknown field (with the nearest name), missing field, wrong
      type, or a value the dataclass itself refuses, named with its whole path.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in values:
        if name not in fields:
            raise ValueError(
                f"{where} has no field {name!r}.{nearest(name, fields)}"
                f" Fields: {', '.join(fields)}."
            )
    hints = typing.get_type_hints(cls)
    made = {
        name: _convert(hints[name], value, f"{where}.{name}")
        for name, value in values.items()
    }
    for name, field in fields.items():
        required = (
            field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        )
        if required and name not in made:
            raise ValueError(f"{where}.{name} is missing.")
    with under(where):
        return cls(**made)


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Return `value` as the annotated type, without guessing."""
    if typing.get_origin(hint) is Mapping:
        if not isinstance(value, Mapping):
            raise ValueError(
                f"Expected {where} to be a group of groups, got {value!r}."
            )
        item = typing.get_args(hint)[1]
        return {name: _convert(item, v, f"{where}.{name}") for name, v in value.items()}
    if hasattr(hint, "from_values") and isinstance(value, Mapping):
        return hint.from_values(value, where)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ValueError(
                f"Expected {where} to be a group of fields, got {value!r}."
            )
        return build(typing.cast(type, hint), value, where)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return None if value is None else _convert(inner[0], value, where)
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, Iterable):
            value = (value,)
        item = typing.get_args(hint)[0]
        return tuple(_convert(item, v, f"{where}[{i}]") for i, v in enumerate(value))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ValueError(
            f"Expected {where} to be of type {hint.__name__}, got {value!r}"
            f" ({type(value).__name__})."
        )
    return value


def fingerprint(value: Any) -> str:
    """Hash a JSON-able value by SHA-256, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def place(function: Any) -> tuple[str, str, str]:
    """Return module, name and file of a function or class, to identify it.

    They are the same when a file or a notebook's cell is run again.
    """
    if isinstance(function, functools.partial):
        module, name, file = place(function.func)
        given = (function.args, sorted(function.keywords.items()))
        return module, f"{name}{given!r}", file
    named = function if hasattr(function, "__qualname__") else type(function)
    file = getattr(getattr(named, "__code__", None), "co_filename", "")
    written = os.path.isfile(file) and "ipykernel" not in file
    module = getattr(named, "__module__", None) or ""  # none of what `exec` made
    return module, named.__qualname__, file if written else ""


def digest(values: np.ndarray) -> str:
    """Hash an array's bytes by SHA-256, little-endian, in C order."""
    array = np.ascontiguousarray(values)
    little = array.astype(array.dtype.newbyteorder("<"))
    # As bytes, since some types, such as bfloat16, don't support the buffer protocol.
    return hashlib.sha256(little.reshape(-1).view(np.uint8).data).hexdigest()


def differences(recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """List lines "a.b: x there, y asked for", one per field that differs."""
    lines = []
    there, asked = _flat(recorded), _flat(wanted)
    for name in sorted(there.keys() | asked.keys()):
        left, right = there.get(name, "(absent)"), asked.get(name, "(absent)")
        if left != right:
            lines.append(f"{name}: {left!r} there, {right!r} asked for")
    return lines


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings to one level with dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = list(value) if isinstance(value, tuple) else value
    return flat
