"""The version of a function that trains: a hash of what decides what it does.

It covers the source of the function's module, the values that the function captures,
and the values, when it is asked for, of the globals that it reads: itself, and by way
of the functions and classes of the user's own files that it calls. A learning rate that
comes from the environment is in no source. What a library does is not covered: the
versions of the ones that matter are in every record.

What a global holds can be something that has no content to hash, such as an open file
or a model of another library. It is left out of the hash, and named in a warning.
"""

import argparse
import ast
import contextlib
import contextvars
import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import os
import pathlib
import sysconfig
import types
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from shadow import checks
from shadow.training import edited, imported

_PLAIN = (bool, int, float, complex, str, bytes, os.PathLike, np.dtype, enum.Enum)
_OURS = ("dp", "shadow", "reconn", "informed")  # their revisions are in every record
_LIBRARIES = tuple(
    os.path.realpath(path)
    for name, path in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib", "purelib", "platlib")
)


_begun: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar(
    "functions whose content is being told", default=frozenset()
)
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def source_hash(function: Any) -> str:
    """A hash of a function; see the module.

    Warns: a global that it reads can't be hashed; names it.
    Raises: ValueError: it has no source, or captures a value whose content can't be
      told; says to name a version instead.
    """
    found = _Reader()
    found.function(function)
    if found.unhashed:
        name = getattr(function, "__qualname__", type(function).__name__)
        warnings.warn(
            f"The version of {name} doesn't cover what it reads from"
            f" {', '.join(sorted(found.unhashed))}. Name a version, and change it"
            " whenever these change: version='1'.",
            stacklevel=2,
        )
    return found.digest.hexdigest()


class _Reader:
    """Goes through functions and what they read, each once.

    Attributes:
      digest: the hash of everything that was read.
      unhashed: globals that aren't in it, in words.
    """

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.unhashed: set[str] = set()
        self._seen: set[int] = set()
        # What was seen, so that nothing else gets its address; modules by name.
        self._alive: list[Any] = []
        self._files: set[str] = set()

    def function(self, function: Any) -> None:
        """Put in a function: its source, what it captures, the globals it reads."""
        if isinstance(function, functools.partial):
            self.function(function.func)
            given = [*function.args, *sorted(function.keywords.items())]
            self._put(_content(given))
            self._follow(given)
            return
        *wrappers, function = _layers(function)
        for each in wrappers:
            self._decorator(each)
        if isinstance(function, functools.partial):
            self.function(function)
            return
        if not isinstance(function, types.FunctionType | types.MethodType):
            raise _unknown(f"an object of type {type(function).__name__}")
        try:
            self._put(inspect.getsource(function))
            whole = inspect.getsource(inspect.getmodule(function) or function)
        except (OSError, TypeError) as error:
            raise _unknown("a function whose source isn't there") from error
        edited.require_current(function, whole)
        self._put(whole)
        captured = _captured(function)
        if isinstance(function, types.MethodType):
            captured.append(function.__self__)
        self._put(_content(captured))
        self._attributes(function)
        self._read(function)

    def _wrapper(self, function: Any) -> None:
        """Put in a decorator around a function, as what it captures decides as much.

        Of a library's decorator, such as `jax.vmap`, only what can be told is put in.
        """
        if not isinstance(function, types.FunctionType):
            return
        code = function.__code__
        if not _of_user(None, code.co_filename):
            # `functools.singledispatch` keeps its functions here, by type.
            registered = getattr(function, "registry", None)
            for each in [*_captured(function), registered]:
                with contextlib.suppress(ValueError):
                    self._put(_content(each))
            return
        try:
            self._put(inspect.getsource(code))
        except (OSError, TypeError) as error:
            raise _unknown("a decorator whose source isn't there") from error
        self._put(_content(_captured(function)))
        self._read(function)

    def _attributes(self, function: Any) -> None:
        """Put in what was set on a function, as `step.rate = 0.1` does.

        What its own code sets is left out: it is another value after each call.
        """
        plain = getattr(function, "__func__", function)
        stored = _stored(plain.__code__, "STORE_ATTR")
        for name, value in sorted(vars(function).items()):
            if not name.startswith("__") and name not in stored:
                self._value(f"{function.__qualname__}.{name}", value)

    def _saw(self, value: Any) -> None:
        self._seen.add(id(value))
        self._alive.append(value)

    def _put(self, text: str) -> None:
        self.digest.update(text.encode() + b"\0")

    def _read(self, function: Any) -> None:
        """Put in the globals that a function reads."""
        plain: Any = getattr(function, "__func__", function)
        if id(plain) in self._seen:
            return
        self._saw(plain)
        for each in [*_captured(plain), getattr(function, "__self__", None)]:
            self._follow(each)
        names = _names(plain.__code__)
        if {"environ", "getenv"} & names:
            self.unhashed.add("os.environ")
        if {"import_module", "__import__"} & names:
            self.unhashed.add("modules that it imports by their names")
        # What its own code sets, such as a counter, is another value after each call.
        stored = _stored(plain.__code__, "STORE_GLOBAL") & names
        for name in sorted((names - stored) & plain.__globals__.keys()):
            self._global(name, plain.__globals__[name], names)
        # What it begins at is in the source where it is written there.
        for name in (stored & plain.__globals__.keys()) - _constants(plain):
            self.unhashed.add(f"{name}, which it sets")
        self._modules(imported.modules(plain.__code__, plain.__globals__))

    def _modules(self, names: set[str]) -> None:
        """Put in the sources of modules of the user's, and of those they import.

        Nothing is run: a module may do something where it is imported, and what it
        holds is another thing before and after.
        """
        for name in sorted(names - self._files):
            self._files.add(name)
            spec = imported.spec(name)
            if spec is None or not _of_user(name, spec.origin):
                continue
            try:
                text = pathlib.Path(str(spec.origin)).read_text()
                tree = ast.parse(text)
            except (OSError, UnicodeDecodeError, SyntaxError):
                self.unhashed.add(f"the module {name}")
                continue
            self._put(f"{name}: {text}")
            inside = spec.submodule_search_locations is not None
            package = name if inside else name.rpartition(".")[0]
            self._modules(
                {
                    each
                    for node in ast.walk(tree)
                    if isinstance(node, ast.Import | ast.ImportFrom)
                    for each in imported.names(node, package)
                }
            )

    def _global(self, name: str, value: Any, names: set[str]) -> None:
        """Put in one global; of a user's module the attributes read."""
        plain = _plain(value)
        if isinstance(plain, types.ModuleType):
            if _of_user(plain.__name__, getattr(plain, "__file__", None)):
                for inner in sorted(names & vars(plain).keys()):
                    self._global(f"{name}.{inner}", vars(plain)[inner], names)
        elif isinstance(plain, type | types.FunctionType | types.MethodType):
            self._put(f"{name} is {plain.__module__}.{plain.__qualname__}")
            self._follow(value)
        elif callable(plain) and not hasattr(plain, "__dict__"):
            self._put(f"{name} is {getattr(plain, '__qualname__', repr(type(plain)))}")
        else:
            self._value(name, plain)
            self._follow(value)

    def _value(self, name: str, value: Any) -> None:
        """Put in a value, or note that it can't be."""
        try:
            self._put(f"{name} = {_content(value)}")
        except ValueError:
            self.unhashed.add(f"{name} ({type(value).__name__})")

    def _follow(self, value: Any) -> None:
        """Read on in code of the user's, also in what holds it."""
        if isinstance(value, enum.Enum):
            self._follow(value.value)
        if isinstance(value, list | tuple | set | frozenset | dict):
            if id(value) not in self._seen:
                self._saw(value)
                for each in value.values() if isinstance(value, dict) else value:
                    if not isinstance(each, bool | int | float | complex | str | bytes):
                        self._follow(each)
            return
        *wrappers, value = _layers(value)
        for each in wrappers:
            self._decorator(each)
        if isinstance(value, functools.partial):
            self._follow(value.func)
            return
        if not isinstance(value, type | types.FunctionType | types.MethodType):
            kind = type(value)
            if _of_user(kind.__module__, _file(kind)):
                self._follow(kind)
            return
        if id(value) in self._seen or not _of_user(value.__module__, _file(value)):
            return
        if not isinstance(value, type):
            self._put(_source(value))
            self._capturing(value)
            self._attributes(value)
            self._read(value)
            return
        self._saw(value)
        self._put(_source(value))
        for base in value.__bases__:
            self._follow(base)
        for name, inner in sorted(vars(value).items()):
            inner = getattr(inner, "__func__", inner)
            inner = inner.fget if isinstance(inner, property) else inner
            if isinstance(inner, functools.cached_property):
                inner = inner.func
            if isinstance(inner, types.FunctionType):
                for each in _layers(inner):
                    own = isinstance(each, types.FunctionType)
                    if own and _of_user(None, each.__code__.co_filename):
                        self._capturing(each)
                        self._attributes(each)
                        self._read(each)
            elif not name.startswith(("__", "_abc")) and not isinstance(inner, _SLOTS):
                self._global(f"{value.__qualname__}.{name}", inner, set())

    def _decorator(self, function: Any) -> None:
        """Put in what decorates a function, or note that it can't be."""
        if id(function) in self._seen:
            return
        self._saw(function)
        try:
            self._wrapper(function)
        except ValueError:
            self.unhashed.add(f"what decorates {function.__qualname__}")

    def _capturing(self, function: Any) -> None:
        """Put in what a function captures, or note that it can't be."""
        for each in _captured(function):
            self._value(f"what {function.__qualname__} captures", each)


def _captured(function: Any) -> list[Any]:
    plain: Any = getattr(function, "__func__", function)
    found = []
    for cell in plain.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # a name that was never given a value
            found.append(None)
    return [*found, *(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).items()]


def _plain(value: Any) -> Any:
    """The function below decorators such as `jax.jit`."""
    return _layers(value)[-1]


def _layers(value: Any) -> list[Any]:
    """A function in its decorators, the outermost first."""
    found = [value]
    while hasattr(found[-1], "__wrapped__") and not isinstance(found[-1], type):
        found.append(found[-1].__wrapped__)
    return found


def _names(code: types.CodeType) -> set[str]:
    """Every name that code reads, functions within it included."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _stored(code: types.CodeType, how: str) -> set[str]:
    """Names that code sets by such an instruction, functions within it included."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    own = {each.argval for each in dis.get_instructions(code) if each.opname == how}
    return own.union(*(_stored(each, how) for each in inner))


def _constants(function: Any) -> set[str]:
    """Names that the module of a function begins with, as constants in its source."""
    try:
        tree = ast.parse(_source(function))
    except SyntaxError:
        return set()
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _file(value: Any) -> str | None:
    try:
        return inspect.getsourcefile(value)
    except (TypeError, OSError):
        return None


def _of_user(module: str | None, file: str | None) -> bool:
    """Whether this is a file of the user's, rather than of a library."""
    if file is None or (module or "").split(".")[0] in _OURS:
        return False
    if file.startswith("<"):  # made at run time, as by dataclasses and beartype
        return False
    path = os.path.realpath(file)
    return not any(path.startswith(folder + os.sep) for folder in _LIBRARIES)


def _source(value: Any) -> str:
    """The source of a value's module, "" where it isn't there.

    Raises: FieldError: the module was edited since it was imported.
    """
    try:
        source = inspect.getsource(inspect.getmodule(value) or value)
    except (OSError, TypeError):
        return ""
    edited.require_current(value, source)
    return source


def _content(value: Any) -> str:
    """A text that is the same for equal values alone.

    Raises: ValueError: there is no telling.
    """
    if value is None or isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_content, value))})"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_content, value)))}}}"
    if isinstance(value, dict | types.MappingProxyType):
        return f"{{{', '.join(sorted(map(_content, value.items())))}}}"
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _of_array(value)
    if type(value).__module__.startswith("torch") and hasattr(value, "detach"):
        return _of_array(value.detach().cpu().numpy())
    if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
        return _of_function(value)
    owner = getattr(value, "__self__", None)
    if isinstance(value, types.BuiltinFunctionType):
        if owner is None or isinstance(owner, types.ModuleType):
            return repr(value)
        return f"{value.__qualname__} of {_content(owner)}"
    if isinstance(value, type | types.ModuleType):
        return repr(value)
    fields = list(_fields(value))
    return f"{type(value).__qualname__}{_content(fields)}"


def _of_array(value: Any) -> str:
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise _unknown("a function that captures an array of objects")
    return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"


def _of_function(value: Any) -> str:
    if id(value) in _begun.get():  # it captures itself
        return "itself"
    token = _begun.set(_begun.get() | {id(value)})
    try:
        reader = _Reader()
        reader.function(value)
    finally:
        _begun.reset(token)
    return reader.digest.hexdigest()


def _fields(value: Any) -> Iterator[Any]:
    """What a plain holder of values holds.

    Raises: ValueError: it is none.
    """
    if dataclasses.is_dataclass(value):
        yield from (getattr(value, f.name) for f in dataclasses.fields(value))
        # Attributes beside the fields count too. Those that are computed from the rest
        # and kept don't, nor what Flax keeps, which differs between processes.
        parents = inspect.getmro(type(value))
        if any(parent.__module__.startswith("flax.") for parent in parents):
            return
        kept = {f.name for f in dataclasses.fields(value)}
        for name, more in sorted(getattr(value, "__dict__", {}).items()):
            computed = isinstance(
                getattr(type(value), name, None), functools.cached_property
            )
            if name not in kept and not computed:
                yield name, more
    elif isinstance(value, types.SimpleNamespace | argparse.Namespace):
        yield vars(value)
    elif type(value).__module__.startswith("ml_collections."):  # a ConfigDict
        yield value.to_dict()
    elif callable(value) and hasattr(value, "__self__"):
        yield from (value.__qualname__, type(value.__self__))
    else:
        raise _unknown(f"a function that captures a value of {type(value).__name__}")


def _unknown(what: str) -> ValueError:
    return checks.FieldError(
        "version",
        f"{{}} can't be taken from the source of {what}. Name one, and change it"
        " whenever the training changes: version='1'.",
    )
