"""Which modules code imports where it runs, found without importing anything.

A module may do something where it is imported, and what it holds is another thing
before and after.
"""

import ast
import dis
import types
from collections.abc import Mapping
from importlib import machinery
from typing import Any


def modules(code: types.CodeType, variables: Mapping[str, Any]) -> set[str]:
    """Modules that code imports where it runs, and what may be modules of theirs."""
    found: set[str] = set()
    before: list[dis.Instruction] = []
    for each in dis.get_instructions(code):
        if each.opname == "IMPORT_NAME":
            level, picked = (one.argval for one in before[-2:])
            aliases = [ast.alias(name) for name in picked or ()]
            node = ast.ImportFrom(each.argval or None, aliases, level or 0)
            found |= names(node, variables.get("__package__") or "")
        before.append(each)
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return found.union(*(modules(each, variables) for each in inner))


def names(node: ast.Import | ast.ImportFrom, package: str) -> set[str]:
    """Full names of what a statement imports, with the packages they are in."""
    if isinstance(node, ast.Import):
        wanted = [alias.name for alias in node.names]
    else:
        base = node.module or ""
        if node.level:
            kept = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*kept, *([base] if base else [])])
        wanted = [base, *(f"{base}.{alias.name}" for alias in node.names)]
    pieces = [name.split(".") for name in wanted if name]
    return {".".join(each[: i + 1]) for each in pieces for i in range(len(each))}


def spec(name: str) -> Any:
    """Where a module is, found without importing anything; None: nowhere."""
    where: Any = None
    found = None
    pieces = name.split(".")
    for i in range(len(pieces)):
        found = machinery.PathFinder.find_spec(".".join(pieces[: i + 1]), where)
        if found is None:
            return None
        where = found.submodule_search_locations
        if where is None and i + 1 < len(pieces):
            return None
    return found
