"""Figure 17: ten initialisations, fixed sets and sets of targets, on MNIST.

Command:   informed sweep --config=configs/sweeps/seeds.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

SEEDS = {"smoke": 2, "cpu": 10, "paper": 10}
BOTH = ("attacks.kernel.targets=null",)
SMALLER = (*BOTH, "shadow.count=6000", "attacks.reconn.epochs=40")


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Ten seeds"
    config.base = f"../mnist.py:{size}"
    config.overrides = SMALLER if size == "cpu" else BOTH
    config.points = tuple(
        (f"seed {seed}", f"seed={seed}") for seed in range(SEEDS[size])
    )
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
