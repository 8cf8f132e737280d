"""Files of JSON lines that the same measurement, and no other, goes on with."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from informed.attacks import registry
from shadow import data, records, training
from shadow.records import Record


def lines(out: Path | None, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was measured before under the same settings and versions.

    Args:
      out: the file; beside it lies the record of its settings. None: nothing is kept.
      settings: everything that decides a line.
    Raises: ConfigurationMismatchError, VersionMismatchError: the lines that are there
      were measured otherwise.
    """
    if out is None:
        return []
    record = Record.of(
        settings,
        data=data.REVISION,
        inversion=registry.find("inversion").revision,
        stationary=registry.find("stationary").revision,
        training=training.REVISION,
    )
    beside = out.with_name(f"{out.name}.settings.json")
    begun = out.exists() and out.stat().st_size > 0
    if begun and not beside.exists():
        raise records.ConfigurationMismatchError(
            f"{out} does not say how it was measured. Name another file."
        )
    records.claim(beside, record, f"The measurement in {out}", begun=begun)
    if not begun:
        return []
    # A line that was cut off, as its process was killed, is measured again.
    whole = out.read_text().rpartition("\n")[0]
    out.write_text(f"{whole}\n" if whole else "")
    return [json.loads(line) for line in whole.splitlines()]


def append(out: Path | None, line: Mapping[str, Any]) -> None:
    """Keep a line."""
    if out is not None:
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")
