"""Table III: random initialisation, learning rate and momentum, on MNIST.

Command:   informed sweep --config=configs/sweeps/table_3.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

ROWS = (
    ("random", 0.01, 0.0, 0.0693),
    ("random", 0.01, 0.9, 0.0691),
    ("random", 0.2, 0.0, 0.0692),
    ("random", 0.2, 0.9, 0.0695),
    ("shared", 0.01, 0.0, 0.0041),
    ("shared", 0.01, 0.9, 0.0049),
    ("shared", 0.2, 0.0, 0.0063),
    ("shared", 0.2, 0.9, 0.0089),
)
BOTH = ("attacks.kernel.targets=null",)
SMALLER = (*BOTH, "shadow.count=6000", "attacks.reconn.epochs=40")


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Table III"
    config.base = f"../mnist.py:{size}"
    config.overrides = SMALLER if size == "cpu" else BOTH
    config.points = tuple(
        (
            f"{init}, {rate}, {momentum}",
            f"training.initialisation={init}",
            f"training.learning_rate={rate}",
            f"training.momentum={momentum}",
            f"paper={paper}",
        )
        for init, rate, momentum, paper in ROWS
    )
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
