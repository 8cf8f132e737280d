"""Figure 20: epochs of the victim, on CIFAR-10.

Command:   informed sweep --config=configs/sweeps/epochs.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

EPOCHS = {
    "smoke": (5, 10),
    "cpu": (10, 20, 40, 80),
    "paper": (100, 150, 200, 225, 240, 250, 275, 300),
}


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Epochs of the victim"
    config.base = f"../cifar10.py:{size}"
    config.points = tuple(
        (f"{epochs} epochs", f"training.epochs={epochs}") for epochs in EPOCHS[size]
    )
    config.overrides = ("attacks.kernel.targets=null",)
    config.x = "training.epochs"
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
