"""Put an audit's or a run's numbers in sentences, and say what they don't show.

`document`, `html_page` and `cli.audit_command` show the sentences; the command line and
audits also use single functions, such as `seconds`. `values` are those of a `Report`,
and nothing else is read. No sentence claims safety. If no attack succeeded, they give
the upper end of the confidence interval, and say that this is no protection.
"""

import math
from collections.abc import Mapping
from typing import Any

from dp import rero

Values = Mapping[str, Any]
# Probability, over all rows, of reporting a violation of a bound that holds.
_CHANCE = 0.05

UNREAD = "no attack reads"  # a finding that begins so is on something released

# What a bound with Poisson sampling assumes beyond noise, to follow "if ...".
POISSON = (
    " and every record takes part in each step independently, with the declared"
    " probability, in secret"
)

# Learned attacks that read nothing show little if they had fewer shadow models than
# this, or if their median error is this many times that of the mean record.
_FEW_SHADOWS, _WORSE = 200, 1.05

# Reason for a missing part of an audit that the user skipped.
LEFT_OUT = "left out by whoever ran the audit (`--skip`)"

NOT_SAID = (
    "That no attack here found a record is no protection: another attack may."
    " Intervals are of the records that were drawn, not of attacks that weren't tried.",
    "Only a bound from noise in training is a guarantee, and only under its"
    " assumptions: that training adds the noise that was declared, clips as declared,"
    " and that nobody learns which random numbers were drawn. A sampling probability"
    " says that every record takes part in each step independently of all others, in"
    " secret (Poisson sampling); batches of fixed size or in shuffled order don't.",
    "The adversary here knows every record but one, and the training code. Someone who"
    " knows less finds at most as much by these attacks, as they would guess the rest.",
    "Models were trained on the fixed set and one target. A model of many more records,"
    " or of longer training, is another model: its records may be easier or harder.",
)


def share(rate: Values) -> str:
    """Format a rate: "3 of 20 (15 %; 95 % interval 3 to 38 %)"."""
    return (
        f"{rate['successes']} of {rate['trials']} ({percent(rate['rate'])}; 95 %"
        f" interval {100 * rate['low']:.0f} to {percent_up(rate['high'])})"
    )


def percent(value: float | int | None) -> str:
    """Format a share: "12 %"; a dash for None."""
    return "–" if value is None else f"{100 * value:.0f} %"  # noqa: RUF001


def percent_up(value: float | int | None) -> str:
    """Format a bound on a share, rounded up so that the printed bound holds."""
    if value is None:
        return percent(value)
    # Differences in the tenth digit are rounding of the bound's computation.
    return f"{math.ceil(round(100 * value, 8))} %"


def number_up(value: float | int | None) -> str:
    """Format an epsilon, or noise for a bound: four digits, rounded up."""
    if value is None or isinstance(value, int) or not math.isfinite(value):
        return number(value)
    return rero.rounded_up(value, 4)


def number(value: float | int | None) -> str:
    """Format a number in three digits; a dash for None."""
    if value is None:
        return "–"  # noqa: RUF001
    if value == 0:
        return "0"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.1e}" if abs(value) < 1e-3 else f"{value:.3g}"


def seconds(value: float | int | None) -> str:
    """Format a time in a table: "12 s", "3.4 min"."""
    if value is None:
        return "–"  # noqa: RUF001
    return f"{value:.3g} s" if value < 90 else f"{value / 60:.3g} min"


def duration(value: float) -> str:
    """Format a time in a sentence: "12 s", "3.4 minutes"."""
    return f"{value:.2g} s" if value < 90 else f"{value / 60:.2g} minutes"


def verdict(values: Values) -> str:
    """Return one line on whether records can be read out of the model."""
    best, things = strongest(values), _things(values)
    if broken(values.get("bounds")):
        return (
            "The declared noise protects nothing: an attack did better than its bound"
            " allows."
        )
    if best is None:
        enough = values["enough_minutes"]
        again = "" if enough is None else f" Run again with `--minutes {enough}`."
        return f"No verdict: no attack finished.{again}"
    adversary = f"by someone who sees {best['sees']} and knows {best['knows']}"
    exact, success = best["exact"], best["success"]
    if exact["successes"]:
        return (
            f"{things.capitalize()} can be read out of this model:"
            f" {exact['successes']} of {exact['trials']} exactly ({best['name']}),"
            f" {adversary}."
        )
    if success["successes"]:
        return (
            f"This model gives {things} away in part: {best['name']} came nearer than"
            f" the best guess without it for {success['successes']} of"
            f" {success['trials']}, {adversary}."
        )
    if all(untaught(values, row) for row in rated(values)):
        enough = values["enough_minutes"]
        again = "more `--minutes`" if enough is None else f"`--minutes {enough}`"
        if values.get("kind") == "run":
            again = "more of them (`--config.shadow.count`)"
        return (
            f"No verdict: {best['name']} read nothing, but it learned too little from"
            f" {_taught_by(values, best):,} shadow models. Run again with {again}."
        )
    return (
        f"Nothing was read out of {success['trials']} {things}; the strongest attack"
        f" that finished is {best['name']}. That is no protection."
    )


def remedy(values: Values) -> str:
    """Say how much noise to add; "" if no attack succeeded, or noise is enough."""
    best, bounds = strongest(values), values.get("bounds") or {}
    least, privacy = bounds.get("calibrated"), bounds.get("privacy")
    if best is None or least is None or broken(bounds):
        return ""
    declared = (privacy or {}).get("noise_multiplier", 0.0)
    if not best["success"]["successes"] or declared >= least["noise_multiplier"]:
        return ""
    sigma = number_up(least["noise_multiplier"])
    most = f"more often than {percent_up(bounds['threshold'])}"
    names = f"no attack then names it among {bounds['candidates']} candidates {most}"
    if privacy is None:
        return (
            "To limit it, train with DP-SGD: clip each record's gradient, and add noise"
            f" of {sigma} times the clipping norm, times the square root of the number"
            " of steps in which a record takes part (one an epoch in shuffled batches);"
            f" {names}. For one step: `{least['command']}`"
        )
    about = [f"{least['steps']:,} steps"]
    if (norm := privacy.get("clip_norm")) is not None:
        about.insert(0, f"clipping norm {number(norm)}")
    if (share_of := privacy.get("sampling_probability", 1.0)) < 1:
        about.append(f"sampling probability {number(share_of)}")
    if least["epsilon"] is not None:
        spent = f"epsilon {number_up(least['epsilon'])} at delta {bounds['delta']:g}"
        about.append(spent)
    accuracy = {row["noise_multiplier"]: row["accuracy"] for row in bounds["rows"]}
    measured, text = accuracy.get(least["noise_multiplier"]), ""
    if measured is not None:
        now = percent(values["subject"]["accuracy"])
        text = f" Accuracy with it: {percent(measured)} (now {now})."
    return (
        f"To limit it, train with noise multiplier {sigma} ({', '.join(about)}):"
        f" {names}.{text} `{least['command']}`"
    )


def first_lines(values: Values) -> list[str]:
    """Say what stands behind the verdict: a sentence or more each."""
    last = "; ".join(_bounded(values))
    lines = [remedy(values), *unfinished(values), how_well(values)]
    return [*filter(None, lines), f"{last[0].upper()}{last[1:]}."]


def unread(values: Values) -> list[str]:
    """Return the findings on what is released and no attack reads."""
    findings = (values.get("preflight") or {}).get("findings", ())
    texts = (finding["what"] for finding in findings)
    return [text for text in texts if text.startswith(UNREAD)]


def unfinished(values: Values) -> list[str]:
    """Name attacks that weren't finished or begun, and what was left out."""
    lines = [f"{text[0].upper()}{text[1:]}." for text in unread(values)]
    things = _things(values)
    for row in values["attacks"]:
        tried, planned = row["tried"], row["planned"]
        if not (tried or row["applies"]):  # not to such models
            continue
        if tried and row["finished"] >= planned:
            if row["success"] and untaught(values, row):
                lines.append(
                    f"{row['name'].capitalize()} learned too little from"
                    f" {_taught_by(values, row):,} shadow models. Nothing follows from"
                    " that."
                )
            continue
        name, needs, cost = row["name"].capitalize(), row.get("needs_seconds"), ""
        if needs is not None:
            minutes = row.get("needs_minutes")
            advice = "" if minutes is None else f" (`--minutes {minutes}`)"
            cost = f"; it needs about {duration(needs)} a {things[:-1]}{advice}"
        if not tried:
            begun = "was not begun" if needs is not None else "was not tried"
            lines.append(
                f"{name} {begun}: {row['why_not']}{cost}. Nothing follows from that."
            )
            continue
        rest = "from that" if not row["finished"] else f"for the other {things}"
        lines.append(
            f"{name} finished {row['finished']} of {planned} {things} in its"
            f" {duration(row['seconds'])}{cost}. Nothing follows {rest}."
        )
    if missing := not_attacked(values):
        count = values["subject"]["targets"]
        lines.append(
            f"Only {count} of {count + missing} {things} were attacked, for lack of"
            f" time (`--minutes`). Nothing follows for the other {things}."
        )
    return lines


def not_attacked(values: Values) -> int:
    """Count the records that an audit was to attack but had no time for."""
    asked = (values.get("configuration") or {}).get("targets") or 0
    return max(asked - values["subject"]["targets"], 0) if asked else 0


def _things(values: Values) -> str:
    """Return the word for records: rows of a table, or records."""
    return "rows" if values["subject"]["kind"] == "table" else "records"


def rated(values: Values) -> list[Values]:
    """Return the attacks on the release that finished any record, to be compared."""
    rows = [row for row in values["attacks"] if row["tried"] and row["success"]]
    return [row for row in rows if row.get("sees") != "nothing"]  # such as mean images


def untaught(values: Values, row: Values) -> bool:
    """Return whether a learned attack read nothing, and had too little to learn from.

    Then its failure shows nothing: it had few shadow models, or guesses worse (in MSE)
    than the mean record, which needs no model.
    """
    models = _taught_by(values, row)
    if not models or row["trainings"] != models:
        return False
    errors = {b["name"]: b["mse_median"] for b in values.get("baselines", ())}
    return learned_too_little(
        models, row["success"], row["mse_median"], errors.get("mean record")
    )


def _taught_by(values: Values, row: Values) -> int:
    """Return how many shadow models an attack had, if it learned from them."""
    return int(row.get("shadow_models", values["subject"].get("shadow_models", 0)))


def learned_too_little(
    models: int, success: Values, error: float | None, mean: float | None
) -> bool:
    """Return whether failure shows nothing: few models, or worse than the mean."""
    if not models or success["successes"]:
        return False
    worse = mean is not None and (error is None or not error <= _WORSE * mean)
    return models < _FEW_SHADOWS or worse


def strongest(values: Values) -> Values | None:
    """Return the attack that read most records exactly, or came nearest, or None."""
    return max(
        rated(values),
        key=lambda row: (
            row["exact"]["rate"],
            row["success"]["rate"],
            not untaught(values, row),
            row["success"]["trials"],
            -math.inf if row["mse_median"] is None else -row["mse_median"],
        ),
        default=None,
    )


def how_well(values: Values) -> str:
    """Say how well the strongest attack did; its remedy, if `remedy` has no numbers."""
    best, what = strongest(values), _things(values)[:-1]
    if best is None or untaught(values, best):
        return ""
    success, exact = best["success"], best["exact"]
    if not success["successes"]:
        # An attack that was finished for few records has a wider interval.
        row, whose = max(rated(values), key=lambda row: row["success"]["high"]), ""
        if row["success"]["high"] > success["high"]:
            whose = f' for the attack "{row["name"]}", finished for {row["finished"]}'
        return (
            f"No {what} was guessed better than without the model; the 95 % interval of"
            f" that rate ends at {percent_up(row['success']['high'])}{whose}."
        )
    if not exact["successes"]:
        text = (
            f"Guesses better than without the model: {share(success)}, with a median"
            f" error (MSE) of {number(best['mse_median'])}; none was exact."
        )
    else:
        text = f"{what.capitalize()}s read exactly: {share(exact)}"
        if best["certified"]:
            rightly = best["certified"] - best["certified_wrong"]
            text += f"; the attack certified {rightly} without having the {what}s"
        if best["certified_wrong"]:
            text += f" ({best['certified_wrong']} more certificates were wrong)"
        others = [row for row in rated(values) if row is not best]
        other = max(others, key=lambda row: row["success"]["successes"], default=best)
        if other["success"]["successes"] > exact["successes"]:
            text += (
                f'; the attack "{other["name"]}" guessed better than without the model'
                f" for {share(other['success'])}"
            )
        text += "."
    if best.get("remedy") and not remedy(values):
        text += f" Remedy ({best['name']}): {best['remedy']}."
    return text


def guessed(known: Values) -> str:
    """Say what bound holds for whoever guesses as well as public records allow."""
    priors = {
        "fixed": "by the best fixed guess",
        "nearest": "by the nearest public record",
    }
    texts = [
        f"{percent_up(known[name]['gamma'])} for whoever guesses no better than {what}"
        f" ({percent_up(known[name]['kappa'])} without the model)"
        for name, what in priors.items()
    ]
    return (
        f"At noise multiplier {number_up(known['noise_multiplier'])}, a reconstruction"
        f" with a mean squared error of at most {number(known['mse'])}, the median"
        " distance of a target to its nearest public record, succeeds in at most"
        f" {' and '.join(texts)}."
    )


def broken(bounds: Values | None) -> bool:
    """Return whether an attack exceeded a bound, by more than chance."""
    rows = (bounds or {}).get("rows", [])
    return bool((bounds or {}).get("above")) or any(
        row["violation"] * len(rows) < _CHANCE for row in rows
    )


def above_bound(row: Values, attacks: int) -> bool:
    """Return whether one of a run's attacks exceeded a bound, by more than chance."""
    chance = row.get("label_violation")
    few = chance is not None and chance * attacks < _CHANCE
    return few or bool(row.get("roc_violations"))


def _bounded(values: Values) -> list[str]:
    """Return clauses that state the bound for the noise that training declares."""
    bounds = values.get("bounds") or {}
    rows, calibrated = bounds.get("rows", []), bounds.get("calibrated")
    if broken(bounds):
        return [
            "the attack did better than the bound allows: training doesn't do what it"
            " declares of its noise, and no bound holds"
        ]
    privacy = bounds.get("privacy") or {}
    declared = privacy.get("noise_multiplier")
    if not declared:
        return [
            "no bound applies, as training declares no noise: only that would be a"
            " guarantee"
        ]
    parts = []
    if "above" in bounds:  # of a run, which holds every attack against it
        parts.append(
            "no attack exceeded its bound for the noise that training declares"
        )
    elif not rows:
        parts.append("the noise that training declares wasn't held against an attack")
    sampled = POISSON if privacy.get("sampling_probability", 1.0) < 1 else ""
    shipped = next((r for r in rows if r["noise_multiplier"] == declared), None)
    if shipped is not None and shipped["bound"] < 1:
        parts.append(
            f"with noise multiplier {number_up(shipped['noise_multiplier'])} no attack"
            f" names one of {bounds['candidates']} candidates more often than"
            f" {percent_up(shipped['bound'])}, if training adds the noise that it"
            f" declares{sampled}"
        )
    elif shipped is not None:
        parts.append(
            "the noise that it declares, multiplier"
            f" {number_up(shipped['noise_multiplier'])}, bounds nothing"
        )
    if calibrated and (shipped is None or shipped["bound"] >= 1):
        parts.append(
            f"noise multiplier {number_up(calibrated['noise_multiplier'])} would bound"
            f" any attack that names one of {bounds['candidates']} candidates by"
            f" {percent_up(calibrated['bound'])}, if training adds it{sampled}"
        )
    return parts
