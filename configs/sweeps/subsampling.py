"""Figures 7 and 23: mini-batches in an order that is known, or not, on MNIST.

Command:   informed sweep --config=configs/sweeps/subsampling.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests

Without momentum at every size, as Figure 7's caption has it.
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

RATES = {"smoke": (0.01,), "cpu": (0.01, 0.2), "paper": (0.01, 0.05, 0.2)}
BATCHES = {"smoke": (16, 32), "cpu": (128, 512), "paper": (256, 512, 1024, 2048, 4096)}
BOTH = ("attacks.kernel.targets=null",)
SMALLER = (*BOTH, "shadow.count=3000", "attacks.reconn.epochs=40")


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Mini-batches in known and unknown order"
    config.base = f"../mnist.py:{size}"
    smaller = SMALLER if size == "cpu" else BOTH
    config.overrides = ("training.momentum=0.0", *smaller)
    config.points = tuple(
        (
            f"{order}, {rate}, {batch}",
            f"training.shuffling={order}",
            f"training.learning_rate={rate}",
            f"training.batch_size={batch}",
        )
        for order in ("known", "unknown")
        for rate in RATES[size]
        for batch in BATCHES[size]
    )
    config.x = "training.batch_size"
    config.series = ("training.shuffling", "training.learning_rate")
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
