"""Settings of a run on CIFAR-10, Table V of Balle et al. 2022, with 5,000 known images.

Gives:     `informed run` the fields of an `Experiment`, by `get_config`
Command:   informed run --config=configs/cifar10.py --workdir=runs/cifar10
Sizes:     cifar10.py:paper is the default; :cpu and :smoke have 200 known images;
           :smoke shows that all stages run, not that the attack works
Data:      TFDS_DATA_DIR with a prepared cifar10 (all 60,000 images for :paper)
Hardware:  :paper is for an accelerator; two CPU cores: :cpu an hour, :smoke 128 s
Expected:  errors (MSE): :cpu RecoNN 0.034, kernel regression 0.012, nearest known
           image (NN oracle) 0.036; :smoke RecoNN 0.101, nearest known image 0.055

The victim is the CNN of Table VI. Shadow targets from CIFAR-100 (Section VI-B):
--config.data.shadow_name=cifar100. The RecoNN is Table VII's, with the absolute and
squared error as its loss; the paper adds LPIPS (--config.attacks.reconn.loss.lpips=1.0,
extra lpips) and a discriminator (--config.attacks.reconn.loss.adversarial=...).
"""

from ml_collections import config_dict

import informed


def get_config(size: str = "paper") -> config_dict.ConfigDict:
    if size not in ("paper", "cpu", "smoke"):
        raise ValueError(f"Expected cifar10.py:paper, :cpu or :smoke, got {size!r}.")
    config = informed.defaults(informed.Experiment)
    config.data.name = "cifar10"
    config.data.num_fixed = 5000
    config.data.num_test = 1000
    config.victim.architecture = "cnn"
    config.training.learning_rate = 0.01
    config.shadow.count = 54_000
    config.shadow.block_size = 128
    config.view.probes = 500
    config.attacks.reconn.architecture = "transposed_cnn"
    config.attacks.reconn.widths = (4096,)
    config.attacks.reconn.learning_rate = 1e-4
    config.attacks.reconn.weight_decay = 1e-4
    config.attacks.reconn.epochs = 1000
    if size == "cpu":
        config.data.num_fixed = 200
        config.data.num_test = 200
        config.training.epochs = 20
        config.shadow.count = 2000
        config.shadow.block_size = 50
        config.attacks.reconn.widths = (2048,)
        config.attacks.reconn.epochs = 60
    if size == "smoke":
        config.data.num_fixed = 200
        config.data.num_test = 16
        config.training.epochs = 20
        config.shadow.count = 128
        config.shadow.block_size = 32
        config.attacks.reconn.widths = (1024,)
        config.attacks.reconn.batch_size = 16
        config.attacks.reconn.epochs = 10
    return config
