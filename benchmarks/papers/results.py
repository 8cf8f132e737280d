"""What was found, one JSON file a row, with its provenance; pictures in docs/images."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import provenance
from benchmarks.papers.row import Found, Numbers, Row
from shadow import files

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "results"
PICTURES = ROOT / "docs" / "images" / "papers"


def write(
    row: Row,
    found: Found,
    *,
    seconds: float,
    configurations: Sequence[str],
    makers: Iterable[str],
    device: str,
    packages: Mapping[str, str],
) -> dict[str, Any]:
    """Keep what was found of a row.

    Args:
      seconds: of all computing that went into it, also where it was done before.
      configurations: what was run, a line each: the configuration and its overrides.
      makers: the commits and devices that made the runs, which may be older.
      device: what the runs were made on.
      packages: versions of the packages that evaluated them.
    Returns: what was written.
    """
    pictures = []
    for number, picture in enumerate(found.pictures):
        name = f"{row.paper}-{row.name}-{number}.png"
        files.write_bytes(PICTURES / name, picture.png)
        pictures.append({"file": name, "caption": picture.caption})
    values = {
        "paper": row.paper,
        "row": row.name,
        "holds": None if found.holds is None else bool(found.holds),
        "verdict": found.verdict,
        "theirs": found.theirs,
        "ours": found.ours,
        "size": row.size,
        "lines": [
            {
                "name": line.name,
                "theirs": _plain(line.theirs),
                "ours": _plain(line.ours),
            }
            for line in found.lines
        ],
        "pictures": pictures,
        "provenance": {
            "commit": provenance.commit(),
            "configurations": list(configurations),
            "device": device,
            "seconds": round(seconds, 1),
            "made_at": sorted(makers),
            "revisions": provenance.revisions(),
            "versions": dict(packages),
        },
    }
    files.write_json(_file(row), values)
    return values


def read(row: Row) -> Mapping[str, Any] | None:
    """What was found of a row; None: it was never measured."""
    file = _file(row)
    return json.loads(file.read_text()) if file.exists() else None


def changed(found: Mapping[str, Any]) -> list[str]:
    """The components of a row that have changed since, as "kernel 4, now 5".

    A row of an informed adversary rests on data and training, and on the attacks that
    its numbers name; one on weights alone on its attacks and victims.
    """
    then, now = found["provenance"]["revisions"], provenance.revisions()
    parts = {"bilevel", "kkt", "max_margin"}
    if found["paper"] == "balle":
        text = json.dumps([found["lines"], found["ours"], found["verdict"]])
        attacks = ("inversion", "kernel", "network")
        parts = {"data", "training", *(name for name in attacks if name in text)}
    # A component without a revision then was an earlier one.
    return [
        f"{name} {then.get(name, 'without a number')}, now {now[name]}"
        for name in sorted(parts)
        if then.get(name) != now[name]
    ]


def _plain(numbers: Numbers) -> dict[str, Any]:
    """Without numpy's types, which JSON doesn't know."""
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in numbers.items()
    }


def _file(row: Row) -> Path:
    return FOLDER / row.paper / f"{row.name}.json"
