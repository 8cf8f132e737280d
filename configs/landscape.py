"""Settings that show where attacks on weights alone end (Runkel et al. 2024).

Gives:     `informed landscape` and `informed bilevel` the fields of a
           `LandscapeConfig`, by `get_config`
Command:   informed landscape --config=configs/landscape.py --workdir=runs/landscape
Data:      TFDS_DATA_DIR with a prepared cifar10; :smoke uses digits
Sizes:     :affine is the default; :one_hidden has 128 units (`--config.victim.width`);
           :smoke is for tests
Hardware:  two CPU cores
Expected:  see docs/landscape.md
"""

import dataclasses

from ml_collections import config_dict

import informed
from uninformed.bilevel import BilevelConfig
from uninformed.homogeneous import HomogeneousConfig
from uninformed.kkt import KktConfig
from uninformed.kkt.training_images import PointsConfig
from uninformed.landscape.mixtures import StartsConfig
from uninformed.landscape.runs import BilevelVictimConfig, LandscapeConfig
from uninformed.max_margin import MarginConfig

SIZES = ("affine", "one_hidden", "smoke")


def get_config(size: str = "affine") -> config_dict.ConfigDict:
    if size not in SIZES:
        raise ValueError(f"Expected landscape.py:{', :'.join(SIZES)}; got {size!r}.")
    config = LandscapeConfig(
        data=PointsConfig(name="cifar10", points=20),
        attack=BilevelConfig(steps=1000),
        network=HomogeneousConfig(widths=(256, 256)),
        training=MarginConfig(route_steps=60_000),
        kkt=KktConfig(
            candidates=20,
            steps=1000,
            span=False,
            rate=1e-2,
            margin_weight=0.0,
            low=0.0,
            prior_weight=100.0,
            restarts=0,
        ),
    )
    if size == "one_hidden":
        config = dataclasses.replace(
            config,
            starts=StartsConfig(perturbed=0),
            victim=BilevelVictimConfig(kind="one_hidden", decay=1e-3),
            methods=("bilevel", "matching"),
            attack=BilevelConfig(steps=200),
            at_once=12,
        )
    if size == "smoke":
        config = dataclasses.replace(
            config,
            data=PointsConfig(name="digits", points=4, held_out=40),
            attack=BilevelConfig(steps=50),
            network=HomogeneousConfig(widths=(16, 16)),
            training=MarginConfig(fitting_steps=500, route_steps=500),
            kkt=dataclasses.replace(config.kkt, candidates=4, steps=50),
        )
    return informed.defaults(config)
