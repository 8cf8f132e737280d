"""docs/reproducing.md, from the register and from what was found; and its check."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers import register, results
from benchmarks.papers.row import Row
from shadow import files

FILE = results.ROOT / "docs" / "reproducing.md"
_TEMPLATE = Path(__file__).parent / "page.md"
_PAPERS = {
    "balle": "Balle, Cherubin and Hayes 2022",
    "haim": "Haim et al. 2022",
    "runkel": "Runkel et al. 2024",
}
_HOLDS = {True: "yes", False: "**no**", None: "can't be told"}


def write() -> None:
    """Write the page."""
    files.write_bytes(FILE, text().encode())


def check() -> None:
    """Raise ValueError where the page has a gap, or is not the one that this gives."""
    for row in register.ROWS:
        if results.read(row) is None and not row.needs:
            raise ValueError(
                f"The row {row.paper}/{row.name} has no result and doesn't say what it"
                f" needs: python -m benchmarks.papers run {row.name}"
            )
    if FILE.read_text() != text():
        raise ValueError(f"{FILE} is stale: python -m benchmarks.papers page")


def text() -> str:
    """The page."""
    return _TEMPLATE.read_text().format(
        summary="\n\n".join(_summaries()), rows="\n\n".join(_sections())
    )


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
            lines += ["| | theirs | ours | holds |", "|---|---|---|---|"]
            lines += [
                f"| [{row.title}](#{_anchor(row)}) | {values['theirs']} |"
                f" {values['ours']} | {_held(row, values)} |"
                for row, values in shown
            ]
            lines.append("")
        rest = [row for row, values in found if values is None]
        if rest:
            lines += ["| not measured | the paper says | needs |", "|---|---|---|"]
            lines += [f"| {row.title} | {row.claim} | {row.needs} |" for row in rest]
        yield "\n".join(lines).rstrip()


def _sections() -> Iterator[str]:
    for row in register.ROWS:
        found = results.read(row)
        if found is not None:
            yield "\n".join(_section(row, found))


def _is_in_part(row: Row, found: Mapping[str, Any]) -> bool:
    return found["holds"] is True and bool(row.but)


def _held(row: Row, found: Mapping[str, Any]) -> str:
    """By its rule; in part, where the rule isn't all of the claim."""
    return "in part" if _is_in_part(row, found) else _HOLDS[found["holds"]]


def _section(row: Row, found: Mapping[str, Any]) -> Iterator[str]:
    about = found["provenance"]
    yield f"({_anchor(row)})="
    yield f"### {row.title}"
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
        yield f"![{picture['caption']}](images/papers/{picture['file']})"
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
