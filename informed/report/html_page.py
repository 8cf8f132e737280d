"""One HTML file out of a document: no script, no network, light and dark, to print.

The template is in the package. What it shows of records comes from
`Report.pictures`, and nothing of that is there in a redacted page.
"""

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
import markupsafe
import numpy as np

from informed.report import figures, words
from shadow.tables import Table

MOST_BYTES = 3 << 20
_TEMPLATE = "page.html.j2"
# Columns of a table that are shown for one record: those farthest from their mean.
_COLUMNS = 12


def render(document: Any, *, redact: bool = False) -> str:
    """The page.

    Args:
      document: the `informed.audit.Report` that the page is written from.
      redact: numbers only, no record and no guess.
    """
    values = document.redacted if redact else document.values
    pictures = {} if redact else document.pictures
    page = _page(values, pictures, redact=redact)
    while len(page) > MOST_BYTES and len(pictures.get("shown", [])) > 3:
        fewer = pictures["shown"][::2]
        pictures = {**pictures, "shown": fewer}
        page = _page(values, pictures, redact=redact)
    return page


def _page(
    values: Mapping[str, Any], pictures: Mapping[str, Any], *, redact: bool
) -> str:
    return filled(
        _TEMPLATE,
        values=values,
        redact=redact,
        first_lines=words.first_lines(values),
        not_said=words.NOT_SAID,
        broken=words.broken(values.get("bounds")),
        columns=_columns(pictures),
        tables=_tables(pictures),
        figures=_figures(values),
        configuration=json.dumps(values["configuration"], indent=2, sort_keys=True),
    )


def filled(template: str, **values: Any) -> str:
    """A template of this package, filled in; everything in it is escaped."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters |= {
        "code": _code,
        "number": words.number,
        "number_up": words.number_up,
        "percent": words.percent,
        "percent_up": words.percent_up,
        "share": words.share,
        "seconds": words.seconds,
    }
    text = resources.files("informed.report").joinpath("templates", template)
    return environment.from_string(text.read_text()).render(**values)


def _code(text: str) -> markupsafe.Markup:
    """Text in which `commands` are set as such; they and "95 %" aren't broken."""
    safe = re.sub(r"(?<=\d) %", "&nbsp;%", str(markupsafe.escape(text)))
    return markupsafe.Markup(
        re.sub(r"`([^`]+)`", r'<code class="whole">\1</code>', safe)
    )


def _figures(values: Mapping[str, Any]) -> dict[str, str | None]:
    """By name; None where there is nothing to draw."""
    found: dict[str, str | None] = dict.fromkeys(("errors", "defences", "bound"))
    if any(
        any(e is not None for e in row["mse"].values()) for row in values["records"]
    ):
        found["errors"] = figures.errors(values["records"])
    held = [any(a["success"] for a in row["attacks"]) for row in values["defences"]]
    if sum(held) > 1:
        found["defences"] = figures.defences(values["defences"])
    if values["bounds"].get("rows"):
        found["bound"] = figures.bound(values["bounds"])
    return found


def _guesses(pictures: Mapping[str, Any], i: int) -> dict[str, np.ndarray]:
    """What each attack read of a record, and the nearest public one, where there is."""
    rows = {**pictures["guesses"], "nearest public": pictures["nearest"]}
    return {
        name: images[i]
        for name, images in rows.items()
        if i < len(images) and np.isfinite(images[i]).all()
    }


def _columns(pictures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pictures of each shown record: the target, guesses, the nearest public record."""
    if not pictures or pictures.get("table") is not None:
        return []
    targets, found = pictures["targets"], []
    for i in pictures["shown"]:
        truth, read = targets.images[i], _guesses(pictures, i)
        shown: Any = figures.thumbnail(truth)
        cells = [{"name": "target", "source": shown, "mse": None}]
        for name in (*pictures["guesses"], "nearest public"):
            image, source, error = read.get(name), None, None
            if image is not None:
                source = figures.thumbnail(image)
                error = float(np.mean((np.clip(image, 0, 1) - truth) ** 2))
            cells.append({"name": name, "source": source, "mse": error})
        found.append({"label": int(targets.labels[i]), "rows": cells})
    return found


def _tables(pictures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each shown record of a table: columns, and what each attack read."""
    table: Table | None = pictures.get("table") if pictures else None
    if table is None:
        return []
    targets, found = pictures["targets"], []
    for i in _thirds(pictures["shown"]):
        truth = table.rows(targets.images[i][None])[0]
        read = {
            name: table.rows(np.clip(image, 0, 1)[None])[0]
            for name, image in _guesses(pictures, i).items()
        }
        names = list(truth)[:_COLUMNS]
        found.append(
            {
                "class": table.classes[int(targets.labels[i])],
                "names": list(read),
                "rows": [
                    [
                        name,
                        _cell(truth[name]),
                        *(_cell(row[name]) for row in read.values()),
                    ]
                    for name in names
                ],
                "left_out": len(truth) - len(names),
            }
        )
    return found


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.5g}"


def _thirds(shown: Sequence[int]) -> list[int]:
    """The easiest, a typical and the hardest."""
    places = sorted({0, len(shown) // 2, len(shown) - 1})
    return [shown[i] for i in places]
