"""A release gate, `--max-success P`: exit code 4 if an attack may succeed more often.

`audit_command` and `run_commands` do their work inside `closed`, then call `require`.
It passes if every attack that applies was finished on all records and the upper end of
the 95 % interval of its success rate (Clopper-Pearson) is at most P. It fails closed:
an attack that was not tried, not finished, stopped with an error or (in an audit)
learned too little was not shown to be harmless, and neither was a model that no attack
was evaluated on. It only reads results, and raises an error.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from informed.report import words
from shadow import checks, limits

OPTION = "--max-success"


class GateFailedError(RuntimeError):
    """Attacks on a release were not shown to stay below the limit; says why."""

    exit_code = 4


@contextlib.contextmanager
def closed(most: float | None) -> Iterator[None]:
    """Turn any error inside into a failed gate, if there is a gate.

    Args:
      most: the limit; None: there is no gate, and errors stay as they are.
    Raises: GateFailedError: something was raised; names it.
    """
    try:
        yield
    except GateFailedError:
        raise
    # Training functions and attacks may raise anything.
    except (Exception, SystemExit, limits.OutOfTimeError) as error:
        if isinstance(error, SystemExit):
            error = RuntimeError(f"the user's code ended the process: {error!r}")
        if most is None:
            raise error
        where = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
        raise GateFailedError(
            f"{OPTION} {most:g}: {where}it stopped with {checks.named(error)}"
        ) from error


def require(values: Any, most: float) -> None:
    """Require that every attack stays below the limit.

    Args:
      values: the document of an audit, or the contents of a run's results.json.
      most: largest success rate that passes.
    Raises: GateFailedError: an attack may succeed more often, or nothing shows that it
      doesn't; names each such attack, and why.
    """
    try:
        doubts = list(_doubts(values, most))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        doubts = [f"the results can't be read ({checks.named(error)})"]
    if doubts:
        raise GateFailedError(f"{OPTION} {most:g}: {'; '.join(doubts)}.")


def _doubts(values: Any, most: float) -> Iterator[str]:
    """Yield, per attack, why it was not shown to stay below the limit."""
    attacks = values["attacks"]
    is_run = isinstance(attacks, Mapping)
    rows = list(_of_run(values) if is_run else _of_audit(values))
    for name, why, rate in rows:
        if why:
            yield f"{name} {why}"
        elif not rate["trials"] > 0:
            yield f"{name} was evaluated on no record"
        elif not rate["high"] <= most:  # true for NaN too
            yield (
                f"{name} succeeded for {rate['successes']} of {rate['trials']}, whose"
                f" interval ends at {rate['high']:.3g}"
            )
    if not rows:
        yield "no attack was evaluated"
    if is_run:
        return
    if count := words.not_attacked(values):
        yield f"{count} records were not attacked, for lack of time"
    yield from words.unread(values)
    bounds = values.get("bounds") or {}
    if words.broken(bounds):
        yield "an attack did better than the bound of the declared noise allows"
    elif (bounds.get("privacy") or {}).get("noise_multiplier") and not bounds["rows"]:
        yield "the declared noise was not tested"


# The name of an attack, why it wasn't finished ("": it was), and its success.
_Row = tuple[str, str, Any]


def _of_audit(values: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield the attacks that apply, from an audit's document."""
    for row in values["attacks"]:
        if not (row["applies"] or row["tried"]):
            continue
        why, planned = "", row["planned"]
        if not row["tried"]:
            why = f"was not tried ({row['why_not']})"
        elif row["finished"] < planned or not row["success"]:
            why = f"finished {row['finished']} of {planned} ({row['why_not']})"
        elif words.untaught(values, row):
            why = "learned too little from few shadow models"
        yield row["name"], why, row["success"]


def _of_run(results: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield the configured attacks, from a run's results.json."""
    for name, row in results["attacks"].items():
        if row.get("sees") == "nothing":  # the mean image shows nothing about a release
            continue
        rate, models = row["closer_than_oracle"], row["shadow_models"]
        few = words.learned_too_little(
            models, rate, row["mse"], results["mean_image_mse"]
        )
        why = f"learned too little from {models} shadow models" if few else ""
        if words.above_bound(row, len(results["attacks"])):
            why = "did better than the bound of the declared noise allows"
        yield name, why, rate
    asked = results.get("configuration", {}).get("attacks", {})
    for name in asked.keys() - results["attacks"].keys():
        if asked[name]["targets"] != 0:  # 0 targets: the run leaves the attack out
            yield name, "was not tried", None
