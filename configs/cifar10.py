"""CIFAR-10, Table V of Balle et al. 2022: the CNN of Table VI, fixed set of 5,000.

Command:   informed run --config=configs/cifar10.py --workdir=runs/cifar10
Smoke:     informed run --config=configs/cifar10.py:smoke --workdir=runs/cifar10-smoke
Data:      TFDS_DATA_DIR with a prepared cifar10 (all 60,000 images for the full size)
Hardware:  the full size is for an accelerator; two CPU cores: smoke 128 s; it shows
           that the line runs (RecoNN 0.101, NN oracle 0.055), not that the attack
           works; cpu about an hour (RecoNN 0.042, kernel regression 0.013, NN
           oracle 0.036)

Shadow targets from CIFAR-100 (Section VI-B): --config.data.shadow_name=cifar100. The
RecoNN is Table VII's, with the absolute and squared error as its loss; the paper adds
LPIPS (--config.reconn.loss.lpips=1.0, extra lpips) and a discriminator
(--config.reconn.loss.adversarial=...).
"""

import dataclasses

from ml_collections import config_dict

from informed import InversionConfig


def get_config(size: str = "paper") -> config_dict.ConfigDict:
    if size not in ("paper", "cpu", "smoke"):
        raise ValueError(f"Expected cifar10.py:paper, :cpu or :smoke, got {size!r}.")
    config = config_dict.ConfigDict()
    config.seed = 0

    config.data = config_dict.ConfigDict()
    config.data.name = "cifar10"
    config.data.shadow_name = config_dict.placeholder(str)
    config.data.num_fixed = 5000
    config.data.num_test = 1000
    config.data.balanced = False

    config.victim = config_dict.ConfigDict()
    config.victim.architecture = "cnn"
    config.victim.widths = (10,)
    config.victim.activation = "elu"
    config.victim.initialiser = "lecun_normal"

    config.training = config_dict.ConfigDict()
    config.training.optimiser = "sgd"
    config.training.learning_rate = 0.01
    config.training.momentum = 0.9
    config.training.epochs = 100
    config.training.batch_size = config_dict.placeholder(int)
    config.training.weight_decay = 0.0
    config.training.initialisation = "shared"
    config.training.shuffling = "auto"
    config.training.privacy = config_dict.ConfigDict()
    config.training.privacy.clip_norm = config_dict.placeholder(float)
    config.training.privacy.noise_multiplier = 0.0
    config.training.privacy.sampling_probability = 1.0

    config.shadow = config_dict.ConfigDict()
    config.shadow.count = 54_000
    config.shadow.block_size = 128
    config.shadow.models_per_batch = config_dict.placeholder(int)

    config.view = config_dict.ConfigDict()
    config.view.kind = "weights"
    config.view.layers = ()
    config.view.probes = 500
    config.view.queries = "images"

    config.reconn = config_dict.ConfigDict()
    config.reconn.kind = "network"
    config.reconn.kernel = config_dict.ConfigDict()
    config.reconn.kernel.scale = 4.0
    config.reconn.kernel.ridge = config_dict.placeholder(float)
    config.reconn.kernel.voters = 10_000
    config.reconn.models = config_dict.placeholder(int)
    config.reconn.standardise = True
    config.reconn.architecture = "transposed_cnn"
    config.reconn.widths = (4096,)
    config.reconn.activation = "relu"
    config.reconn.loss = config_dict.ConfigDict()
    config.reconn.loss.mae = 1.0
    config.reconn.loss.mse = 1.0
    config.reconn.loss.lpips = 0.0
    config.reconn.loss.adversarial = 0.0
    config.reconn.loss.discriminator_learning_rate = 1e-5
    config.reconn.optimiser = "adam"
    config.reconn.learning_rate = 1e-4
    config.reconn.schedule = "cosine"
    config.reconn.warmup_epochs = 1.0
    config.reconn.weight_decay = 1e-4
    config.reconn.batch_size = 128
    config.reconn.epochs = 1000
    config.reconn.input_dropout = 0.2
    config.reconn.dropout = 0.2
    config.reconn.clip = 10.0
    config.reconn.validation_fraction = 0.05
    if size == "cpu":
        config.data.num_fixed = 200
        config.data.num_test = 200
        config.training.epochs = 20
        config.shadow.count = 2000
        config.shadow.block_size = 50
        config.reconn.widths = (2048,)
        config.reconn.epochs = 60
    if size == "smoke":
        config.data.num_fixed = 200
        config.data.num_test = 16
        config.training.epochs = 20
        config.shadow.count = 128
        config.shadow.block_size = 32
        config.reconn.widths = (1024,)
        config.reconn.batch_size = 16
        config.reconn.epochs = 10

    config.inversion = config_dict.ConfigDict()
    config.inversion.targets = 0
    config.inversion.attack = config_dict.ConfigDict(
        dataclasses.asdict(InversionConfig())
    )

    config.evaluation = config_dict.ConfigDict()
    config.evaluation.lpips = False
    config.evaluation.classifier = config_dict.ConfigDict()
    config.evaluation.classifier.epochs = 0
    config.evaluation.classifier.batch_size = 128
    config.evaluation.classifier.learning_rate = 2e-3
    config.evaluation.classifier.held_out = 0.1
    return config.lock()
