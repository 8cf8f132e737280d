"""scikit-learn's digits: the whole attack in about a minute, no data to prepare.

Command:   informed run --config=configs/digits.py --workdir=runs/digits  (make demo)
Hardware:  two CPU cores: 59 s, 20 of them five inversions
Expected:  seed 0: RecoNN 0.0100, NN oracle 0.0175 (100 targets); inversions 3e-12
"""

import dataclasses

from ml_collections import config_dict

from informed import InversionConfig


def get_config() -> config_dict.ConfigDict:
    config = config_dict.ConfigDict()
    config.seed = 0

    config.data = config_dict.ConfigDict()
    config.data.name = "digits"
    config.data.shadow_name = config_dict.placeholder(str)
    config.data.num_fixed = 300
    config.data.num_test = 100
    config.data.balanced = False

    config.victim = config_dict.ConfigDict()
    config.victim.architecture = "mlp"
    config.victim.widths = (10,)
    config.victim.activation = "elu"
    config.victim.initialiser = "lecun_normal"

    config.training = config_dict.ConfigDict()
    config.training.optimiser = "sgd"
    config.training.learning_rate = 0.2
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
    config.shadow.count = 1397
    config.shadow.block_size = 256
    config.shadow.models_per_batch = config_dict.placeholder(int)

    config.view = config_dict.ConfigDict()
    config.view.kind = "weights"
    config.view.layers = ()
    config.view.probes = 200
    config.view.queries = "images"

    config.reconn = config_dict.ConfigDict()
    config.reconn.kind = "network"
    config.reconn.kernel = config_dict.ConfigDict()
    config.reconn.kernel.scale = 4.0
    config.reconn.kernel.ridge = config_dict.placeholder(float)
    config.reconn.kernel.voters = 10_000
    config.reconn.models = config_dict.placeholder(int)
    config.reconn.standardise = True
    config.reconn.architecture = "mlp"
    config.reconn.widths = (1000, 1000)
    config.reconn.activation = "relu"
    config.reconn.loss = config_dict.ConfigDict()
    config.reconn.loss.mae = 1.0
    config.reconn.loss.mse = 1.0
    config.reconn.loss.lpips = 0.0
    config.reconn.loss.adversarial = 0.0
    config.reconn.loss.discriminator_learning_rate = 1e-5
    config.reconn.optimiser = "adam"
    config.reconn.learning_rate = 5e-4
    config.reconn.schedule = "cosine"
    config.reconn.warmup_epochs = 1.0
    config.reconn.weight_decay = 0.0
    config.reconn.batch_size = 32
    config.reconn.epochs = 60
    config.reconn.input_dropout = 0.2
    config.reconn.dropout = 0.2
    config.reconn.clip = 10.0
    config.reconn.validation_fraction = 0.05

    config.inversion = config_dict.ConfigDict()
    config.inversion.targets = 5
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
