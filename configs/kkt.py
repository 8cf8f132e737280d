"""Settings of the KKT attack: training images out of the weights alone.

Gives:     `informed kkt` the fields of an `Uninformed`, by `get_config`
Command:   informed kkt --config=configs/kkt.py:mnist --workdir=runs/kkt-mnist
Data:      TFDS_DATA_DIR with a prepared mnist or cifar10; digits needs none
Sizes:     :digits is for tests; :mnist is the default, :cifar10; after a name
           `_multiclass` (all classes, not two), `_mse` (squared loss), `_published` or
           `_code`
Hardware:  two CPU cores: one to three minutes; `_published` and `_code` hours
Expected:  see docs/kkt.md

A network of two hidden layers whose first layer starts small, on 20 images, trained
until it is near the conditions that the attack rests on.

`_published` is Haim et al. 2022 as printed: 500 images, 1000-1000 units, a million
epochs of plain descent, 100 runs of the attack. `_code` has the
victim of their public code and one run of the settings that its sweeps ended with.
"""

from typing import Any

from ml_collections import config_dict

import informed
from uninformed.homogeneous import HomogeneousConfig
from uninformed.kkt import KktConfig
from uninformed.kkt.experiment import SearchConfig, Uninformed
from uninformed.kkt.training_images import PointsConfig
from uninformed.max_margin import MarginConfig

KINDS = ("binary", "multiclass", "mse", "published", "code")
NAMES = ("digits", "mnist", "cifar10")
# Runs k60fvjdy and rbijxft7 of the public code's sweeps; digits, which the code doesn't
# have, as MNIST.
_MNIST: dict[str, Any] = {
    "start": 1.741985e-3,
    "rate": 0.282118,
    "least_multiplier": 0.415267,
    "alpha": 19.21459,
}
_CIFAR: dict[str, Any] = {
    "start": 4.473685e-3,
    "rate": 0.346208,
    "least_multiplier": 0.493591,
    "alpha": 21.67936,
}


def get_config(which: str = "mnist") -> config_dict.ConfigDict:
    name, _, kind = which.partition("_")
    kind = kind or "binary"
    if name not in NAMES or kind not in KINDS:
        raise ValueError(
            f"Expected kkt.py:NAME or :NAME_KIND with NAME of {', '.join(NAMES)} and"
            f" KIND of {', '.join(KINDS)}; got {which!r}."
        )
    published = kind in ("published", "code")
    config = informed.defaults(_theirs(name, kind) if published else _ours(kind))
    config.data.name = name
    if name == "digits":
        config.data.points = 20
        config.data.held_out = 200
        config.victim.widths = (64, 64)
        config.training.fitting_steps = 2000
        config.training.route_steps = 1000
        config.attack.candidates = 40
        config.attack.steps = 200
        config.search.trials = 2
    return config


def _ours(kind: str) -> Uninformed:
    """Return the victim and attack that find most at 20 points in minutes."""
    return Uninformed(
        data=PointsConfig(classes="all" if kind == "multiclass" else "binary"),
        victim=HomogeneousConfig(
            widths=(256, 256), outputs=10 if kind == "multiclass" else 1
        ),
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


def _theirs(name: str, kind: str) -> Uninformed:
    """Return the settings of the paper, or of its code, at the paper's size."""
    if kind == "published":
        attack = KktConfig.published(candidates=1000)
        search = SearchConfig(trials=100, at_once=1)
    else:
        settings = _CIFAR if name == "cifar10" else _MNIST
        attack = KktConfig.public_code(candidates=1000, **settings)
        search = SearchConfig(trials=1, at_once=1)
    return Uninformed(
        data=PointsConfig(points=500),
        victim=HomogeneousConfig(
            widths=(1000, 1000),
            initialiser="he_normal" if kind == "published" else "torch",
        ),
        training=MarginConfig.published(),
        attack=attack,
        search=search,
    )
