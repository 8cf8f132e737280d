"""Figure 18: size of the fixed set, on MNIST.

Command:   informed sweep --config=configs/sweeps/fixed_set.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

SIZES = {
    "smoke": (20, 50),
    "cpu": (100, 300, 1000, 3000),
    "paper": (100, 1000, 10_000),
}
BOTH = ("attacks.kernel.targets=null",)
SMALLER = (*BOTH, "shadow.count=6000", "attacks.reconn.epochs=40")


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Size of the fixed set"
    config.base = f"../mnist.py:{size}"
    config.overrides = SMALLER if size == "cpu" else BOTH
    config.points = tuple((f"n={n}", f"data.num_fixed={n}") for n in SIZES[size])
    config.x = "data.num_fixed"
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
