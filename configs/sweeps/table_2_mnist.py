"""Table II, MNIST: what makes a reconstruction easier or harder.

Command:   informed sweep --config=configs/sweeps/table_2_mnist.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests

Each row with the paper's network and with the kernel regression, on the same models.
The last row has random initialisations as a script draws them, from a secret integer of
32 bits: 20 of its models are inverted as well, from the seeds that a search finds (the
column attacks.inversion.mse_median); not at :smoke size, as all 2^32 seeds are
searched.
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

ROWS = (
    # Table II's 0.0094 is of a fixed set of 1,000, as here; its default, at 10,000, has
    # 0.0089.
    ("default", (), 0.0094),
    ("width 100", ("victim.widths=[100]",), 0.0079),
    (
        "width 100, output layer",
        ("victim.widths=[100]", 'view.layers=["output"]'),
        0.0124,
    ),
    ("250 epochs", ("training.epochs=250",), 0.0121),
    ("ReLU", ("victim.activation=relu",), 0.0182),
    ("learning rate 0.01", ("training.learning_rate=0.01",), 0.0049),
    ("random initialisation", ("training.initialisation=random",), 0.0695),
    ("black-box logits", ("view.kind=logits",), 0.0110),
)
BOTH = ("attacks.kernel.targets=null",)
SMALLER = (*BOTH, "shadow.count=6000", "attacks.reconn.epochs=40")


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Table II, MNIST"
    config.base = f"../mnist.py:{size}"
    config.overrides = SMALLER if size == "cpu" else BOTH
    config.points = tuple(
        (name, *fields, f"paper={paper}") for name, fields, paper in ROWS
    )
    if size != "smoke":
        config.points += (
            (
                "random initialisation from a seed, inverted",
                "training.initialisation=seeded",
                "attacks.inversion.targets=20",
                "attacks.reconn.targets=0",
                "paper=0.0695",
            ),
        )
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
