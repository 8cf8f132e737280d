"""Table II, MNIST: what makes a reconstruction easier or harder.

Command:   informed sweep --config=configs/sweeps/table_2_mnist.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests
"""

from ml_collections import config_dict

POINTS = (
    ("default", "paper=0.0094"),
    ("width 100", "victim.widths=[100]", "paper=0.0079"),
    (
        "width 100, output layer",
        'view.layers=["output"]',
        "victim.widths=[100]",
        "paper=0.0124",
    ),
    ("250 epochs", "training.epochs=250", "paper=0.0121"),
    ("ReLU", "victim.activation=relu", "paper=0.0182"),
    ("learning rate 0.01", "training.learning_rate=0.01", "paper=0.0049"),
    ("random initialisation", "training.initialisation=random", "paper=0.0695"),
    ("black-box logits", "view.kind=logits", "paper=0.0110"),
)
SMALLER = ("shadow.count=6000", "reconn.epochs=40")


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = config_dict.ConfigDict()
    config.title = "Table II, MNIST"
    config.base = f"../mnist.py:{size}"
    config.overrides = SMALLER if size == "cpu" else ()
    config.points = POINTS
    config.x = ""
    config.series = ()
    config.metric = "reconn_mse"
    return config.lock()
