"""Sentences about numbers: the answer in a few of them, and what it doesn't say.

Nothing here says that something is safe. Where no attack succeeded the sentence has the
upper end of the interval, and says that it is no protection.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dp import rero

Values = Mapping[str, Any]
# Accuracy that a defence may cost, absolutely, before it isn't named as one.
_BEARABLE = 0.1
# Probability, over all rows, of saying that a bound is broken which holds.
_CHANCE = 0.05
# Attacks of another game, whose rates aren't compared, and how they are spoken of.
OTHER_GAMES = {"gallery": "whose adversary has a gallery that holds the record, named"}

# What a bound by sampling assumes beyond noise, after "if ...".
POISSON = (
    " and every record takes part in each step independently, with the declared"
    " probability, in secret"
)

# Why a part of an audit is missing that its user skipped.
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
    """ "3 of 20 (15 %; 95 % interval 3 to 38 %)"."""
    return (
        f"{rate['successes']} of {rate['trials']} ({percent(rate['rate'])}; 95 %"
        f" interval {100 * rate['low']:.0f} to {percent_up(rate['high'])})"
    )


def percent(value: float | int | None) -> str:
    """ "12 %"; "-" where there is none."""
    return "–" if value is None else f"{100 * value:.0f} %"  # noqa: RUF001


def percent_up(value: float | int | None) -> str:
    """The same of a bound, rounded up: what is printed holds too."""
    if value is None:
        return percent(value)
    # What differs in the tenth digit is rounding of the bound's own computation.
    return f"{math.ceil(round(100 * value, 8))} %"


def number_up(value: float | int | None, digits: int = 4) -> str:
    """An epsilon, or noise that bounds something: rounded up, so that neither is less.

    Args:
      value: the number; None: "-".
      digits: how many are left.
    """
    if value is None or isinstance(value, int) or not math.isfinite(value):
        return number(value)
    return rero.rounded_up(value, digits)


def number(value: float | int | None) -> str:
    """Three digits; "-" where there is none."""
    if value is None:
        return "–"  # noqa: RUF001
    if value == 0:
        return "0"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.1e}" if abs(value) < 1e-3 else f"{value:.3g}"


def seconds(value: float | int | None) -> str:
    """ "12 s", "3.4 min"."""
    if value is None:
        return "–"  # noqa: RUF001
    return f"{value:.3g} s" if value < 90 else f"{value / 60:.3g} min"


def duration(value: float) -> str:
    """ "12 s", "3.4 minutes"."""
    return f"{value:.2g} s" if value < 90 else f"{value / 60:.2g} minutes"


def answer(values: Values) -> list[str]:
    """What wasn't finished, what could be read out, what changes it.

    Returns: a sentence or more each. What wasn't finished is left out where there is
      nothing of the kind, and stands behind an attack that read out every record.
    """
    found = _found(values) + _unstable(values)
    left = unfinished(values)
    best = strongest(values)
    whole = (
        best is not None
        and best["exact"]["rate"] == 1
        and best["finished"] >= best["planned"]
    )
    first = [found, *left] if whole else [*left, found]
    return [*first, _sentence([*_defended(values), *_bounded(values)])]


def unfinished(values: Values) -> list[str]:
    """Sentences of attacks that weren't finished or begun, and of records left out.

    Attacks that don't apply to such models aren't named: there is nothing to finish.
    """
    rows = [row for row in values["attacks"] if row["name"] not in OTHER_GAMES]
    found = [text for row in rows if (text := _unfinished(values, row))]
    if left := not_attacked(values):
        count, whats = values["subject"]["targets"], _whats(values)
        found.append(
            f"Only {count} of {count + left} {whats} were attacked, for lack of time"
            f" (`--minutes`). Nothing follows for the other {whats}."
        )
    return found


def not_attacked(values: Values) -> int:
    """Records that an audit was asked to attack, and for which it had no time."""
    asked = (values.get("configuration") or {}).get("targets") or 0
    return max(asked - values["subject"]["targets"], 0) if asked else 0


def _unfinished(values: Values, row: Values) -> str:
    name, whats = row["name"].capitalize(), _whats(values)
    needs, minutes = row.get("needs_seconds"), row.get("needs_minutes")
    cost = ""
    if needs is not None:
        advice = "" if minutes is None else f" (`--minutes {minutes}`)"
        cost = f"; it needs about {duration(needs)} a {whats[:-1]}{advice}"
    if not row["tried"]:
        if not not_begun(row):
            return ""
        begun = "was not begun" if needs is not None else "was not tried"
        return f"{name} {begun}: {row['why_not']}{cost}. Nothing follows from that."
    planned = row["planned"]
    if row["finished"] >= planned:
        return ""
    rest = "from that" if not row["finished"] else f"for the other {whats}"
    return (
        f"{name} finished {row['finished']} of {planned} {whats} in its"
        f" {duration(row['seconds'])}{cost}. Nothing follows {rest}."
    )


def _whats(values: Values) -> str:
    return "rows" if values["subject"]["kind"] == "table" else "records"


def strongest(values: Values) -> Values | None:
    """The attack on one record that read most of them out exactly, or came nearest."""

    def how_good(row: Values) -> tuple:
        return (
            row["exact"]["rate"],
            row["success"]["rate"],
            row["success"]["trials"],
            -math.inf if row["mse_median"] is None else -row["mse_median"],
        )

    return max(rated(values), key=how_good, default=None)


def not_begun(row: Values) -> bool:
    """Whether an attack that applies was not tried."""
    return row["applies"] and not row["tried"]


def rated(values: Values) -> list[Values]:
    """Attacks on one record that finished any; their rates can be compared."""
    return [
        row
        for row in values["attacks"]
        if row["tried"] and row["success"] and row["name"] not in OTHER_GAMES
    ]


def up_to(values: Values) -> tuple[str, str]:
    """The largest upper end of the success of attacks on one record; and whose it is.

    An attack that was finished for few records says less than one for all of them. ""
    where it is that of the strongest.
    """
    row = max(rated(values), key=lambda row: row["success"]["high"])
    whose = ""
    best = strongest(values)
    if best is None or row["success"]["high"] > best["success"]["high"]:
        whose = f' for the attack "{row["name"]}", finished for {row["finished"]}'
    return percent_up(row["success"]["high"]), whose


def of_others(values: Values) -> str:
    """What attacks of `OTHER_GAMES` read or named; "" where that is nothing."""
    read = [
        f' The attack "{row["name"]}", {OTHER_GAMES[row["name"]]}'
        + (
            f" exactly: {share(row['exact'])}."
            if row["exact"]["successes"]
            else f" better than any guess: {share(row['success'])}."
        )
        for row in values["attacks"]
        if row["name"] in OTHER_GAMES
        and row["tried"]
        and row["success"]
        and row["success"]["successes"]
    ]
    return "".join(read)


def _found(values: Values) -> str:
    best = strongest(values)
    what = _whats(values)[:-1]
    together = of_others(values)
    if best is None:
        if together:
            return f"No attack on one record was finished.{together}"
        return (
            "No attack was finished, so this report says nothing about reconstruction."
        )
    who = f"Someone who sees {best['sees']} and knows {best['knows']}"
    if best["success"]["successes"] == 0:
        return (
            f"{who} came nearer to none of {best['success']['trials']} {what}s than the"
            " best guess without the release (0 successes; 95 % interval up to"
            f" {''.join(up_to(values))}), by any attack on one {what} that was finished"
            f" here, which is no protection.{together}"
        )
    if not best["exact"]["successes"]:
        return (
            f"{who} came nearer to the {what} than the best guess without the release:"
            f" {share(best['success'])}, with a median error (MSE) of"
            f" {number(best['mse_median'])}; it read none exactly.{together}"
        ) + _remedy(best)
    text = f"{who} read {what}s out exactly: {share(best['exact'])}"
    if best["certified"]:
        rightly = best["certified"] - best["certified_wrong"]
        text += f", of which the attack certified {rightly} without having the {what}s"
    if best["certified_wrong"]:
        text += f" ({best['certified_wrong']} more certificates were wrong)"
    others = [row for row in rated(values) if row is not best]
    other = max(others, key=lambda row: row["success"]["successes"], default=best)
    if other["success"]["successes"] > best["exact"]["successes"]:
        text += (
            f'; the attack "{other["name"]}" came nearer than the best guess without'
            " the release for"
            f" {share(other['success'])}"
        )
    return f"{text}.{together}{_remedy(best)}"


def _remedy(best: Values) -> str:
    """Say what a developer does about the strongest attack."""
    if not best.get("remedy"):
        return ""
    return f" Remedy ({best['name']}): {best['remedy']}."


def _unstable(values: Values) -> str:
    """That chaos is the only reason why the training wasn't inverted."""
    found = (values.get("preflight") or {}).get("instability")
    inverted = [
        row["exact"]["successes"] for row in rated(values) if row["name"] == "inversion"
    ]
    # Chaos gets the credit for an inversion alone that was finished and found nothing.
    withstood = bool(inverted) and not any(inverted)
    if not withstood or not found or not found["chaotic"]:
        return ""
    least = "at least " if found["saturated"] else ""
    return (
        f" Its training is chaotic (exponent {least}{found['exponent']:.1f}): what"
        " withstood inversion did so by instability, not by design."
    )


def _defended(values: Values) -> list[str]:
    """Of defences, only what they did to the attacks that succeed without them."""
    tried = [row for row in values.get("defences", []) if row["attacks"]]
    first, rest = (tried[0], tried[1:]) if tried else (None, [])
    if first is None or not rest:
        return []
    winners = {
        row["name"]
        for row in first["attacks"]
        if row["tried"] and row["success"] and row["success"]["successes"]
    }
    succeeded = {row["name"] for row in rated(values) if row["success"]["successes"]}
    # A defence after which the model is of no use isn't one.
    useful = [row for row in rest if _loss(first, row) <= _BEARABLE]
    faced = [row for row in useful if winners <= _faced(row)]
    if not (winners | succeeded) or not useful:
        return []
    if not winners or not faced:
        names = " and ".join(sorted(winners or succeeded))
        return [f"no defence was tried to the end against what succeeded ({names})"]
    row = min(
        faced, key=lambda r: ((_most(r) or {"rate": 1.0})["rate"], _loss(first, r))
    )
    left, others = _left_by(row, first), " and ".join(sorted(succeeded - winners))
    return [f"{left}, but nothing was tried against {others}" if others else left]


def _left_by(row: Values, first: Values) -> str:
    """What a defence left to the attacks that it was held against."""
    worst = _most(row)
    assert worst is not None
    if worst["successes"]:
        measured = first["accuracy"] is not None
        useful_model = " that leaves a useful model" if measured else ""
        unknown = "" if measured else " (accuracy wasn't measured)"
        return (
            f"nothing tried against it{useful_model} stopped it: the least was left by"
            f" {row['name']}, {share(worst)}{_cost(first, row)}{unknown}"
        )
    held = " and ".join(sorted(_faced(row)))
    return (
        f"of what was tried against it, {row['name']} left {held} nothing"
        f" (0 of {worst['trials']}; up to {percent_up(worst['high'])})"
        f"{_cost(first, row)}"
    )


def _faced(row: Values) -> set[str]:
    """Attacks that came to an answer under a defence, of all that they were to face."""
    return {
        a["name"]
        for a in row["attacks"]
        if a["tried"] and a.get("finished", 1) and a["success"]
    }


def broken(bounds: Values | None) -> bool:
    """Whether an attack did better than a bound allows, by more than chance."""
    rows = (bounds or {}).get("rows", [])
    return any(row["violation"] * len(rows) < _CHANCE for row in rows)


def _bounded(values: Values) -> list[str]:
    """What the bound says; of an audit, of the noise that training declares."""
    bounds = values.get("bounds") or {}
    rows, calibrated = bounds.get("rows", []), bounds.get("calibrated")
    if broken(bounds):
        return [
            "the attack did better than the bound allows: training doesn't do what it"
            " declares of its noise, and no bound holds"
        ]
    threshold = bounds.get("threshold", 0.5)
    bounding = [row for row in rows if row["bound"] < 1]
    nearest = min(bounding, key=lambda r: abs(r["bound"] - threshold), default=None)
    if values["kind"] == "run" and nearest is not None:
        return [
            "the same training with clipped gradients and noise multiplier"
            f" {number_up(nearest['noise_multiplier'])} keeps any attack from naming"
            f" one of {bounds['candidates']} candidates more often than"
            f" {percent_up(nearest['bound'])}, at {percent(nearest['accuracy'])}"
            f" accuracy instead of {percent(values['subject']['accuracy'])}"
        ]
    if not bounds.get("privacy") and not rows:
        return [
            "no bound applies, as training declares no noise: only that would be a"
            " guarantee"
        ]
    parts, privacy = [], bounds.get("privacy", {})
    if not rows:
        parts.append("the noise that training declares wasn't held against an attack")
    sampled = POISSON if privacy.get("sampling_probability", 1.0) < 1 else ""
    declared = privacy.get("noise_multiplier")
    own = next((r for r in rows if r["noise_multiplier"] == declared), nearest)
    if own is not None and own["bound"] < 1:
        text = (
            f"with noise multiplier {number_up(own['noise_multiplier'])} no attack"
            f" names one of {bounds['candidates']} candidates more often than"
            f" {percent_up(own['bound'])}, if training adds the noise that it declares"
        )
        parts.append(text + sampled)
    elif own is not None:
        parts.append(
            "the noise that it declares, multiplier"
            f" {number_up(own['noise_multiplier'])}, bounds nothing"
        )
    if calibrated and (own is None or own["bound"] >= 1):
        parts.append(
            f"noise multiplier {number_up(calibrated['noise_multiplier'])} would bound"
            f" any attack that names one of {bounds['candidates']} candidates by"
            f" {percent_up(calibrated['bound'])}, if training adds it{sampled}"
        )
    return parts


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def _most(row: Values) -> Values | None:
    """The share of the attack that succeeded most often under a defence."""
    rates = [a["success"] for a in row["attacks"] if a["tried"] and a["success"]]
    return max(rates, key=lambda rate: (rate["rate"], rate["high"]), default=None)


def _loss(first: Values, row: Values) -> float:
    """Accuracy lost; infinite where nobody knows what the changed model is worth."""
    if first["accuracy"] is None:
        return 0.0
    if row["accuracy"] is None:
        return float("inf")
    return first["accuracy"] - row["accuracy"]


def _cost(first: Values, row: Values) -> str:
    if first["accuracy"] is None or row["accuracy"] is None:
        return ""
    before, after = percent(first["accuracy"]), percent(row["accuracy"])
    return f", at {after} accuracy instead of {before}"
