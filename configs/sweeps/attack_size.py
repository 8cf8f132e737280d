"""Figure 5c: error against the number of shadow models.

Command:   informed sweep --config=configs/sweeps/attack_size.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests

All points attack the same released models, with the first k models of one store; the
paper's network, and the kernel regression.
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

SIZES = {
    "smoke": (50, 200),
    "cpu": (500, 1000, 2000, 4000, 8000, 20_000),
    "paper": (100, 1000, 2000, 4000, 8000, 16_000, 32_000, 59_000),
}


def _epochs(models: int, size: str) -> int:
    """More for few shadow models, up to 200, which are fewer steps all the same."""
    return 5 if size == "smoke" else max(40, min(200, 400_000 // models))


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Fewer shadow models"
    config.base = f"../mnist.py:{size}"
    config.overrides = ("attacks.kernel.targets=null",)
    config.points = tuple(
        (
            f"k={k}",
            f"attacks.reconn.models={k}",
            f"attacks.reconn.epochs={_epochs(k, size)}",
            f"attacks.kernel.models={k}",
        )
        for k in SIZES[size]
    )
    config.x = "attacks.reconn.models"
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
