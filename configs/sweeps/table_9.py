"""Table IX: fixed set, optimiser and epochs, on CIFAR-10.

Command:   informed sweep --config=configs/sweeps/table_9.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

SHRINK = {"smoke": 20, "cpu": 5, "paper": 1}
ROWS = (
    (1000, "sgd", 100, 0.0041),
    (1000, "sgd", 250, 0.0126),
    (1000, "sgd", 500, 0.0170),
    (1000, "adam", 100, 0.0052),
    (1000, "adam", 250, 0.0065),
    (1000, "adam", 500, 0.0068),
    (5000, "sgd", 100, 0.0049),
    (5000, "sgd", 250, 0.0201),
    (5000, "sgd", 500, 0.0761),
    (5000, "adam", 100, 0.0052),
    (5000, "adam", 250, 0.0062),
    (5000, "adam", 500, 0.0143),
)


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Table IX"
    config.base = f"../cifar10.py:{size}"
    config.points = tuple(
        (
            f"{fixed}, {optimiser}, {epochs}",
            f"data.num_fixed={fixed // SHRINK[size]}",
            f"training.optimiser={optimiser}",
            f"training.learning_rate={0.002 if optimiser == 'adam' else 0.01}",
            f"training.epochs={epochs // SHRINK[size]}",
            *([f"paper={paper}"] if size == "paper" else []),
        )
        for fixed, optimiser, epochs, paper in ROWS
    )
    config.overrides = ("attacks.kernel.targets=null",)
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
