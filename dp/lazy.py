"""Lazy imports for the `__init__` files of packages: on first use (PEP 562).

    __getattr__, __dir__, __all__ = lazy.names(
        __name__, {"shadow.factory": "Factory", "shadow.data": "Examples Split split"}
    )

A module of a package can then be used without the dependencies of the others. The
`__init__` files of all packages but `uninformed` call `names`.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's `__getattr__`, `__dir__` and `__all__`.

    Modules of the package are attributes too; looking one up imports it.

    Args:
      package: `__name__` of the package.
      modules: module -> the public names that it defines, separated by spaces;
        "build_victim=build" is `build` there, and public as `build_victim`.
    """
    where = {}
    for module, listing in modules.items():
        for entry in listing.split():
            public, _, inner = entry.partition("=")
            where[public] = (module, inner or public)

    def look_up(name: str) -> Any:
        if name in where:
            module, inner = where[name]
            value = getattr(importlib.import_module(module), inner)
            setattr(sys.modules[package], name, value)
            return value
        missing = AttributeError(f"module {package!r} has no attribute {name!r}")
        if name.startswith("_"):
            raise missing
        try:
            return importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise missing from None

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return look_up, listed, sorted(where)
