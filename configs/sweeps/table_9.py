"""Table IX: fixed set, optimiser and epochs, on CIFAR-10.

Command:   informed sweep --config=configs/sweeps/table_9.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests

:cpu has a twenty-fifth of each fixed set and a fifth of the epochs, 300 shadow models
and the kernel regression alone; the four rows of 50,000 points with 500 and 2,000
epochs would take a day there and are left out. :smoke has the first two rows.
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

FEWER_POINTS = {"smoke": 25, "cpu": 25, "paper": 1}
FEWER_EPOCHS = {"smoke": 20, "cpu": 5, "paper": 1}
FIELDS = {
    "smoke": (),
    "cpu": ("shadow.count=300", "data.num_test=50", "attacks.reconn.targets=0"),
    "paper": (),
}
LEARNING_RATE = {"sgd": 0.01, "adam": 0.002}
# Fixed set, optimiser -> the paper's MSE by epochs.
ROWS = {
    (1000, "sgd"): {100: 0.0041, 250: 0.0126, 500: 0.0170},
    (1000, "adam"): {100: 0.0052, 250: 0.0065, 500: 0.0068},
    (5000, "sgd"): {100: 0.0049, 250: 0.0201, 500: 0.0761},
    (5000, "adam"): {100: 0.0052, 250: 0.0062, 500: 0.0143},
    (10_000, "sgd"): {100: 0.0209, 250: 0.0385, 500: 0.0761},
    (10_000, "adam"): {100: 0.0081, 250: 0.0208, 500: 0.0357},
    (50_000, "sgd"): {100: 0.0039, 500: 0.0563, 2000: 0.0693},
    (50_000, "adam"): {100: 0.0109, 500: 0.0653, 2000: 0.0721},
}


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Table IX"
    config.base = f"../cifar10.py:{size}"
    points = []
    for (fixed, optimiser), errors in ROWS.items():
        for epochs, error in errors.items():
            if size != "paper" and fixed * epochs > 5_000_000:
                continue
            points.append(
                (
                    f"{fixed}, {optimiser}, {epochs}",
                    f"data.num_fixed={fixed // FEWER_POINTS[size]}",
                    f"training.optimiser={optimiser}",
                    f"training.learning_rate={LEARNING_RATE[optimiser]}",
                    f"training.epochs={epochs // FEWER_EPOCHS[size]}",
                    # CIFAR-10 has too few images beside the larger fixed sets.
                    *(["data.shadow_name=cifar100"] if fixed >= 10_000 else []),
                    f"paper={error}",
                )
            )
    config.points = tuple(points[:2] if size == "smoke" else points)
    config.overrides = ("attacks.kernel.targets=null", *FIELDS[size])
    config.metrics = ("attacks.kernel.mse",)
    if size != "cpu":
        config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
