"""Table IV and Figure 16: width of the victim, on MNIST.

Command:   informed sweep --config=configs/sweeps/table_4.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

POINTS = (
    ("width 1", "victim.widths=[1]", "paper=0.0079"),
    ("width 10", "victim.widths=[10]", "paper=0.0089"),
    ("width 100", "victim.widths=[100]", "paper=0.0079"),
    (
        "width 100, output layer",
        "victim.widths=[100]",
        'view.layers=["output"]',
        "paper=0.0124",
    ),
)
BOTH = ("attacks.kernel.targets=null",)
SMALLER = (*BOTH, "shadow.count=6000", "attacks.reconn.epochs=40")


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Table IV: width of the victim"
    config.base = f"../mnist.py:{size}"
    config.overrides = SMALLER if size == "cpu" else BOTH
    config.points = POINTS
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
