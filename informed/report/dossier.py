"""A dossier: the documented analysis of what one record risks by a release.

Made of the numbers of an audit and of what the owner states; written for whoever
decides about the release, or has to show later how it was decided. Every sentence names
the fields of the audit that it rests on. What the owner states is marked as stated.

It has what was measured, what is declared, and what both together leave open; it never
calls anything harmless, since no measurement can.

Source: EDPB opinion 28/2024 (the documentation that shows whether personal data can be
extracted from a model), and what LeakPro's users ask for (its issue 443).
Checked: tests/informed/report/test_dossier.py.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from informed.report import dossier_sentences, dossier_tables, page, report, words
from informed.report.about import About
from shadow import files

SCHEMA = "dossier.schema.json"
IDENTITY = "urn:informed-adversary:dossier:1"
_TEMPLATE = "dossier.html.j2"
_SHA256 = re.compile("[0-9a-f]{64}")
Values = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Dossier:
    """The dossier of one audit.

    Attributes:
      values: JSON-able; see the schema beside this file. No record is in it.
    """

    values: Values

    @classmethod
    def of(cls, audit: Values, about: About | None = None) -> "Dossier":
        """From the document of an audit, redacted or not.

        Args:
          audit: the `values` of a Report, or what its JSON holds.
          about: what the owner states; None: nothing.
        Raises: ValueError: it is no audit's document.
        """
        if audit.get("kind") != "audit":
            raise ValueError(
                "Expected the .json of `informed audit`, got a document of the kind"
                f" {audit.get('kind')!r}."
            )
        return cls(values=_values(report.redacted(audit), about or About()))

    @property
    def json(self) -> str:
        """Strict JSON."""
        return files.as_json(self.values).decode()

    def html(self) -> str:
        """Pages for A4: no script, no network."""
        return page.filled(_TEMPLATE, dossier=self.values)

    def save(self, path: str) -> Path:
        """Write .html or .json, by the end of the name.

        Raises: ValueError: another end.
        """
        file, end = Path(path), report.require_end(path, tables=False)
        content = self.json if end == ".json" else self.html()
        files.write_bytes(file, content.encode())
        return file


def schema() -> dict[str, Any]:
    """The JSON schema of `Dossier.values`."""
    return json.loads(resources.files("informed.report").joinpath(SCHEMA).read_text())


def _values(audit: Values, about: About) -> dict[str, Any]:
    subject = audit["subject"]
    # The owner may have stated a version of their own in place of a hash.
    version = subject.get("version") or ""
    said = {
        "adversary": dossier_sentences.adversary(audit),
        "findings": dossier_sentences.findings(audit),
        "combined": dossier_sentences.combined(audit),
        "worst": dossier_sentences.worst(audit),
        "residual": dossier_sentences.residual(audit),
        "limits": [dossier_sentences.Said(text, ()) for text in words.NOT_SAID],
        "again": dossier_sentences.again(audit),
    }
    return {
        "schema": IDENTITY,
        "stated": {
            **about.stated,
            "release": {
                name: about.stated["release"][name]
                for name in ("form", "audience", "seed")
            },
        },
        "release": {
            "training": subject["train"],
            "training_sha256": version if _SHA256.fullmatch(version) else None,
            "training_version": None if _SHA256.fullmatch(version) else version,
            "data": subject["data"],
            "numbers": subject["params"],
            "arrays": [[name, list(shape)] for name, shape in subject["arrays"] or []],
            "accuracy": subject["accuracy"],
            "files": about.hashes(),
            "versions": dict(audit["versions"]),
            "command": audit.get("again", ""),
            "seconds": audit["seconds"],
        },
        "tests": [dossier_tables.test(row) for row in audit["attacks"] if row["tried"]],
        "not_run": dossier_tables.not_run(audit),
        "measured": dossier_tables.measured(audit),
        "declared": dossier_tables.declared(audit),
        "countermeasures": [
            dossier_tables.countermeasure(row) for row in audit["defences"]
        ],
        **{
            name: [{"text": s.text, "fields": list(s.fields)} for s in each]
            for name, each in said.items()
        },
    }
