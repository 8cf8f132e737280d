"""One HTML page about one artefact: what each stored field tells. No scripts, no links.

Every text from the artefact or the table is escaped.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from artefacts.answer import Answer, Line
from artefacts.findings import Removed
from artefacts.passages import passages

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --bad: #b3261e;
  --good: #1b6e3c; --open: #a06a00; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #7bd89f;
  --open: #ffcf66; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.verdict { padding: .8rem 1rem; border-left: .4rem solid var(--bad);
  background: var(--soft); }
.verdict.mild { border-color: var(--good); }
.verdict.unclear { border-color: var(--open); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem;
  border-bottom: 1px solid var(--line); }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font-size: .9em; overflow-wrap: anywhere; }
"""


def page(
    title: str,
    answer: Answer,
    removed: Sequence[Removed] = (),
    after: Answer | None = None,
    after_error: str = "",
) -> str:
    """The page.

    Args:
      title: the artefact's name, for the heading.
      answer: what the artefact tells of the missing row.
      removed: what `sanitise` did with each field; empty: nothing was stripped.
      after: what the stripped copy tells; None: it tells nothing, or wasn't attacked.
      after_error: why the attack on the stripped copy gives nothing, one sentence.
    Returns: a whole HTML document.
    """
    mood = f"verdict {_mood(answer)}".strip()
    parts = [
        f"<h1>{_text(title)}: what it tells of one training row</h1>",
        f'<p class="{mood}">{_text(verdict(answer))}</p>',
        "<h2>Stored fields</h2>",
        _table(
            ("field", "tells", "how exact", "certificate", "strip?"),
            [_field(line) for line in answer.lines],
        ),
    ]
    if len(answer.names):
        parts += ["<h2>The missing row</h2>", _row_table(answer)]
    if answer.words:
        parts += _words(answer.words)
    if answer.contradictions:
        parts += ["<h2>Contradictions</h2>", _list(answer.contradictions)]
    if removed or after is not None or after_error:
        told = (
            verdict(after) if after is not None else after_error or "Nothing is told."
        )
        helps = {True: "yes", False: "no", None: ""}
        parts += [
            "<h2>After stripping</h2>",
            f"<p>{_text(told)}</p>",
            _still_there(removed, after),
            _table(
                ("field", "done", "helps?", "why"),
                [
                    (each.field, each.action, helps[each.helps], each.why)
                    for each in removed
                ],
            ),
        ]
    if answer.notes:
        parts += ["<h2>Notes</h2>", _list(answer.notes)]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{body}\n</body>\n</html>\n"
    )


def _words(words: frozenset[str]) -> list[str]:
    """Passages, where n-grams give some; single words, where there are any."""
    found = passages(words)
    single = sorted(word for word in words if " " not in word) or sorted(words)
    parts = [f"<h2>Words</h2>\n<p>{_text(', '.join(single))}</p>"]
    if found:
        parts = ["<h2>Possible passages, the longest first</h2>", _list(found), *parts]
    return parts


def _still_there(removed: Sequence[Removed], after: Answer | None) -> str:
    """Fields that had to stay, by name, and those that still tell something."""
    kept = [each.field for each in removed if each.action.startswith("kept")]
    telling = [line.field for line in after.lines] if after is not None else []
    kept += [field for field in telling if field not in kept]
    if not kept:
        return "<p>No field that had to stay is known to tell of training rows.</p>"
    return f"<p>Still in it, and why, below: {_text(', '.join(kept))}.</p>"


def verdict(answer: Answer) -> str:
    """A few sentences on what is told, and on what wasn't read."""
    if answer.refuted and not answer.certified:
        return (
            "No row explains what is stored: either the known rows are not all the"
            " others, as they were trained on, or training had weights, single"
            " precision or parts of the rows that were not told. Nothing is determined,"
            " and nothing follows from that." + _lying(answer) + _unread(answer)
        )
    count, total = int(answer.determined.sum()), len(answer.determined)
    bounded = int(np.isfinite(answer.upper - answer.lower).sum()) - count
    if answer.words is not None:
        first = f"{len(answer.words)} words of the missing text are known."
    elif answer.exact:
        first = f"The missing row is known: all {total} features, to rounding."
    elif count:
        first = f"{count} of {total} features of the missing row are determined."
    else:
        first = _none_determined(answer)
    if bounded > 0 and not answer.exact:
        first += f" {bounded} more lie in an interval."
    if guessed := estimated(answer):
        first += (
            f" Of {guessed} features there is an estimate, which may be right: nothing"
            " here tells how near it is."
        )
    if answer.named is not None:
        first += _of_gallery(answer.named)
    if answer.y is not None:
        first += f" Its label is {answer.y}."
    if (count and not answer.exact) or answer.words is not None:
        first += _unread(answer)
    if answer.refuted:
        first += f" No row explains {', '.join(answer.refuted)}, though."
    if answer.certified and (count or answer.words):
        return f"{first} The artefact itself confirms it."
    if count or answer.words:
        return (
            f"{first} Nothing in the artefact confirms that the known rows are right."
        )
    return first


def estimated(answer: Answer) -> int:
    """Of how many features that aren't determined there is a value all the same."""
    rest = zip(answer.value, answer.determined, strict=True)
    return sum(_some(value) and not sure for value, sure in rest)


def _of_gallery(named: tuple[int, ...]) -> str:
    """Which rows of the gallery it may be."""
    if not named:
        return " No row of the gallery lies on what is missing."
    if len(named) == 1:
        return f" Of the gallery row {named[0]} alone fits (the first is 0)."
    some = ", ".join(map(str, named[:10])) + (", ..." if len(named) > 10 else "")
    return f" Of the gallery {len(named)} rows fit: {some} (the first is 0)."


def _none_determined(answer: Answer) -> str:
    """What to say where no feature is: never that a stored row is safe."""
    if answer.stored:
        return (
            _lying(answer).strip()
            + " Which of them is the missing one was not found."
            + _unread(answer)
        )
    if answer.unread:
        return (
            "No feature of the missing row is determined by what was read."
            + _unread(answer)
        )
    return "No feature of the missing row is determined."


def _lying(answer: Answer) -> str:
    """That rows are stored as they are, where they are."""
    if not answer.stored:
        return ""
    return (
        f" Training rows lie in it as they are ({', '.join(answer.stored)}): whoever"
        " has it has these rows."
    )


def _unread(answer: Answer) -> str:
    """The parts that no reader told anything of."""
    if not answer.unread:
        return ""
    return f" Not read: {', '.join(answer.unread)}; nothing is known of these."


def how_exact(line: Line) -> str:
    """In words, how closely a field tells features."""
    finding = line.finding
    if finding.certified is False:
        return "fits no row"
    if finding.words is not None:
        return f"{len(finding.words)} words"
    if finding.named is not None and finding.lower is None:
        return f"{len(finding.named)} of the gallery"
    if finding.lower is None or finding.upper is None:
        if finding.values is not None:
            return "some categories"
        if finding.estimate is not None:
            return "an estimate"
        return "label only" if finding.label is not None else "nothing of features"
    width = finding.upper - finding.lower
    size = np.maximum(np.abs(finding.upper), np.abs(finding.lower))
    with np.errstate(invalid="ignore"):
        close = width <= 1e-6 * np.maximum(size, 1e-12)
    finite = np.isfinite(width)
    points, bounded = int((finite & close).sum()), int(finite.sum())
    total = len(width)
    if points == total:
        return "to rounding"
    text = f"{points} of {total} to rounding" if points else ""
    if bounded > points:
        text += (", " if text else "") + f"{bounded - points} intervals"
    if not text and finding.values is not None:
        return "some categories"
    one_sided = np.isfinite(finding.lower) | np.isfinite(finding.upper)
    return text or ("one-sided bounds" if one_sided.any() else "nothing of features")


def _field(line: Line) -> tuple[str, str, str, str, str]:
    """A row of the table of fields."""
    sure = {True: "confirmed", False: "refuted", None: "none"}[line.finding.certified]
    strip = "needed by predictions" if line.finding.needed else "strip"
    return (
        f"{line.field} ({line.estimator})",
        line.finding.tells,
        how_exact(line),
        sure,
        strip,
    )


def _row_table(answer: Answer) -> str:
    """Feature by feature."""
    rows = []
    for j, name in enumerate(answer.names):
        low, high = answer.lower[j], answer.upper[j]
        told = "determined" if answer.determined[j] else "interval"
        if not answer.determined[j] and not np.isfinite(high - low):
            told = "estimate" if _some(answer.value[j]) else "nothing"
        rows.append(
            (name, _value(answer.value[j]), _span(low, high), told, answer.sources[j])
        )
    return _table(("feature", "value", "interval", "", "field"), rows, numbers=(1, 2))


def _mood(answer: Answer) -> str:
    """The verdict's colour: green only where nothing at all was found or left out."""
    if answer.determined.any() or answer.words or answer.stored:
        return ""
    if answer.named is not None and len(answer.named) == 1:
        return ""
    bounded = np.isfinite(answer.lower) | np.isfinite(answer.upper)
    doubtful = answer.refuted or answer.unread or answer.contradictions
    hinted = answer.y is not None or answer.named or estimated(answer)
    if doubtful or bounded.any() or hinted:
        return "unclear"
    return "mild"


def _some(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and np.isnan(value))


def _value(value: Any) -> str:
    if not _some(value):
        return ""
    return f"{value:.10g}" if isinstance(value, (float, np.floating)) else str(value)


def _span(low: float, high: float) -> str:
    if low == -np.inf and high == np.inf:
        return ""
    left = "" if low == -np.inf else f"{low:.6g}"
    right = "" if high == np.inf else f"{high:.6g}"
    return left if left == right else f"{left} … {right}"


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"


def _table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[int] = ()
) -> str:
    """A table that scrolls by itself where it is wide."""
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    lines = []
    for row in rows:
        cells = "".join(
            f'<td class="number">{_text(cell)}</td>'
            if at in numbers
            else f"<td>{_text(cell)}</td>"
            for at, cell in enumerate(row)
        )
        lines.append(f"<tr>{cells}</tr>")
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )
