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
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from informed.report import page, words
from informed.report.about import About
from shadow import files

SCHEMA = "dossier.schema.json"
IDENTITY = "urn:informed-adversary:dossier:1"
_TEMPLATE = "dossier.html.j2"
Values = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Said:
    """A sentence, and the fields of the audit that it rests on.

    Attributes:
      text: the sentence.
      fields: their names, dotted; an attack's by its name in brackets.
    """

    text: str
    fields: tuple[str, ...]


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
        return cls(values=_values(audit, about or About()))

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
        file = Path(path)
        require_name(path)
        content = self.json if file.suffix == ".json" else self.html()
        files.write_bytes(file, content.encode())
        return file


def require_name(path: str) -> None:
    """Raise ValueError unless a dossier can be written to a file of this name."""
    if Path(path).suffix not in (".html", ".htm", ".json"):
        raise ValueError(
            f"Expected the name of a dossier to end in .html or .json, got {path!r}."
        )


def schema() -> dict[str, Any]:
    """The JSON schema of `Dossier.values`."""
    return json.loads(resources.files("informed.report").joinpath(SCHEMA).read_text())


def _values(audit: Values, about: About) -> dict[str, Any]:
    subject = audit["subject"]
    said = {
        "adversary": _adversary(audit),
        "findings": _findings(audit),
        "combined": _combined(audit),
        "worst": _worst(audit),
        "residual": _residual(audit),
        "limits": [Said(text, ()) for text in words.NOT_SAID],
        "again": _again(audit),
    }
    return {
        "schema": IDENTITY,
        "stated": {
            "system": dataclasses.asdict(about.system),
            "data": dataclasses.asdict(about.data),
            "release": {
                name: getattr(about.release, name)
                for name in ("form", "audience", "seed")
            },
        },
        "release": {
            "training": subject["train"],
            "training_sha256": subject.get("version"),
            "data": subject["data"],
            "numbers": subject["params"],
            "arrays": [[name, list(shape)] for name, shape in subject["arrays"] or []],
            "accuracy": subject["accuracy"],
            "files": about.hashes(),
            "versions": dict(audit["versions"]),
            "command": audit.get("again", ""),
            "seconds": audit["seconds"],
        },
        "tests": [_test(row) for row in audit["attacks"] if row["tried"]],
        "not_run": _not_run(audit),
        "measured": _measured(audit),
        "declared": _declared(audit),
        "countermeasures": [_countermeasure(row) for row in audit["defences"]],
        **{
            name: [{"text": s.text, "fields": list(s.fields)} for s in each]
            for name, each in said.items()
        },
    }


# Tables


def _test(row: Values) -> dict[str, Any]:
    planned = row.get("planned", row["targets"])
    return {
        "name": row["name"],
        "about": row["about"],
        "sees": row["sees"],
        "knows": row["knows"],
        "planned": planned,
        "finished": row["finished"],
        "exact": row["exact"],
        "success": row["success"],
        "certified": row["certified"],
        "mse_median": row["mse_median"],
        "seconds": row["seconds"],
    }


def _not_run(audit: Values) -> list[dict[str, Any]]:
    """Attacks that weren't tried or not to their end: why, and what they would take."""
    plan = (audit["preflight"] or {}).get("plan", {}).get("attacks", [])
    applies = {row["name"]: row["applies"] for row in plan}
    found = []
    for row in audit["attacks"]:
        planned = row.get("planned", row["targets"])
        left = planned - (row["finished"] or 0) if row["tried"] else planned
        if row["tried"] and not left:
            continue
        takes, needs = "", row.get("needs_seconds")
        if needs is not None:
            takes = f"about {words.duration(needs)} a record"
            if row.get("needs_minutes") is not None:
                takes += f" (`--minutes {row['needs_minutes']}`)"
        took = words.seconds(row["seconds"])
        why = row["why_not"] or f"finished {row['finished']} of {planned} in {took}"
        found.append(
            {
                "name": row["name"],
                "why": why,
                "takes": takes,
                "applies": row["tried"] or applies.get(row["name"], True),
            }
        )
    found += [
        {"name": row["name"], "why": row["why_not"], "takes": "", "applies": True}
        for row in audit["membership"]
        if row["why_not"]
    ]
    return found


def _measured(audit: Values) -> dict[str, Any] | None:
    """The strongest attack: share of records and 95 % interval; None: none finished."""
    best = words.strongest(audit)
    if best is None:
        return None
    return {
        "attack": best["name"],
        "exact": best["exact"],
        "success": best["success"],
        "mse_median": best["mse_median"],
    }


def _declared(audit: Values) -> dict[str, Any] | None:
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


def _countermeasure(row: Values) -> dict[str, Any]:
    return {
        "name": row["name"],
        "about": row["about"],
        "accuracy": row["accuracy"],
        "why_not": row["why_not"],
        "attacks": [
            {
                "name": each["name"],
                "success": each["success"],
                "tried": each["tried"],
                "why_not": each.get("why_not", ""),
            }
            for each in row["attacks"]
        ],
    }


# Sentences


def _adversary(audit: Values) -> list[Said]:
    subject = audit["subject"]
    return [
        Said(
            f"The tests are made for an adversary who knows {subject['fixed']:,} of the"
            f" {subject['fixed'] + 1:,} training records, the training code, and the"
            " architecture; who sees what is released; and who wants the one record"
            " that is left. Which attack also knows the seed is said beside it.",
            ("subject.fixed", "attacks[].knows", "attacks[].sees"),
        ),
        Said(
            "This is more than most adversaries have. It is assumed because what"
            " such an adversary can't read, one who knows less can't read by the same"
            " means, and because knowledge of other records can't be ruled out by"
            " anything that the developer does.",
            (),
        ),
        Said(
            f"{subject['targets']} records were drawn as targets; for each a model was"
            " trained on the known records and the target.",
            ("subject.targets",),
        ),
        Said(
            f"What was tested is the training function {subject['train']}, by the"
            " models that it makes of so many records. Whether released files come of"
            " it, and of how many records, was not checked.",
            ("subject.train", "subject.version", "subject.fixed"),
        ),
    ]


def _findings(audit: Values) -> list[Said]:
    """The first lines of the audit's own page."""
    fields = ("attacks", "defences", "bounds", "preflight.instability")
    return [Said(text, fields) for text in words.answer(audit)]


def _combined(audit: Values) -> list[Said]:
    """What measurement and declaration leave open, together."""
    best, declared = words.strongest(audit), _declared(audit)
    found = []
    if best is None:
        found.append(
            Said("Nothing was measured: no attack was finished.", ("attacks",))
        )
    else:
        rate, field = best["success"], f"attacks[{best['name']}].success"
        found.append(
            Said(
                f"Measured: the attack {best['name']} succeeds for"
                f" {words.share(rate)} of records. Over records like these its share"
                f" is at least {words.percent(rate['low'])}; another attack's may be"
                " larger.",
                (field,),
            )
        )
    found += _gallery(audit)
    if declared is None:
        found.append(
            Said(
                "Declared: nothing. Training adds no noise that a bound could rest on,"
                " so nothing limits what an attack that wasn't tried may read.",
                ("bounds",),
            )
        )
        return found
    fields = ("bounds.privacy", "bounds.rows", "bounds.relation")
    noise = words.number(declared["privacy"]["noise_multiplier"])
    if declared["broken"]:
        found.append(
            Said(
                f"Declared: noise multiplier {noise}. An attack did better than that"
                " noise allows, by more than chance: training doesn't do what it"
                " declares, and no bound holds.",
                fields,
            )
        )
    elif declared["bound"] is None or declared["success"] is None:
        found.append(
            Said(
                f"Declared: noise multiplier {noise}. It was not held against an"
                " attack, so nothing here says whether training adds it.",
                fields,
            )
        )
    elif declared["bound"] >= 1:
        found.append(
            Said(f"Declared: noise multiplier {noise}, which bounds nothing.", fields)
        )
    else:
        count, success = declared["candidates"], declared["success"]
        found.append(
            Said(
                f"Declared: noise multiplier {noise}. If training adds it and its"
                " random numbers stay secret, nobody names one of"
                f" {count} candidates more often than"
                f" {words.percent(declared['bound'])}.",
                fields,
            )
        )
        found.append(
            Said(
                f"Both: the best attack on {count} candidates that was played names"
                f" the right one in {words.share(success)}; what no attack was found"
                f" for, and the bound doesn't exclude, lies between"
                f" {words.percent(success['low'])} and"
                f" {words.percent(declared['bound'])}. Nothing here checks that"
                " training adds the noise that it declares.",
                (*fields, "bounds.rows[].success"),
            )
        )
    return found


def _worst(audit: Values) -> list[Said]:
    """The record that fares worst; means hide it."""
    rows = [row for row in audit["records"] if row["best_mse"] is not None]
    if not rows:
        return [Said("No record was attacked to the end.", ("records",))]
    row = min(rows, key=lambda each: each["best_mse"])
    nearest = [name for name, error in row["mse"].items() if error == row["best_mse"]]
    by = f"the attack {nearest[0]}" if nearest else "an attack"
    field = f"records[{row['record']}]"
    text = (
        f"Worst is record {row['record']} (its place in the data): {by} reads it with"
        f" an error (MSE) of {words.number(row['best_mse'])}, where the best guess"
        f" without the release is off by {words.number(row['without_release_mse'])}."
    )
    wrong = any(each["certified_wrong"] for each in audit["attacks"])
    if row["certified"] and not wrong:
        text += " The attack knows by itself that this is the record."
    read = sum(each["best_mse"] < each["without_release_mse"] for each in rows)
    return [
        Said(text, (f"{field}.mse", f"{field}.without_release_mse")),
        Said(
            f"Of {len(rows)} records {read} are read better than by any such guess.",
            ("records[].best_mse", "records[].without_release_mse"),
        ),
    ]


def _residual(audit: Values) -> list[Said]:
    """What is left, in words."""
    best, declared = words.strongest(audit), _declared(audit)
    if best is None:
        text = "The risk is unknown: no attack was finished."
    elif best["exact"]["successes"]:
        text = (
            "Records can be read out of this release exactly, by whoever"
            f" {_who(best)}. Whether anyone has that is for the owner to"
            " judge; what is released can't be called back."
        )
    elif best["success"]["successes"]:
        text = (
            "Records can be read out of this release in part: nearer than by any guess"
            f" without it, by whoever {_who(best)}."
        )
    else:
        text = (
            "By the attacks that were finished no record was read better than by a"
            f" guess. Up to {words.percent(best['success']['high'])} of such records"
            " may still be (95 %), and attacks that weren't tried may read more."
        )
    field = "attacks" if best is None else f"attacks[{best['name']}]"
    found = [*_gallery(audit), Said(text, (field,))]
    left = [row["name"] for row in _not_run(audit) if row["applies"]]
    open_ = [
        Said(
            f"Not tried, or not to the end: {'; '.join(left)}. Nothing follows from"
            " that.",
            ("attacks[].tried", "attacks[].finished", "membership[].why_not"),
        )
    ]
    open_ = open_ if left else []
    # What wasn't tried comes first, unless records were read or named all the same.
    read = bool(_gallery(audit)) or (best is not None and best["exact"]["successes"])
    found = [*found, *open_] if read else [*open_, *found]
    if declared is None:
        text = "There is no guarantee: only noise in training gives one."
    elif declared["broken"]:
        text = "There is no guarantee: training doesn't add the noise that it declares."
    elif declared["bound"] is None:
        text = (
            "What the declared noise guarantees was not looked at here; `informed"
            " bound` tells what it would."
        )
    elif declared["bound"] >= 1:
        text = "There is no guarantee: the declared noise is too little for one."
    else:
        text = (
            "A guarantee there is only as far as training adds the noise that it"
            " declares, which was not checked."
        )
    found.append(Said(text, ("bounds",)))
    return found


def _gallery(audit: Values) -> list[Said]:
    """That more records are named out of a gallery than were read out."""
    named = words.named(audit)
    return [Said(f"{named[0].upper()}{named[1:]}", ("gallery",))] if named else []


def _who(row: Values) -> str:
    return f"sees {row['sees']} and knows {row['knows']}"


def _again(audit: Values) -> list[Said]:
    """When the dossier stops being true."""
    versions = audit["versions"]
    return [
        Said(
            "Test again when the training code, its settings, the amount or kind of"
            " data, or what is released changes: each makes another model.",
            ("subject.version", "subject.fixed", "subject.arrays"),
        ),
        Said(
            "Test again when more is released: another checkpoint, a model trained on"
            " overlapping data, scores in place of labels, or the seed.",
            ("subject.arrays",),
        ),
        Said(
            "Test again when attacks get better: these were those of informed-adversary"
            f" {versions.get('informed-adversary', 'of an unknown version')}.",
            ("versions.informed-adversary",),
        ),
    ]


def sentences(values: Values) -> Sequence[Mapping[str, Any]]:
    """All sentences of a dossier with their fields."""
    parts = (
        "adversary", "findings", "combined", "worst", "residual", "limits", "again",
    )  # fmt: skip
    return [each for part in parts for each in values[part]]
