"""Docstrings as they are written here, plain text with sections, to reStructuredText.

The docstrings say D_-, |theta - sum| and `name`, which reStructuredText would take for
links, substitutions and roles. Everything is escaped but what is listed here:

`name`           code
Args: and other  a list of fields, "name: text" with deeper lines going on
  sections
- item, 1. item  a list
name   text      columns two spaces or more apart, and indented text: as it is
"""

import re
from typing import Any

SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields")
_HEAD = re.compile(rf"({'|'.join(SECTIONS)}):(?: (.*))?$")
_ITEM = re.compile(r"(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): (.*)$")
_BULLET = re.compile(r"(-|\d+\.) (.*)$")
_INITIAL = re.compile(r"(\w+|#)([.)] ?)")  # would begin a list: "E. is ...", "i) ..."
_COLUMNS = re.compile(r"\S {2,}\S")


def setup(app: Any) -> dict[str, Any]:
    """Convert whatever autodoc reads."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True}


def _process(
    app: Any, kind: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = convert(lines)


def convert(lines: list[str]) -> list[str]:
    """Lines of reStructuredText from the lines of a docstring."""
    made: list[str] = []
    for block in _blocks(lines):
        made += [*_block(block), ""]
    return made


def inline(text: str) -> str:
    """Escaped, but for what stands between single backquotes."""
    parts = re.split(r"`+([^`]+)`+", text)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f":code:`{part}`" if part.strip() == part else part
        else:
            parts[i] = re.sub(r"([\\*_|<>\[\]:])", r"\\\1", part)
    joined = parts[0]
    for code, after in zip(parts[1::2], parts[2::2], strict=True):
        before = "" if not joined or joined[-1] in " (" else "\\ "
        joined += before + code + ("" if not after or after[0] in " .,;)" else "\\ ")
        joined += after
    return joined


def _blocks(lines: list[str]) -> list[list[str]]:
    """Runs of lines without empty ones; a section begins another one."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if not line.strip():
            blocks.append([])
            continue
        if _HEAD.match(line) and blocks[-1]:
            blocks.append([])
        blocks[-1].append(line.rstrip())
    return [block for block in blocks if block]


def _block(lines: list[str]) -> list[str]:
    if head := _HEAD.match(lines[0]):
        return _section(head[1], head[2], lines[1:])
    if any(_COLUMNS.search(line) for line in lines) or lines[0].startswith(" "):
        return ["::", "", *(f"    {line}" for line in lines)]
    if _BULLET.match(lines[0]):
        return _bullets(lines)
    return [
        _INITIAL.sub(r"\1\\\2", inline(line.strip()), count=1)
        if _INITIAL.match(line)
        else inline(line.strip())
        for line in lines
    ]


def _bullets(lines: list[str]) -> list[str]:
    made = []
    for line in lines:
        found = _BULLET.match(line)
        if found:
            made.append(f"{found[1]} {inline(found[2])}")
        else:
            made.append(" " * (line.find(line.strip())) + inline(line.strip()))
    return made


def _section(name: str, first: str | None, rest: list[str]) -> list[str]:
    """A heading in bold; below it "name: text" as a list, or a paragraph."""
    indent = min((len(line) - len(line.lstrip()) for line in rest), default=0)
    if first is not None:
        text = " ".join([first, *(line.strip() for line in rest)])
        return [f"**{name}**: {inline(text)}"]
    items: list[str] = []
    for line in rest:
        found = _ITEM.match(line[indent:])
        if found:
            items.append(f"- :code:`{found[1]}`: {inline(found[2])}")
        elif items:
            items.append(f"  {inline(line.strip())}")
        else:
            items.append(f"- {inline(line.strip())}")
    return [f"**{name}**", "", *items]
