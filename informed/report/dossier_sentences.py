"""The sentences of a dossier, each with the fields of the audit that it rests on."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from informed.report import dossier_tables, words

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


def adversary(audit: Values) -> list[Said]:
    """Who the tests are made for, and why they know so much."""
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


def findings(audit: Values) -> list[Said]:
    """The first lines of the audit's own page."""
    fields: tuple[str, ...] = ("attacks", "defences", "bounds", "preflight.instability")
    if words.named(audit):
        fields += ("gallery",)
    return [Said(text, fields) for text in words.answer(audit)] + _members(audit)


def combined(audit: Values) -> list[Said]:
    """What measurement and declaration leave open, together."""
    best, declared = words.most_successful(audit), dossier_tables.declared(audit)
    exact, together = words.strongest(audit), words.of_others(audit)
    found = []
    if best is None:
        text = "Nothing was measured: no attack was finished."
        if together:
            text = f"No attack on one record was finished.{together}"
        found.append(Said(text, ("attacks",)))
    else:
        rate, field = best["success"], f"attacks[{best['name']}].success"
        found.append(
            Said(
                f"Measured: the attack {best['name']} succeeds for"
                f" {words.share(rate)} of records. Over records like these its share"
                f" is at least {words.percent(rate['low'])}; another attack's may be"
                f" larger.{together}",
                (field,),
            )
        )
    if exact is not None and exact is not best and exact["exact"]["successes"]:
        found.append(
            Said(
                f"The attack {exact['name']} reads {words.share(exact['exact'])}"
                " exactly.",
                (f"attacks[{exact['name']}].exact",),
            )
        )
    found += _gallery(audit)
    fields = ("bounds.privacy", "bounds.rows", "bounds.relation")
    if declared is None:
        text = (
            "Declared: nothing. Training adds no noise that a bound could rest on, so"
            " nothing limits what an attack that wasn't tried may read."
        )
        return [*found, Said(text, ("bounds",))]
    noise = words.number_up(declared["privacy"]["noise_multiplier"])
    bound, success = declared["bound"], declared["success"]
    both = ""
    if declared["broken"]:
        text = (
            ". An attack did better than that noise allows, by more than chance:"
            " training doesn't do what it declares, and no bound holds."
        )
    elif bound is None or success is None:
        text = (
            ". It was not held against an attack, so nothing here says whether training"
            " adds it."
        )
    elif bound >= 1:
        text = ", which bounds nothing."
    else:
        count, at_most = declared["candidates"], words.percent_up(bound)
        sampled = audit["bounds"].get("privacy", {}).get("sampling_probability", 1.0)
        drawn = words.POISSON if sampled < 1 else ""
        text = (
            f". If training adds it and its random numbers stay secret{drawn}, nobody"
            f" names one of {count} candidates more often than {at_most}."
        )
        both = (
            f"Both: the best attack on {count} candidates that was played names the"
            f" right one in {words.share(success)}; what no attack was found for, and"
            f" the bound doesn't exclude, lies between {words.percent(success['low'])}"
            f" and {at_most}. Nothing here checks that training adds the noise that it"
            " declares."
        )
    found.append(Said(f"Declared: noise multiplier {noise}{text}", fields))
    if both:
        found.append(Said(both, (*fields, "bounds.rows[].success")))
    return found


def worst(audit: Values) -> list[Said]:
    """The record that fares worst; means hide it."""
    rows = [row for row in audit["records"] if row["best_mse"] is not None]
    if not rows:
        return [Said("No record was attacked to the end.", ("records",))]
    # Of those that were read better than by a guess, if there are any.
    row = min(rows, key=lambda each: (not each["read"], each["best_mse"]))
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
    read = sum(row["read"] for row in rows)
    return [
        Said(text, (f"{field}.mse", f"{field}.without_release_mse")),
        Said(
            f"Of {len(rows)} records {read} are read better than by any such guess.",
            ("records[].best_mse", "records[].without_release_mse"),
        ),
    ]


def residual(audit: Values) -> list[Said]:
    """What is left, in words."""
    best, declared = words.strongest(audit), dossier_tables.declared(audit)
    if best is None:
        text = "The risk is unknown: no attack was finished."
        if together := words.of_others(audit):
            text = f"No attack on one record was finished.{together}"
    elif best["exact"]["successes"]:
        text = (
            "Records can be read out of this release exactly, by whoever"
            f" {_who(best)}. Whether anyone has that is for the owner to"
            f" judge; what is released can't be called back.{words.of_others(audit)}"
        )
    elif best["success"]["successes"]:
        text = (
            "Records can be read out of this release in part: nearer than by any guess"
            f" without it, by whoever {_who(best)}.{words.of_others(audit)}"
        )
    else:
        most, whose = words.up_to(audit)
        text = (
            "By the attacks on one record that were finished no record was read better"
            f" than by a guess. Up to {most} of such records may still be (95"
            f" %{whose}), and attacks that weren't tried may read"
            f" more.{words.of_others(audit)}"
        )
    field = "attacks" if best is None else f"attacks[{best['name']}]"
    found = [*_gallery(audit), Said(text, (field,)), *_members(audit, told=True)]
    left = [row["name"] for row in dossier_tables.not_run(audit) if row["applies"]]
    open_ = [
        Said(
            f"Not tried, or not to the end: {'; '.join(left)}. Nothing follows from"
            " that.",
            (
                "attacks[].tried",
                "attacks[].finished",
                "membership[].why_not",
                "gallery.why_not",
            ),
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


def _members(audit: Values, *, told: bool = False) -> list[Said]:
    """What tells whether a record was trained on, which is less than what it is.

    Args:
      told: only what tells it better than chance does, at 95 %.
    """
    found = []
    for row in audit["membership"]:
        rate, auc = row.get("rate"), row.get("auc")
        field = f"membership[{row['name']}]"
        least = row.get("epsilon") or 0.0
        if rate is not None and (not told or rate["low"] > 0.5):
            text = (
                f"Whoever knows {row['knows']} tells the record that was trained on"
                f" from a public one for {words.share(rate)}."
            )
            found.append(Said(text, (f"{field}.rate", f"{field}.knows")))
        if auc is not None and (not told or least > 0):
            text = (
                f"Whoever knows {row['knows']} tells by scores whether it was trained"
                f" on, with an area under the curve of {auc:.2f} where chance has 0.5"
            )
            if least > 0:
                text += f"; so epsilon is at least {words.number(least)} (95 %)"
            fields = (f"{field}.auc", f"{field}.epsilon", f"{field}.knows")
            found.append(Said(f"{text}.", fields))
    return found


def _gallery(audit: Values) -> list[Said]:
    """That more records are named out of a gallery than were read out."""
    named = words.named(audit)
    return [Said(f"{named[0].upper()}{named[1:]}", ("gallery",))] if named else []


def _who(row: Values) -> str:
    return f"sees {row['sees']} and knows {row['knows']}"


def again(audit: Values) -> list[Said]:
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
