"""`python -m benchmarks.papers`; see the package's docstring."""

import argparse
import contextlib
import json
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers import many, page, register, results
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Row
from shadow import checks, devices


def main(argv: Sequence[str] | None = None) -> None:
    """List rows, measure some, or write the page."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.papers",
        description="Tables and figures of the papers, theirs beside ours.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="a line a row")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    run = commands.add_parser("run", help="measure rows")
    run.add_argument("rows", nargs="+", metavar="ROW")
    run.add_argument(
        "--work",
        type=Path,
        default=Path("runs/papers"),
        help="folder of stores and runs, which rows share (default: runs/papers)",
    )
    run.add_argument("--data-dir", help="TFDS folder (default: TFDS_DATA_DIR)")
    run.add_argument("--quiet", action="store_true", help="no progress")
    run.add_argument(
        "--processes",
        type=int,
        default=1,
        help="make the rows' runs in so many processes at once, for a GPU that one run"
        " doesn't fill (default: 1, one after the other)",
    )
    run.add_argument(
        "--again",
        action="store_true",
        help="make runs also where their numbers are kept in the repository",
    )
    commands.add_parser("page", help="write docs/reproducing.md")
    arguments = parser.parse_args(argv)
    if arguments.command == "list":
        _list(as_json=arguments.json)
    elif arguments.command == "page":
        page.write()
        print(page.FILE)
    else:
        try:
            rows = [register.find(name) for name in arguments.rows]
        except ValueError as error:
            parser.error(str(error))
        for row in rows:
            if row.measure is None:
                parser.error(f"{row.name} can't be measured: {row.needs}")
        if arguments.processes < 1:
            parser.error(f"--processes: at least 1, got {arguments.processes}")
        lab = Lab(
            arguments.work,
            data_dir=arguments.data_dir,
            progress=not arguments.quiet,
            again=arguments.again,
        )
        if arguments.processes == 1:
            with contextlib.suppress(RuntimeError):  # JAX is in use, as in a test
                devices.one_a_core()
            for row in rows:
                _measure(row, lab)
        elif failed := _many(rows, lab, arguments.processes):
            parser.exit(1, "\n".join(failed) + "\n")


def _many(rows: Sequence[Row], lab: Lab, processes: int) -> list[str]:
    """Make the rows' runs side by side, then measure. Returns: a line a failure."""
    with many.sharing_a_card(processes, lab.work / "compiled"):
        wanted = {row: many.wanted(row, lab) for row in rows}
        runs = {folder: run for each in wanted.values() for folder, run in each.items()}
        lost = many.make(runs, processes)
        failed = list(lost.values())
        for row in rows:
            if missing := len(lost.keys() & wanted[row].keys()):
                failed.append(f"{row.name}: not measured, {missing} of its runs failed")
                continue
            try:
                _measure(row, lab)
            except Exception as error:
                traceback.print_exc()
                failed.append(f"{row.name}: {checks.named(error)}")
    return failed


def _measure(row: Row, lab: Lab) -> None:
    """Measure a row, and keep and print what was found."""
    assert row.measure is not None
    lab.beginning()
    found = row.measure(lab)
    kept = results.write(
        row,
        found,
        seconds=lab.seconds,
        configurations=lab.configurations,
        makers=lab.makers,
        device=lab.device,
        packages=lab.packages,
    )
    print(json.dumps({n: kept[n] for n in ("row", "holds", "verdict", "ours")}))


def _list(*, as_json: bool) -> None:
    for row in register.ROWS:
        found = results.read(row)
        shown = found and {
            "ours": found["ours"],
            "theirs": found["theirs"],
            "commit": found["provenance"]["commit"],
            "seconds": found["provenance"]["seconds"],
        }
        command = f"python -m benchmarks.papers run {row.paper}/{row.name} --work WORK"
        values = {
            "paper": row.paper,
            "row": row.name,
            "shown": shown,
            "needs": "" if shown else row.needs,
            "holds": found and found["holds"],
            "but": row.but,
            "command": command if row.measure else "",
            "changed": results.changed(found) if found else [],
        }
        if as_json:
            print(json.dumps(values))
        else:
            what = shown["ours"] if shown else f"needs: {row.needs}"
            print(f"{row.paper}/{row.name:<24}{what}")


if __name__ == "__main__":
    main()
