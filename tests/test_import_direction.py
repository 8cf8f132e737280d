"""Imports go dp -> shadow -> reconn -> informed, never back."""

import ast
from pathlib import Path

import pytest

ORDER = ("dp", "shadow", "reconn", "informed")
ROOT = Path(__file__).parent.parent
FILES = sorted(file for package in ORDER for file in (ROOT / package).rglob("*.py"))


def imported_packages(source: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            names.add(node.module or "")
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_no_package_imports_one_to_its_right(file: Path) -> None:
    package = file.relative_to(ROOT).parts[0]
    allowed = ORDER[: ORDER.index(package) + 1]
    found = imported_packages(file.read_text())
    assert not found & (set(ORDER) - set(allowed))
    assert not found & {"configs", "tests", "benchmarks"}


def test_the_parser_sees_both_forms_of_import() -> None:
    found = imported_packages("import informed.cli\ndef f():\n  from reconn import x")
    assert found == {"informed", "reconn"}
