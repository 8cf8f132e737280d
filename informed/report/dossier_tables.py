"""The tables of a dossier: tests, what was not run, measured, declared, tried."""

from collections.abc import Mapping
from typing import Any

from informed.report import words

Values = Mapping[str, Any]


_OF_A_TEST = (
    "name", "about", "sees", "knows", "planned", "finished", "exact", "success",
    "certified", "mse_median", "seconds",
)  # fmt: skip


def test(row: Values) -> dict[str, Any]:
    """An attack that was tried, of the audit's own row."""
    return {field: row[field] for field in _OF_A_TEST}


def not_run(audit: Values) -> list[dict[str, Any]]:
    """Attacks that weren't tried or not to their end: why, and what they would take."""
    found = []
    for row in audit["attacks"]:
        planned, needs, takes = row["planned"], row["needs_seconds"], ""
        if row["tried"] and row["finished"] == planned:
            continue
        if needs is not None:
            takes = f"about {words.duration(needs)} a record"
            if row["needs_minutes"] is not None:
                takes += f" (`--minutes {row['needs_minutes']}`)"
        took = words.seconds(row["seconds"])
        why = row["why_not"] or f"finished {row['finished']} of {planned} in {took}"
        found.append(_left(row["name"], why, takes, applies=row["applies"]))
    found += [
        _left(row["name"], row["why_not"])
        for row in audit["membership"]
        if row["why_not"]
    ]
    if not audit["membership"]:
        found.append(_left("membership", words.LEFT_OUT))
    bounds = audit["bounds"]
    if bounds.get("privacy") and not bounds["rows"]:
        found.append(_left("noise against an attack", bounds["why_not"]))
    again = audit["gallery"]
    if again["why_not"]:
        done = f"{again['attempted']} of {audit['subject']['targets']} records"
        why = f"{again['why_not'][0].lower()}{again['why_not'][1:]}: {done}"
        found.append(_left("training again with a gallery", why))
    decoder = audit["decoder"]
    if decoder and decoder["why_not"]:
        found.append(_left("decoding embeddings to pictures", decoder["why_not"]))
    return found


def _left(
    name: str, why: str, takes: str = "", *, applies: bool = True
) -> dict[str, Any]:
    return {"name": name, "why": why, "takes": takes, "applies": applies}


def measured(audit: Values) -> dict[str, Any] | None:
    """The best attacks on one record, shares of records; None: none was finished.

    One attack may read most records exactly, and another one most of them in part.
    """
    best, exact = words.most_successful(audit), words.strongest(audit)
    if best is None or exact is None:
        return None
    return {
        "attack": best["name"],
        "exact": exact["exact"],
        "exact_by": exact["name"],
        "success": best["success"],
        "mse_median": best["mse_median"],
    }


def declared(audit: Values) -> dict[str, Any] | None:
    """The noise that training declares, and the bound that it gives; None: no noise."""
    bounds = audit["bounds"]
    privacy = bounds.get("privacy")
    if not privacy:
        return None
    row = _own(bounds)
    return {
        "privacy": dict(privacy),
        "relation": bounds["relation"],
        "delta": bounds["delta"],
        "epsilon": None if row is None else row["epsilon"],
        "candidates": bounds["candidates"],
        "bound": None if row is None else row["bound"],
        "success": None if row is None else row["success"],
        "broken": words.broken(bounds),
    }


def _own(bounds: Values) -> Values | None:
    """The row of the noise that training declares."""
    own = bounds["privacy"].get("noise_multiplier")
    rows = bounds.get("rows", [])
    return next((row for row in rows if row["noise_multiplier"] == own), None)


def countermeasure(row: Values) -> dict[str, Any]:
    """A defence and what it left to each attack, of the audit's own row."""
    return {
        "name": row["name"],
        "about": row["about"],
        "accuracy": row["accuracy"],
        "why_not": row["why_not"],
        "attacks": [
            {
                field: each.get(field, "")
                for field in ("name", "success", "tried", "why_not")
            }
            for each in row["attacks"]
        ],
    }
