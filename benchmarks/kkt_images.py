"""The KKT attack on images, one JSON line per row: what only the weights give away.

    python -m benchmarks.kkt_images --rows=cifar10,cifar10_multiclass --points=20

Every row is `informed kkt --config=configs/kkt.py:ROW`, two candidates per point. It
is kept in --workdir, with its pictures; of a finished row only the evaluation is done
again, and one of other settings is refused. Training
images are those after the first 100 of each class: on the first, settings were chosen.
"""

import argparse
import json
from pathlib import Path

from configs import kkt as config_file
from shadow import checks, devices
from uninformed.kkt import scoring
from uninformed.kkt.experiment import Uninformed

KINDS = ("", "_multiclass", "_mse")
ROWS = tuple(f"{name}{kind}" for name in ("mnist", "cifar10") for kind in KINDS)


def main() -> None:
    """Run and print, row after row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--offset", type=int, default=100, help="of each class")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--standard", action="store_true", help="no small first layer")
    parser.add_argument("--workdir", type=Path, default=Path("runs/kkt"))
    arguments = parser.parse_args()
    devices.one_a_core()
    for row in arguments.rows.split(","):
        values = config_file.get_config(row).to_dict()
        values["data"] |= {"points": arguments.points, "offset": arguments.offset}
        values["victim"]["widths"] = (arguments.width,) * 2
        values["victim"]["first_scale"] = None if arguments.standard else 1e-4
        values["attack"]["candidates"] = 2 * arguments.points
        name = f"{row}_{arguments.points}_{arguments.width}_from_{arguments.offset}"
        folder = arguments.workdir / (name + "_standard" * arguments.standard)
        results = scoring.run(checks.build(Uninformed, values), folder)
        print(json.dumps({"row": row, **results}), flush=True)


if __name__ == "__main__":
    main()
