"""Settings of a run on MNIST: 1,000 known images and 20,000 shadow models.

Gives:     `informed run` the fields of an `Experiment`, by `get_config`
Command:   informed run --config=configs/mnist.py --workdir=runs/mnist
Data:      TFDS_DATA_DIR with a prepared mnist
Hardware:  two CPU cores: 315 s shadow models, 10 epochs of the RecoNN at 60 s
Expected:  seed 6: MSE of the RecoNN 0.0021 (standard error 0.0003), of the nearest
           known image (NN oracle) 0.0240
Sizes:     mnist.py:residual is the default; :cpu has the paper's network in its place;
           :paper has the paper's size; :smoke is for tests; :published has the paper's
           size and the recipe of Table V

Victim and training algorithm are those of Table V of Balle et al. 2022. The RecoNN is a
residual CNN that sees the first layer's weights as pictures. In :cpu and :paper it is
Table V's network with the sigmoid of the authors' notebook, trained by Adam with
dropout, which need fewer shadow models (:cpu, seed 0: 0.0115, standard error 0.0004, NN
oracle 0.0271).
"""

from ml_collections import config_dict

import informed


def get_config(size: str = "residual") -> config_dict.ConfigDict:
    sizes = ("residual", "cpu", "paper", "published", "smoke")
    if size not in sizes:
        raise ValueError(f"Expected mnist.py:{', :'.join(sizes)}; got {size!r}.")
    config = informed.defaults(informed.Experiment)
    config.data.name = "mnist"
    config.data.num_fixed = 1000
    config.data.num_test = 1000
    config.shadow.count = 20_000
    config.attacks.reconn.learning_rate = 1e-3
    config.attacks.reconn.epochs = 60
    if size == "residual":
        reconn = config.attacks.reconn
        reconn.architecture = "residual_cnn"
        reconn.learning_rate = 2e-3
        reconn.weight_decay = 1e-2
        reconn.batch_size = 64
        reconn.epochs = 10
    if size in ("paper", "published"):
        config.data.num_fixed = 10_000
        config.shadow.count = 59_000
    if size == "published":
        # Table V; the rest is the paper's by what it leaves out: no schedule, no
        # dropout, the network of the last epoch, nothing drawn towards the mean.
        reconn = config.attacks.reconn
        reconn.optimiser = "rmsprop"
        reconn.schedule = "constant"
        reconn.warmup_epochs = 0.0
        reconn.input_dropout = 0.0
        reconn.dropout = 0.0
        reconn.epochs = 100
        reconn.kept = "last"
        reconn.shrink = False
    if size == "smoke":
        config.data.num_fixed = 50
        config.data.num_test = 20
        config.training.epochs = 10
        config.shadow.count = 200
        config.attacks.reconn.widths = (50,)
        config.attacks.reconn.epochs = 5
    return config
