"""`python -m benchmarks.sweeps SWEEP[:SIZE] --workdir=DIR`: run a grid of experiments.

SWEEP is one of `benchmarks.sweeps.sweeps`. SIZE is "cpu" by default; "paper" has the
paper's sizes, "smoke" is for tests.
"""

import argparse
import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.sweeps import grid, sweeps
from shadow import devices, reserved


def main(argv: Sequence[str] | None = None) -> None:
    """Run what isn't finished, and print a line per point."""
    parser = argparse.ArgumentParser("python -m benchmarks.sweeps", description=__doc__)
    parser.add_argument("sweep", help=f"one of {', '.join(sweeps.SWEEPS)}")
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a field of all points, such as shadow.count=1000; may be repeated",
    )
    parser.add_argument("--data-dir", help="TFDS folder (default: TFDS_DATA_DIR)")
    parser.add_argument("--json", action="store_true", help="a JSON object per point")
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    arguments = parser.parse_args(argv)
    reserved.prepare()
    with contextlib.suppress(RuntimeError):  # JAX is in use, as in a test
        devices.one_a_core()

    def report_point(row: Mapping[str, Any]) -> None:
        if arguments.json:
            print(json.dumps(row), flush=True)
            return
        errors = {
            name.removeprefix("attacks.").removesuffix(".mse"): value
            for name, value in row.items()
            if name.endswith(".mse")
        }
        if row["paper"] is not None:
            errors["paper"] = row["paper"]
        shown = (f"{name} {value:.5f}" for name, value in errors.items())
        print(f"{row['point']:<34}{'   '.join(shown)}", flush=True)

    try:
        sweep = sweeps.find(arguments.sweep)
        overrides = (*sweep.overrides, *arguments.set)
        grid.run(
            dataclasses.replace(sweep, overrides=overrides),
            arguments.workdir,
            data_dir=arguments.data_dir,
            progress=not (arguments.quiet or arguments.json),
            on_point=report_point,
        )
    except ValueError as error:
        parser.error(str(error))
    if not arguments.json:
        print(f"{'table':<34}{arguments.workdir / 'sweep.csv'}")


if __name__ == "__main__":
    main()
