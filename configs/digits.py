"""Settings of a run on scikit-learn's digits: a minute, and no data to prepare.

Gives:     `informed run` the fields of an `Experiment`, by `get_config`
Command:   informed run --config=configs/digits.py --workdir=runs/digits  (make demo)
Hardware:  two CPU cores: 47 to 86 s
Expected:  seed 0, 100 targets: RecoNN 0.0099, nearest known image (NN oracle) 0.0175
           (MSE); five inversions exact
"""

from ml_collections import config_dict

import informed


def get_config() -> config_dict.ConfigDict:
    config = informed.defaults(informed.Experiment)
    config.shadow.count = 1397
    config.shadow.block_size = 256
    config.attacks.reconn.batch_size = 32
    config.attacks.reconn.epochs = 60
    config.attacks.inversion.targets = 5
    informed.add_attack(config, "kernel", "kernel")
    return config
