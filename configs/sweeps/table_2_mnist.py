"""Table II, MNIST: what makes a reconstruction easier or harder.

Command:   informed sweep --config=configs/sweeps/table_2_mnist.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests

Each row with the paper's network and with the kernel regression, on the same models. At
:cpu size the network is left out where its first layer alone has 79 million weights.
The last row has random initialisations as a script draws them, from a secret integer of
32 bits: 20 of its models are inverted as well, from the seeds that a search finds (the
column attacks.inversion.mse_median); not at :smoke size, as all 2^32 seeds are
searched.
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

ROWS = (
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
SMALLER = ("shadow.count=3000", "attacks.reconn.epochs=40")


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Table II, MNIST"
    config.base = f"../mnist.py:{size}"
    config.overrides = SMALLER if size == "cpu" else ()
    config.points = tuple(
        (f"{name}, {kind}", *fields, f"attacks.reconn.kind={kind}", f"paper={paper}")
        for name, fields, paper in ROWS
        for kind in ("network", "kernel")
        if not (size == "cpu" and (name, kind) == ("width 100", "network"))
    )
    if size != "smoke":
        config.points += (
            (
                "random initialisation from a seed, inverted",
                "training.initialisation=seeded",
                "attacks.inversion.targets=20",
                "attacks.reconn.kind=kernel",
                "paper=0.0695",
            ),
        )
    return config
