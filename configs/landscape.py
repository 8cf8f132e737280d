"""Where attacks on weights alone end, by where they begin (Runkel et al. 2024).

Command:   informed landscape --config=configs/landscape.py --workdir=runs/landscape
Data:      TFDS_DATA_DIR with a prepared cifar10; :smoke uses digits
Sizes:     :affine is the default; :one_hidden has 128 units; :smoke is for tests
Hardware:  two CPU cores: affine a minute
"""

import dataclasses

from ml_collections import config_dict

from informed.attacks.bilevel import BilevelConfig
from informed.landscape import LandscapeConfig
from informed.uninformed import PointsConfig

SIZES = ("affine", "one_hidden", "smoke")


def get_config(size: str = "affine") -> config_dict.ConfigDict:
    if size not in SIZES:
        raise ValueError(f"Expected landscape.py:{', :'.join(SIZES)}; got {size!r}.")
    config = LandscapeConfig(
        data=PointsConfig(name="cifar10", points=20),
        victim="one_hidden" if size == "one_hidden" else "affine",
        decay=1e-3 if size == "one_hidden" else 1e-2,
        attack=BilevelConfig(steps=200 if size == "one_hidden" else 1000),
    )
    if size == "smoke":
        config = dataclasses.replace(
            config,
            data=PointsConfig(name="digits", points=4, held_out=40),
            attack=BilevelConfig(steps=50),
        )
    return config_dict.ConfigDict(dataclasses.asdict(config)).lock()
