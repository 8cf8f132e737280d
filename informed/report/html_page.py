"""Render a report as one HTML page: no script, no network, dark or light, printable.

`Report.html` calls `render`, which fills in templates/page.html.j2 and returns the
page. Unless it is redacted, the page shows training records.
"""

import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jinja2
import markupsafe
import numpy as np

from informed.report import figures, words
from shadow.tables import Table

MOST_BYTES = 3 << 20  # 3 MiB, counted in characters, of which most are one byte
# Number of table columns to show of one record: the first ones.
_COLUMNS = 12
Pictures = Mapping[str, Any]


def render(document: Any, *, redact: bool = False) -> str:
    """Return the page of a `Report`, all of whose text is escaped.

    While it exceeds `MOST_BYTES`, every second record is left out, until three or fewer
    are left. With `redact`, it has none.
    """
    values = document.redacted if redact else document.values
    pictures = {} if redact else document.pictures
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters["code"] = _code
    names = ("number", "number_up", "percent", "percent_up", "share", "seconds")
    environment.filters |= {name: getattr(words, name) for name in names}
    text = resources.files("informed.report").joinpath("templates", "page.html.j2")
    template = environment.from_string(text.read_text())
    rows = values["bounds"].get("rows")
    while True:
        page = template.render(
            values=values,
            redact=redact,
            verdict=words.verdict(values),
            first_lines=words.first_lines(values),
            finished=bool(words.rated(values)),
            not_said=words.NOT_SAID,
            broken=words.broken(values.get("bounds")),
            guessed=words.guessed,
            columns=_columns(pictures),
            tables=_tables(pictures),
            bound=figures.bound(values["bounds"]) if rows else None,
            configuration=json.dumps(values["configuration"], indent=2, sort_keys=True),
        )
        if len(page) <= MOST_BYTES or len(pictures.get("shown", [])) <= 3:
            return page
        pictures = {**pictures, "shown": pictures["shown"][::2]}


def _code(text: str) -> markupsafe.Markup:
    """Return HTML: `commands` as code, short ones and "95 %" kept on one line."""
    safe = re.sub(r"(?<=\d) %", "&nbsp;%", str(markupsafe.escape(text)))
    short = re.sub(r"`([^`]{1,24})`", r'<code class="whole">\1</code>', safe)
    return markupsafe.Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", short))


def _guesses(pictures: Pictures, i: int) -> dict[str, np.ndarray]:
    """Return every attack's finite guess at a record, and the nearest public one."""
    rows = {**pictures["guesses"], "nearest public": pictures["nearest"]}
    return {
        name: images[i]
        for name, images in rows.items()
        if i < len(images) and np.isfinite(images[i]).all()
    }


def _columns(pictures: Pictures) -> list[dict[str, Any]]:
    """Return a column of images per record: target, guesses, nearest public record."""
    if not pictures or pictures.get("table") is not None:
        return []
    targets, columns = pictures["targets"], []
    for i in pictures["shown"]:
        truth, guesses = targets.images[i], _guesses(pictures, i)
        shown: Any = figures.thumbnail(truth)
        cells = [{"name": "target", "source": shown, "mse": None}]
        for name in (*pictures["guesses"], "nearest public"):
            image, source, error = guesses.get(name), None, None
            if image is not None:
                source = figures.thumbnail(image)
                error = float(np.mean((np.clip(image, 0, 1) - truth) ** 2))
            cells.append({"name": name, "source": source, "mse": error})
        columns.append({"label": int(targets.labels[i]), "rows": cells})
    return columns


def _tables(pictures: Pictures) -> list[dict[str, Any]]:
    """Return tables of an easy, a typical and a hard record, with the guesses."""
    table: Table | None = pictures.get("table") if pictures else None
    if table is None:
        return []
    targets, shown, tables = pictures["targets"], pictures["shown"], []
    for place in sorted({0, len(shown) // 2, len(shown) - 1}):
        i = shown[place]
        guesses = _guesses(pictures, i)
        images = targets.images[i], *(np.clip(g, 0, 1) for g in guesses.values())
        rows = [table.rows(image[None])[0] for image in images]
        names = list(rows[0])[:_COLUMNS]
        cells = [[name, *(row[name] for row in rows)] for name in names]
        tables.append(
            {
                "class": table.classes[int(targets.labels[i])],
                "names": list(guesses),
                "rows": [
                    [c if isinstance(c, str) else f"{c:.5g}" for c in row]
                    for row in cells
                ],
                "left_out": len(rows[0]) - len(names),
            }
        )
    return tables
