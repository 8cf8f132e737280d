"""docs/reproducing.md and a page a row, from the register and the results; their check.

The page of the site has one table a paper. Each measured row has a page of its own in
`benchmarks/papers/pages`, with its numbers, pictures, rule and provenance.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers import register, results
from benchmarks.papers.row import Row
from shadow import files

FILE = results.ROOT / "docs" / "reproducing.md"
PAGES = Path(__file__).parent / "pages"
_TEMPLATE = Path(__file__).parent / "page.md"
_PAPERS = {
    "balle": "Balle, Cherubin and Hayes 2022",
    "haim": "Haim et al. 2022",
    "runkel": "Runkel et al. 2024",
}
_HOLDS = {True: "yes", False: "**no**", None: "can't be told"}


def write() -> None:
    """Write all pages."""
    written = pages()
    for path, content in written.items():
        files.write_bytes(path, content.encode())
    for path in {*PAGES.glob("*.markdown")} - written.keys():
        path.unlink()


def check() -> None:
    """Raise ValueError where a page has a gap, or is not the one that this gives."""
    for row in register.ROWS:
        if results.read(row) is None and not row.needs:
            raise ValueError(
                f"The row {row.paper}/{row.name} has no result and doesn't say what it"
                f" needs: python -m benchmarks.papers run {row.name}"
            )
    wanted = pages()
    there = {path: path.read_text() for path in (FILE, *PAGES.glob("*.markdown"))}
    for path in wanted.keys() | there.keys():
        if wanted.get(path) != there.get(path):
            raise ValueError(f"{path} is stale: python -m benchmarks.papers page")


def pages() -> dict[Path, str]:
    """Return the text of each page, by its file."""
    template = _TEMPLATE.read_text()
    text = template.format(
        broken="\n".join(_broken()), summary="\n\n".join(_summaries())
    )
    measured = {
        PAGES / f"{_anchor(row)}.markdown": "\n".join(_section(row, found)) + "\n"
        for row in register.ROWS
        if (found := results.read(row)) is not None
    }
    return {FILE: text, **measured}


def _link(row: Row) -> str:
    return f"[{row.title}](../benchmarks/papers/pages/{_anchor(row)}.markdown)"


def _broken() -> Iterator[str]:
    """Say of each claim that doesn't hold why, in a line."""
    for row in register.ROWS:
        found = results.read(row)
        if found is not None and found["holds"] is False:
            claim = f"{_PAPERS[row.paper]}, {_link(row)}: *{row.claim}*"
            yield f"- {claim} {found['verdict']}"


def _summaries() -> Iterator[str]:
    for paper, title in _PAPERS.items():
        rows = [row for row in register.ROWS if row.paper == paper]
        found = [(row, results.read(row)) for row in rows]
        shown = [(row, values) for row, values in found if values is not None]
        held = sum(values["holds"] is True for _, values in shown)
        partly = sum(_is_in_part(row, values) for row, values in shown)
        lines = [
            f"## {title}",
            "",
            f"{len(shown)} of {len(rows)} rows are measured, of which {held} hold,"
            f" {partly} of these in part.",
            "",
        ]
        if shown:
            lines += ["| | claim | theirs | ours | size | holds |", "|" + "---|" * 6]
            lines += [
                f"| {_link(row)} | {row.claim} | {values['theirs']} |"
                f" {values['ours']} | {_size(values)} |"
                f" {_held(row, values)}{' †' * bool(results.changed(values))} |"
                for row, values in shown
            ]
            lines.append("")
        rest = [row for row, values in found if values is None]
        if rest:
            lines += ["| not measured | the paper says | needs |", "|---|---|---|"]
            lines += [f"| {row.title} | {row.claim} | {row.needs} |" for row in rest]
        yield "\n".join(lines).rstrip()


def _is_in_part(row: Row, found: Mapping[str, Any]) -> bool:
    return found["holds"] is True and bool(row.but)


def _held(row: Row, found: Mapping[str, Any]) -> str:
    """By its rule; in part, where the rule isn't all of the claim."""
    return "in part" if _is_in_part(row, found) else _HOLDS[found["holds"]]


def _section(row: Row, found: Mapping[str, Any]) -> Iterator[str]:
    about = found["provenance"]
    yield f"# {_PAPERS[row.paper]}: {row.title}"
    yield ""
    yield f"*{row.claim}*"
    yield ""
    yield f"Holds: {_held(row, found)}. {found['verdict']}"
    yield ""
    if row.but:
        yield f"**But:** {row.but}"
        yield ""
    if found["lines"]:
        yield from _table(found["lines"])
        yield ""
    for picture in found["pictures"]:
        yield f"![{picture['caption']}](../../../docs/images/papers/{picture['file']})"
        yield ""
        yield f"*{picture['caption']}*"
        yield ""
    size = f" Size: {found['size']}." if found["size"] else ""
    if row.decides:
        yield f"Decided by: {row.decides}.{size}"
        yield ""
    yield (
        f"`python -m benchmarks.papers run {row.paper}/{row.name}`:"
        f" {_time(about['seconds'])} on {about['device']}; commit {about['commit']},"
        f" jax {about['versions']['jax']}{_made(about)}."
    )
    if changed := results.changed(found):
        yield ""
        yield f"† Changed since it was measured, by revision: {'; '.join(changed)}."


def _size(found: Mapping[str, Any]) -> str:
    return found["size"].rstrip(".") if found["size"] else ""


def _table(lines: list[Mapping[str, Any]]) -> Iterator[str]:
    theirs = list(dict.fromkeys(name for line in lines for name in line["theirs"]))
    ours = list(dict.fromkeys(name for line in lines for name in line["ours"]))
    # The attacks' columns in one order, whatever the order in the file.
    ours.sort(key=_rank)
    head = ["", *(f"*paper, {name}*" for name in theirs), *ours]
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for line in lines:
        cells = [line["name"]]
        cells += [f"*{_cell(line['theirs'].get(name))}*" for name in theirs]
        cells += [_cell(line["ours"].get(name)) for name in ours]
        yield f"| {' | '.join(cell if cell != '**' else '' for cell in cells)} |"


_ORDER = ("network", "kernel", "NN oracle", "inversion", "certified", "success")


def _rank(name: str) -> tuple[int, ...]:
    """Attack by attack, MSE before LPIPS before KL."""
    of = [i for i, part in enumerate(_ORDER) if name.startswith(part)] or [len(_ORDER)]
    metric = [i for i, part in enumerate(("MSE", "LPIPS", "KL")) if part in name]
    return of[0], *(metric or [len(_ORDER)])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1000:
        return f"{value:.4f}" if abs(value) < 1 else f"{value:.3f}"
    return f"{value:.1e}"


def _time(seconds: float) -> str:
    """Of the computing, in words."""
    if seconds < 1:
        return "seconds"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _made(about: Mapping[str, Any]) -> str:
    """Which code and machines made the runs, where that was kept and is another."""
    here = f"{about['commit']} on {about['device']}"
    others = [each for each in about.get("made_at", []) if each != here]
    return f"; runs made at {', '.join(others)}" if others else ""


def _anchor(row: Row) -> str:
    return f"{row.paper}-{row.name}"
