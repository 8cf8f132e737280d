"""Whether a module still is what its file says: a session may edit what it imported."""

import functools
import importlib.machinery
import inspect
import types
from collections.abc import Iterator
from typing import Any

from shadow import checks


def require_current(function: Any, source: str) -> None:
    """Raise FieldError where functions of a module aren't what its file says by now.

    What a session runs is what it imported. Modules that something else than Python's
    own loader made, such as tests that pytest rewrites, can't be compared.
    """
    module = inspect.getmodule(function)
    file = getattr(module, "__file__", None)
    loader = getattr(module, "__loader__", None)
    if type(loader) is not importlib.machinery.SourceFileLoader:
        return
    codes = _codes(source, str(file))
    for each in [function, *_defined_in(module)]:
        code = getattr(each, "__code__", None)
        if code is None:  # a class
            continue
        if code.co_filename == file and not any(code == other for other in codes):
            raise checks.FieldError(
                "version",
                f"{{}} can't be taken from the source of {each.__qualname__}: {file}"
                " was edited since it was imported. Import it again, in a new session,"
                " or name a version.",
            )


def _defined_in(module: Any) -> Iterator[types.FunctionType]:
    """Functions of a module and of its classes, decorated ones too."""
    for value in vars(module).values():
        for each in vars(value).values() if isinstance(value, type) else (value,):
            while isinstance(each, types.FunctionType):
                yield each
                each = getattr(each, "__wrapped__", None)


@functools.lru_cache(maxsize=32)
def _codes(source: str, file: str) -> list[types.CodeType]:
    """The code of all functions in a file."""
    found = [compile(source, file, "exec", dont_inherit=True)]
    for code in found:  # which grows
        found += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return found
