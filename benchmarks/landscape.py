"""The 25 mixtures of the energy landscape, affine victim: one JSON line.

    python -m benchmarks.landscape --workdir=runs/landscape

20 + 20 images of CIFAR-10 and 20 of noise, all 25 mixtures as one batch, for the
bilevel attack and for gradient matching. `seconds` has all but the pictures; the
conclusions are those of `informed.landscape.conclusions`.
"""

import argparse
import json
from pathlib import Path

from configs import landscape as config_file
from informed import landscape
from shadow import checks, devices


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="affine", choices=config_file.SIZES)
    parser.add_argument("--workdir", type=Path, default=Path("runs/landscape"))
    arguments = parser.parse_args()
    devices.one_a_core()
    values = config_file.get_config(arguments.size).to_dict()
    results = landscape.run(
        checks.build(landscape.LandscapeConfig, values), arguments.workdir
    )
    shown = ("seconds", "conclusions", "auc")
    print(json.dumps({name: results[name] for name in shown}))


if __name__ == "__main__":
    main()
