"""Run the commands `audit` and `report`: print results and write pages.

informed audit mine.py:train --data mine.npz --targets 20 --out audit.html
informed report runs/digits --out digits.html

`command_table` calls `execute`. An audit keeps a log and unfinished work beside --out;
a `Watchdog` ends the process if it overruns --minutes.
"""

import argparse
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from informed.audit import (
    AuditConfig,
    Preflight,
    Report,
    auditing,
    ledger,
    preflight,
    trials,
)
from informed.cli import console, gate, registering
from informed.cli.watchdog import Watchdog
from informed.metrics.comparison import aligned
from informed.report import document, run_report, words
from shadow import files

# Seconds after --minutes at which the page is written, whatever is still running.
_LATE_S = 2.0
# Seconds of --check for optional tests; seconds between its lines of progress.
_CHECK_S, _CHECK_EVERY_S = 20.0, 10.0
_ENGINES = {
    "jax": "JAX, batched and differentiated",
    "runs": "JAX, batched; derivatives by differences of trainings",
    "processes": "run in processes; derivatives by differences of trainings",
}


def execute(arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Run one of the commands and print its result."""
    if arguments.command == "audit":
        _audit(arguments)
        return
    registering.run(arguments.registers)
    workdir = Path(arguments.workdir)
    report = run_report.report(workdir, shadow=arguments.shadow)
    out = Path(arguments.out or workdir / "report.html")
    report.save(out, redact=arguments.redact)
    if arguments.json:
        shown = report.redacted if arguments.redact else report.values
        print(files.as_json(shown).decode(), end="")
    else:
        print(f"{report}\n{'page':<12}{out}")


def _audit(arguments: argparse.Namespace) -> None:
    """Run the pre-flight, or an audit."""
    for out in arguments.out:
        document.require_end(out)
    most = arguments.max_success
    if most is not None and arguments.check:
        raise ValueError(f"Expected no {gate.OPTION} with --check.")
    if arguments.check and (arguments.out or arguments.redact):
        raise ValueError("Expected no --out, --redact with --check, which has no page.")
    names = ("targets", "fixed", "minutes", "threshold", "reconn", "seed")
    settings = {name: getattr(arguments, name) for name in names}
    settings["skip"] = tuple(arguments.skip)
    config = AuditConfig(**settings)
    if arguments.check:
        _check(arguments, settings)
        return
    began = arguments.started
    folder = Path(f"{arguments.out[0]}.parts") if arguments.out else None
    state = auditing.AuditState(ledger=ledger.Ledger(folder), started=began)
    state.settings = config
    progress = console.Progress(arguments, arguments.minutes)
    scratch = tempfile.mkdtemp(prefix="informed-")
    tempfile.tempdir = scratch
    try:
        with console.aside(_log_of(arguments)) as shown, gate.closed(most):
            # A state makes its report at any time, whatever hangs.
            watchdog = Watchdog(
                60 * arguments.minutes + _LATE_S - (time.monotonic() - began),
                lambda: _late(state, arguments, shown, scratch),
            )
            try:
                audited = auditing.audit(
                    arguments.train,
                    arguments.data,
                    **settings,
                    label=arguments.label,
                    data_dir=arguments.data_dir,
                    progress=progress,
                    state=state,
                )
            finally:
                watchdog.done()
    finally:
        progress.close()
        tempfile.tempdir = None
        shutil.rmtree(scratch, ignore_errors=True)
    _conclude(audited, arguments)


def _check(arguments: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Run the pre-flight alone."""
    progress = console.Progress(arguments, None, every=_CHECK_EVERY_S)
    try:
        with console.aside(None):
            checked = auditing.check(
                arguments.train,
                arguments.data,
                **settings,
                label=arguments.label,
                data_dir=arguments.data_dir,
                progress=progress,
                limit=_CHECK_S / preflight.SHARE,
            )
    finally:
        progress.close()
    _print_checked(checked, as_json=arguments.json)


def _late(
    state: auditing.AuditState,
    arguments: argparse.Namespace,
    shown: Callable[[], None],
    scratch: str,
) -> int:
    """Conclude an audit at its deadline; returns the exit code."""
    shutil.rmtree(scratch, ignore_errors=True)
    code = 0
    try:
        with gate.closed(arguments.max_success):
            report = state.report()
            shown()
            _conclude(report, arguments)
    except Exception as error:
        shown()
        print(f"informed audit: {error}", file=sys.stderr)
        code = getattr(error, "exit_code", 2)
    sys.stdout.flush()
    return code


def _conclude(audited: Report, arguments: argparse.Namespace) -> None:
    """Write the page and the numbers, and print what they say; check --max-success."""
    command = shlex.join(["informed", *arguments.argv])
    report = Report(
        values={**audited.values, "again": command}, pictures=audited.pictures
    )
    for out in arguments.out:
        report.save(out, redact=arguments.redact)
    if arguments.redact and arguments.out:  # no record stays beside the page
        ledger.Ledger(Path(f"{arguments.out[0]}.parts")).remove()
    values = report.redacted if arguments.redact else report.values
    if arguments.json:
        print(files.as_json(values).decode(), end="")
    else:
        print(f"{words.verdict(values)}\n")
        for sentence in words.first_lines(values):
            print(sentence)
        print(f"\n{table(values)}\n")
        for out in arguments.out:
            print(f"{'written':<12}{out}")
    if (most := arguments.max_success) is not None:
        gate.require(values, most)


def _print_checked(checked: Preflight, *, as_json: bool) -> None:
    """Print the pre-flight; exit with 3 if it voids the audit."""
    values = {
        "train": checked.subject.contract.name,
        "engine": checked.subject.engine,
        "deterministic": checked.subject.deterministic,
        "params": checked.params,
        "accuracy": checked.accuracy,
        **checked.values,
        "attacks": trials.listed(checked),
    }
    if as_json:
        print(files.as_json(values).decode(), end="")
    else:
        print(_described(checked))
    if checked.stops:
        sys.exit(3)


def _described(checked: Preflight) -> str:
    """Format a pre-flight as text."""
    about = checked.subject
    rows = {
        "training": f"{about.contract.name}, {_ENGINES[about.engine]}",
        "data": f"{about.fixed.name}: {len(about.fixed)} known records,"
        f" {len(about.split.test)} targets, {len(about.split.shadow)} public",
        "released": f"{checked.params:,} weights in {len(checked.arrays)} arrays",
        "deterministic": "yes" if about.deterministic else "NO",
        "a model": f"{checked.seconds_each:.3g} s, {checked.at_once} at once",
    }
    if checked.accuracy is not None:
        rows["accuracy"] = f"{100 * checked.accuracy:.1f} % on public records"
    lines = list(rows.items())
    for row in trials.listed(checked):
        mark = "applies" if row["applies"] else f"no: {row['why_not']}"
        lines.append((f"  {row['name']}", mark))
    for finding in checked.findings:
        lines.append((finding.level, finding.what))
        if finding.remedy:
            lines.append(("  remedy", finding.remedy))
    return "\n".join(f"{name:<16}{text}" for name, text in lines)


def _log_of(arguments: argparse.Namespace) -> Path | None:
    """Return the log file for what training prints, beside the first output."""
    if not arguments.out:
        return None
    out = Path(arguments.out[0])
    out.parent.mkdir(parents=True, exist_ok=True)
    # Append the suffix rather than replace it: `audit.log` may be the user's file.
    return out.with_name(f"{out.name}.log")


def table(values: Mapping[str, Any]) -> str:
    """Format an audit's attacks as a text table, one row per attack."""
    header = "attack|success, 95 %|exact|certified|median MSE|labels|trainings|time"
    rows: list[Sequence[str]] = [header.split("|")]
    for row in values["attacks"]:
        rate, right, planned = row["success"], row["labels_right"], row["planned"]
        if not row["tried"]:
            rows.append((row["name"], f"not tried: {row['why_not']}"))
            continue
        if rate is None:
            spent = words.seconds(row["seconds"])
            text = f"finished none of {planned} in {spent}: nothing follows from that"
            rows.append((row["name"], text))
            continue
        cut = row["finished"] < planned
        rows.append(
            (
                row["name"],
                f"{rate['successes']} of {rate['trials']}"
                f" ({100 * rate['low']:.0f} to {words.percent_up(rate['high'])})"
                + (f", finished {row['finished']} of {planned}" if cut else ""),
                str(row["exact"]["successes"]),
                "-" if row["certified"] is None else str(row["certified"]),
                words.number(row["mse_median"]),
                "-" if right is None else f"{right} of {row['labels_named']}",
                words.number(row["trainings"]),
                words.seconds(row["seconds"]),
            )
        )
    for row in values["baselines"]:
        rows.append((row["name"], "", "", "", words.number(row["mse_median"])))
    return aligned(rows)
