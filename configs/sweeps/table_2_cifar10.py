"""Table II, CIFAR-10: what makes a reconstruction easier or harder.

Command:   informed sweep --config=configs/sweeps/table_2_cifar10.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

POINTS = (
    ("default", "paper=0.0049"),
    ("convolutions", 'view.layers=["conv_0", "conv_1"]', "paper=0.0257"),
    ("hidden layer of 20", "victim.widths=[20]"),
    ("200 epochs", "training.epochs=200", "paper=0.0094"),
    ("ReLU", "victim.activation=relu", "paper=0.0324"),
    ("learning rate 0.001", "training.learning_rate=0.001", "paper=0.0055"),
    ("random initialisation", "training.initialisation=random", "paper=0.0931"),
    ("black-box logits", "view.kind=logits", "paper=0.0198"),
)


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Table II, CIFAR-10"
    config.base = f"../cifar10.py:{size}"
    config.points = POINTS
    config.overrides = ("attacks.kernel.targets=null",)
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
