"""The KKT attack: training images out of the weights alone.

Command:   informed kkt --config=configs/kkt.py:mnist --workdir=runs/kkt-mnist
Data:      TFDS_DATA_DIR with a prepared mnist or cifar10; digits needs none
Sizes:     :digits is for tests; :mnist, :cifar10; `_multiclass` and `_mse` after a name
Hardware:  two CPU cores: one to three minutes
Expected:  see docs/kkt.md

A network of two hidden layers whose first layer starts small, on 20 images, trained
until it is near the conditions that the attack rests on. The published settings are
`uninformed.kkt.KktConfig.published()` and `KktConfig.public_code()`, from Python
alone: the command line has no name for them yet.
"""

from ml_collections import config_dict

import informed
from uninformed.kkt import KktConfig
from uninformed.kkt.experiment import Uninformed
from uninformed.max_margin import MarginConfig

KINDS = ("binary", "multiclass", "mse")
NAMES = ("digits", "mnist", "cifar10")


def get_config(which: str = "mnist") -> config_dict.ConfigDict:
    name, _, kind = which.partition("_")
    kind = kind or "binary"
    if name not in NAMES or kind not in KINDS:
        raise ValueError(
            f"Expected kkt.py:NAME or :NAME_KIND with NAME of {', '.join(NAMES)} and"
            f" KIND of {', '.join(KINDS)}; got {which!r}."
        )
    experiment = Uninformed(
        training=MarginConfig(
            loss="mse" if kind == "mse" else "logistic",
            route="weight_decay" if kind == "mse" else "sphere",
            route_steps=30_000 if kind == "mse" else 60_000,
        ),
        attack=KktConfig(
            candidates=40,
            coefficients="signed" if kind == "mse" else "multipliers",
            steps=20_000,
            rate=1e-2,
            margin_weight=0.0,
            low=0.0,
            prior_weight=100.0,
        ),
    )
    config = informed.defaults(experiment)
    config.data.name = name
    config.data.classes = "all" if kind == "multiclass" else "binary"
    config.victim.outputs = 10 if kind == "multiclass" else 1
    config.victim.widths = (256, 256)
    if name == "digits":
        config.victim.widths = (64, 64)
        config.data.held_out = 200
        config.training.fitting_steps = 2000
        config.training.route_steps = 1000
        config.attack.steps = 200
        config.search.trials = 2
    return config
