"""`Report`: the result of an audit or a run, to save as JSON or an HTML page.

`audit_state` and `run_report` build reports, and `cli.audit_command` saves and reads
them. `Report.values` has numbers, labels, names of columns and messages, and an error's
message may quote a record. Records and guesses are in `Report.pictures`, which only the
page shows. `Report.redacted` says what is left out if the data are private.
"""

import dataclasses
import html
import json
import os
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from informed.report import words
from shadow import files

# Version of report.schema.json, incremented when a field that readers need changes.
VERSION = 5
# An error; its message is removed by redaction, because it may quote a record.
_RAISED = re.compile(
    r"\b((?:raised|stopped with) [\w.]+|\w*(?:Error|Exception|Warning)): .*", re.DOTALL
)
# Names of arrays, also removed, because training may have taken them from its data.
_NAMED = re.compile(rf"^({words.UNREAD}|released:) .*", re.DOTALL)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """The result of an audit, or of a run.

    Attributes:
      values: JSON-able, finite values; see report.schema.json beside this file.
      pictures: records and guesses; may be empty.
    """

    values: Mapping[str, Any]
    pictures: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def redacted(self) -> dict[str, Any]:
        """The values without labels, messages of errors, and names that may be data.

        Those are names of categories, "town=Ely", and of arrays that training named.
        """
        values, subject = self.values, dict(self.values["subject"])
        rows = [
            {k: v for k, v in row.items() if k != "label"} for row in values["records"]
        ]
        if subject.get("columns") is not None:
            names = dict.fromkeys(name.split("=", 1)[0] for name in subject["columns"])
            subject["columns"] = list(names)
        if subject.get("arrays") is not None:
            arrays = enumerate(subject["arrays"])
            subject["arrays"] = [[f"array {i}", shape] for i, (_, shape) in arrays]
        return _silent({**values, "records": rows, "subject": subject})

    def html(self, *, redact: bool = False) -> str:
        """Return the page; with `redact`, it has no record, guess or error message."""
        from informed.report import html_page  # imports jinja2 and matplotlib

        return html_page.render(self, redact=redact)

    def save(self, path: str | os.PathLike, *, redact: bool = False) -> Path:
        """Write .html or .json, by the suffix of the name; return the path.

        Raises: ValueError: another suffix.
        """
        file, end = Path(path), require_end(path)
        if end == ".json":
            content = files.as_json(self.redacted if redact else self.values)
        else:
            content = self.html(redact=redact).encode()
        files.write_bytes(file, content)
        return file

    def _repr_html_(self) -> str:
        """Return the page for a notebook, in a frame since it has its own style."""
        page = html.escape(self.html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" width="100%"'
            ' height="800" style="border:0" title="audit"></iframe>'
        )

    def __str__(self) -> str:
        return " ".join([words.verdict(self.values), *words.first_lines(self.values)])


def require_end(path: str | os.PathLike) -> str:
    """Return the suffix of a file's name.

    Raises: ValueError: the suffix isn't .html, .htm or .json.
    """
    end = Path(path).suffix
    if end not in (".html", ".htm", ".json"):
        raise ValueError(f"Expected {os.fspath(path)!r} to end in .html or .json.")
    return end


def _silent(value: Any) -> Any:
    """Return a value whose texts have no messages of errors and no names of arrays."""
    if isinstance(value, str):
        text = _RAISED.sub(r"\1 (its message is left out)", value)
        return _NAMED.sub(r"\1 some arrays (their names are left out)", text)
    if isinstance(value, Mapping):
        return {name: _silent(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_silent(item) for item in value]
    return value


def schema() -> dict[str, Any]:
    """Return the JSON schema of `Report.values`."""
    file = resources.files("informed.report").joinpath("report.schema.json")
    return json.loads(file.read_text())
