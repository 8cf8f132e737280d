"""Figure 6: shadow targets from another data set (CIFAR-100), on CIFAR-10.

Command:   informed sweep --config=configs/sweeps/out_of_distribution.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

SIZES = {
    "smoke": (64, 128),
    "cpu": (500, 1000, 2000),
    "paper": (5000, 10_000, 20_000, 40_000, 50_000),
}


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Shadow targets from elsewhere"
    config.base = f"../cifar10.py:{size}"
    config.overrides = ("attacks.kernel.targets=null",)
    if size == "paper":
        config.overrides += ("shadow.count=50000",)
    config.points = tuple(
        (
            f"{name}, k={k}",
            f"data.shadow_name={name}",
            f"attacks.reconn.models={k}",
            f"attacks.kernel.models={k}",
        )
        for name in ("cifar10", "cifar100")
        for k in SIZES[size]
    )
    config.x = "attacks.reconn.models"
    config.series = ("data.shadow_name",)
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
