"""Table II, CIFAR-10: what makes a reconstruction easier or harder.

Command:   informed sweep --config=configs/sweeps/table_2_cifar10.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

# (fixed set, epochs) of the rows that enlarge them: the paper's; at the smaller sizes
# twice the default's.
LARGER = {"smoke": (400, 40), "cpu": (400, 40), "paper": (50_000, 200)}
POINTS = (
    ("default", "paper=0.0049"),
    (
        "fixed set",
        "data.num_fixed={fixed}",
        "data.shadow_name=cifar100",
        "paper=0.0039",
    ),
    ("hidden layer of 20", "victim.widths=[20]", "paper=0.0047"),
    ("convolutions", 'view.layers=["conv_0", "conv_1"]', "paper=0.0257"),
    ("epochs", "training.epochs={epochs}", "paper=0.0094"),
    ("ReLU", "victim.activation=relu", "paper=0.0324"),
    ("learning rate 0.001", "training.learning_rate=0.001", "paper=0.0055"),
    ("random initialisation", "training.initialisation=random", "paper=0.0931"),
    ("black-box logits", "view.kind=logits", "paper=0.0198"),
)


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Table II, CIFAR-10"
    config.base = f"../cifar10.py:{size}"
    fixed, epochs = LARGER[size]
    config.points = tuple(
        tuple(
            text.replace("{fixed}", str(fixed)).replace("{epochs}", str(epochs))
            for text in point
        )
        for point in POINTS
    )
    config.overrides = ("attacks.kernel.targets=null",)
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
