"""scikit-learn's digits: the whole attack in about a minute, no data to prepare.

Command:   informed run --config=configs/digits.py --workdir=runs/digits  (make demo)
Hardware:  two CPU cores: 47 to 86 s
Expected:  seed 0: RecoNN 0.0099, NN oracle 0.0175 (100 targets); five inversions exact
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
