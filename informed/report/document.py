"""Hold what an audit, or a run, says: numbers as strict JSON, pictures for the page.

The numbers hold no record: they are what is left of a report with `redact`. Tables of
records and guesses, and pictures, are in `Report.pictures` and go to the page alone.
"""

import csv
import dataclasses
import html
import io
import json
import os
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from informed.report import words
from shadow import files

SCHEMA = "report.schema.json"
# Of what that schema says: raised where a field that readers need is new or other.
VERSION = 5
# An error, whoever's code raised it: its message may quote a record.
_RAISED = re.compile(
    r"\b((?:raised|stopped with) [\w.]+|\w*(?:Error|Exception|Warning)): .*", re.DOTALL
)
# Names of arrays, which the training may have taken from its data.
_NAMED = re.compile(r"^(no attack reads|released:) .*", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """The result of an audit, or of a run.

    Attributes:
      values: JSON-able and finite; see the schema beside this file.
      pictures: records and guesses; empty where there are none.
    """

    values: Mapping[str, Any]
    pictures: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def redacted(self) -> dict[str, Any]:
        """The values without labels, messages and names; see `redacted`."""
        return redacted(self.values)

    @property
    def json(self) -> str:
        """Strict JSON: numbers, and the labels of the records; no record itself."""
        return files.as_json(self.values).decode()

    @property
    def csv(self) -> str:
        """One line a record and attack, tidy: record, label, attack, mse, ..."""
        return self._csv("record", "label")

    def _csv(self, *about: str) -> str:
        """Write the CSV, with these fields of each record first."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*about, "attack", "mse", "without_release_mse", "certified"])
        rows = self.values["attacks"]
        certifying = {row["name"] for row in rows if row["certified"] is not None}
        for row in self.values["records"]:
            for attack, error in row["mse"].items():
                certified = None
                if attack in certifying and error is not None:
                    certified = attack in row["certified_by"]
                line = [*(row[name] for name in about), attack, error]
                line += [row["without_release_mse"], certified]
                writer.writerow(["" if v is None else v for v in line])
        return stream.getvalue()

    def html(self, *, redact: bool = False) -> str:
        """Render the page; with `redact` of numbers only, no record and no guess."""
        from informed.report import html_page  # which reads documents

        return html_page.render(self, redact=redact)

    def save(self, path: str | os.PathLike, *, redact: bool = False) -> Path:
        """Write .html, .json or .csv, by the end of the name.

        Raises: ValueError: another end.
        """
        file, end = Path(path), require_end(path)
        if end == ".json":
            content = files.as_json(self.redacted).decode() if redact else self.json
        elif end == ".csv":
            content = self._csv("record") if redact else self.csv
        else:
            content = self.html(redact=redact)
        files.write_bytes(file, content.encode())
        return file

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame: the page brings its style."""
        page = html.escape(self.html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" width="100%"'
            ' height="800" style="border:0" title="audit"></iframe>'
        )

    def __str__(self) -> str:
        return " ".join([words.verdict(self.values), *words.first_lines(self.values)])


def require_end(path: str | os.PathLike) -> str:
    """Return the end of a file's name.

    Raises: ValueError: it isn't .html, .htm, .json or .csv.
    """
    end = Path(path).suffix
    if end not in (".html", ".htm", ".json", ".csv"):
        raise ValueError(
            f"Expected {os.fspath(path)!r} to end in .html, .json or .csv."
        )
    return end


def redacted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out labels of records, users' messages, and words that may be data.

    Such as a category's, "town=Ely", or an array's that a training named itself.
    """
    rows = [{k: v for k, v in row.items() if k != "label"} for row in values["records"]]
    subject = dict(values["subject"])
    if subject.get("columns") is not None:
        names = dict.fromkeys(name.split("=", 1)[0] for name in subject["columns"])
        subject["columns"] = list(names)
    if subject.get("arrays") is not None:
        shapes = [shape for _, shape in subject["arrays"]]
        subject["arrays"] = [[f"array {i}", shape] for i, shape in enumerate(shapes)]
    return _silent({**values, "records": rows, "subject": subject})


def _silent(value: Any) -> Any:
    """Leave errors their kinds alone, and no names of arrays, in all texts."""
    if isinstance(value, str):
        text = _RAISED.sub(r"\1 (its message is left out)", value)
        return _NAMED.sub(r"\1 some arrays (their names are left out)", text)
    if isinstance(value, Mapping):
        return {name: _silent(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_silent(item) for item in value]
    return value


def read(path: Path) -> dict[str, Any]:
    """Read `Report.values` out of a .json file, of an audit or a run.

    Raises: FileNotFoundError, ValueError: the file holds none.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    wanted = f"Expected {path} to be the .json of `informed audit` or `informed report`"
    try:
        values = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{wanted}: {error}.") from error
    if not isinstance(values, dict) or values.get("kind") not in ("audit", "run"):
        raise ValueError(f"{wanted}. A run is read by its work directory.")
    if values.get("schema") != VERSION:
        raise ValueError(
            f"{wanted} of this version, whose schema is {VERSION}; it has"
            f" {values.get('schema')}. Run the command again."
        )
    return values


def schema() -> dict[str, Any]:
    """Load the JSON schema of `Report.values`."""
    text = resources.files("informed.report").joinpath(SCHEMA).read_text()
    return json.loads(text)
