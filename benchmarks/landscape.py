"""The 25 mixtures of the energy landscape, affine victim: one JSON line.

    python -m benchmarks.landscape --workdir=runs/landscape

20 + 20 images of CIFAR-10 and 20 of noise, all mixtures (and some starts beside them)
as one batch, for the bilevel attack, for gradient matching, and for the KKT attack on a
homogeneous network of the same images. `seconds` are those of the two attacks on the
affine victim, all quantities included; `each` has every method's, the KKT attack's with
the training of its victim. Then the conclusions of
`uninformed.landscape.conclusions` and the AUC of `detection`, with their figures.
"""

import argparse
import json
import shutil
from pathlib import Path

from configs import landscape as config_file
from shadow import checks, devices
from uninformed.landscape import study
from uninformed.landscape.runs import LandscapeConfig


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="affine", choices=config_file.SIZES)
    parser.add_argument("--workdir", type=Path, default=Path("runs/landscape"))
    arguments = parser.parse_args()
    devices.one_a_core()
    shutil.rmtree(arguments.workdir / "ends", ignore_errors=True)  # timed anew
    (arguments.workdir / "seconds.json").unlink(missing_ok=True)
    values = config_file.get_config(arguments.size).to_dict()
    results = study.run(checks.build(LandscapeConfig, values), arguments.workdir)
    each = results["seconds"]
    affine = round(sum(each[method] for method in ("bilevel", "matching")), 1)
    shown = {name: results[name] for name in ("conclusions", "detection")}
    print(json.dumps({"seconds": affine, "each": each} | shown))


if __name__ == "__main__":
    main()
