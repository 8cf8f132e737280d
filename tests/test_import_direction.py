"""Imports go dp -> shadow -> reconn -> informed -> uninformed, never back.

And files import each other in no circle: what a file needs stands before it.
"""

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "dp": {"dp"},
    "shadow": {"dp", "shadow"},
    "reconn": {"dp", "shadow", "reconn"},
    "informed": {"dp", "shadow", "reconn", "informed"},
    "uninformed": {"dp", "shadow", "reconn", "informed", "uninformed"},
}
OURS = {*MAY_IMPORT, "configs", "tests", "benchmarks"}


def modules(source: str) -> Iterator[str]:
    """Every module or name that a file imports, in functions too, in full."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def file_of(module: str) -> Path | None:
    """The file that a module, or a name in a module, is from; None: not ours."""
    parts = module.split(".")
    if parts[0] not in OURS:
        return None
    for end in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:end])
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.is_file():
                return file.relative_to(ROOT)
    return None


@functools.cache
def graph() -> dict[Path, set[Path]]:
    """File -> the files that it imports."""
    found = {}
    for package in MAY_IMPORT:
        for file in sorted((ROOT / package).rglob("*.py")):
            names = modules(file.read_text())
            found[file.relative_to(ROOT)] = {f for f in map(file_of, names) if f}
    return found


def test_no_package_imports_one_to_its_right() -> None:
    offenders = [
        f"{file} imports {other}"
        for file, others in graph().items()
        for other in sorted(others)
        if other.parts[0] not in MAY_IMPORT[file.parts[0]]
    ]
    assert not offenders


def test_no_circle_of_files() -> None:
    try:
        graphlib.TopologicalSorter(graph()).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" -> ".join(map(str, error.args[1]))) from None


def test_imports_are_found_in_both_forms_and_in_functions() -> None:
    source = "import informed.cli\ndef f():\n  from reconn import kernel, train"
    found = {file_of(name) for name in modules(source)}
    assert found == {
        Path("informed/cli/__init__.py"),
        Path("reconn/kernel.py"),
        Path("reconn/__init__.py"),
    }


def test_only_metrics_meets_the_truth() -> None:
    """An attack, and whoever plays it, has nothing to compare a guess with."""
    blind = [
        file
        for file in graph()
        if file.parts[:2] == ("informed", "attacks")
        or file in (Path("informed/play.py"), Path("informed/games.py"))
        or file.parts[0] in ("shadow", "reconn")
    ]
    assert len(blind) > 100
    offenders = [
        f"{file} imports {other}"
        for file in blind
        for other in sorted(graph()[file])
        if other.parts[:2] == ("informed", "metrics")
    ]
    assert not offenders
