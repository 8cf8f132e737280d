"""Docstrings reach the site without a complaint and without losing a word."""

import ast
import contextlib
import functools
import importlib.util
import pkgutil
import re
from pathlib import Path

import docutils.frontend
import docutils.parsers.rst
import docutils.utils
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("dp", "shadow", "reconn", "informed", "uninformed")
FILES = [file for name in PACKAGES for file in sorted((ROOT / name).rglob("*.py"))]


@functools.cache
def converter():
    file = ROOT / "docs" / "_extensions" / "plain_docstrings.py"
    spec = importlib.util.spec_from_file_location("plain_docstrings", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.convert


def docstrings(file):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, kinds)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def words(text):
    """Without marks of lists, of code and of literal blocks, which become markup."""
    text = re.sub(r"^\s*(-|\d+\.) ", "", text, flags=re.MULTILINE)
    return re.sub(r"[`\s:]", "", text)


SETTINGS = docutils.frontend.get_default_settings(docutils.parsers.rst.Parser)
SETTINGS.halt_level, SETTINGS.report_level = 2, 5
SETTINGS.syntax_highlight = "none"


def shown(text):
    """What a reader sees; raises on whatever docutils would warn of."""
    document = docutils.utils.new_document("docstring", SETTINGS)
    lines = converter()(text.splitlines())
    docutils.parsers.rst.Parser().parse("\n".join(lines), document)
    return document.astext()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_docstring_is_shown_whole(package):
    texts = [
        text for file in FILES if file.parts[len(ROOT.parts)] == package
        for text in docstrings(file)
    ]  # fmt: skip
    assert len(texts) > 50
    for text in texts:
        assert words(shown(text)) == words(text)


def test_what_would_be_markup_is_text():
    text = (
        "D_- and |theta|, *not* a link_; `code_` is.\n\nArgs:\n  *rest: more.\n    And."
    )
    assert "D_- and |theta|, *not* a link_; code_ is." in shown(text)


def test_columns_stay_columns():
    text = "Title.\n\nname        what it is\nother_name  another"
    assert "name        what it is\nother_name  another" in shown(text)


def test_the_site_shows_every_example_and_configuration():
    for page, folder in (("extending", "examples"), ("commands", "configs")):
        text = (ROOT / "docs" / f"{page}.md").read_text()
        shown = set(re.findall(rf"literalinclude\}} \.\./{folder}/(.*)\n", text))
        kinds = ("*.py", "*.yml")
        files = [file for kind in kinds for file in (ROOT / folder).rglob(kind)]
        assert shown == {str(file.relative_to(ROOT / folder)) for file in files}


def test_every_page_is_in_the_table_of_contents():
    docs = ROOT / "docs"
    listed = re.findall(r"^[\w/]+$", (docs / "index.md").read_text(), re.MULTILINE)
    pages = {
        str(file.relative_to(docs).with_suffix(""))
        for file in docs.rglob("*.md")
        if "_build" not in file.parts
    }
    assert {*listed, "index"} == pages


def test_what_pages_import_is_there():
    """Also of pages that no test executes."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    lines = {
        line
        for page in pages
        if "_build" not in page.parts
        for block in re.findall(
            r"```(?:python|\{code-cell\})\n(.*?)```", page.read_text(), re.S
        )
        for line in re.findall(r"^(?:import|from) [\w., ]+$", block, re.M)
        if re.match(rf"(import|from) ({'|'.join(PACKAGES)})\b", line)
    }
    assert len(lines) > 5
    for line in sorted(lines):
        exec(line, {})


def exists(name):
    """Whether a dotted name is a module, an attribute or a field of a dataclass."""
    with contextlib.suppress(ModuleNotFoundError):
        return bool(importlib.import_module(name))
    owner, _, last = name.rpartition(".")
    if not owner or not exists(owner):
        return False
    try:
        holder = pkgutil.resolve_name(owner)
    except AttributeError:  # a field of a dataclass, of which no value is at hand
        return True
    fields = getattr(holder, "__dataclass_fields__", {})
    return hasattr(holder, last) or last in fields


def test_dotted_names_in_pages_and_docstrings_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [page.read_text() for page in pages if "_build" not in page.parts]
    texts += [text for file in FILES for text in docstrings(file)]
    begins = "|".join(PACKAGES)
    names = {
        name
        for text in texts
        for name in re.findall(rf"`((?:{begins})(?:\.\w+)+)[`(]", text)
        if not name.endswith((".md", ".py", ".json", ".jsonl", ".csv", ".npz"))
    }
    assert len(names) > 50
    assert not sorted(name for name in names if not exists(name))


def test_the_architecture_names_every_file_and_no_other():
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text[text.index("| file |") : text.index("The way of the data")]
    named = set()
    for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE):
        folder = Path()
        for name in re.findall(r"`([^`]+)`", row):
            path = Path(name)
            folder = path.parent if "/" in name else folder
            named.add(ROOT / (path if "/" in name else folder / path))
    assert not [str(path) for path in named if not path.exists()]
    files = {file for file in FILES if file.name != "__init__.py"}
    assert len(files) > 200
    left = [f for f in files if not {f, *f.parents} & named]
    assert not sorted(str(file.relative_to(ROOT)) for file in left)
