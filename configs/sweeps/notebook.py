"""The authors' notebook as a peer: its settings, and ours on the same models.

Command:   informed sweep --config=configs/sweeps/notebook.py --workdir=DIR
Sizes:     :cpu is the default, and the notebook's own; :smoke is for tests
Expected:  the notebook quotes a test loss, MAE + MSE, of about 0.0583

Fixed set of 1,000, 10,000 shadow models at a learning rate of 0.1. The notebook trains
Table V's network, ending in a sigmoid, by RMSProp 3e-4 in batches of 32 for 200 epochs.
Beside the notebook's, the best epoch is kept and reconstructions are drawn towards the
mean image where theta tells little, as everywhere here.
"""

from ml_collections import config_dict

import informed
from informed.runs.sweep import SweepConfig

NOTEBOOK = (
    "attacks.reconn.optimiser=rmsprop",
    "attacks.reconn.learning_rate=0.0003",
    "attacks.reconn.schedule=constant",
    "attacks.reconn.warmup_epochs=0",
    "attacks.reconn.batch_size=32",
    "attacks.reconn.input_dropout=0",
    "attacks.reconn.dropout=0",
)
EPOCHS = {"smoke": 5, "cpu": 200, "paper": 200}


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "The authors' notebook"
    config.base = f"../mnist.py:{'smoke' if size == 'smoke' else 'cpu'}"
    config.overrides = ("training.learning_rate=0.1", "attacks.kernel.targets=null")
    if size != "smoke":
        config.overrides += ("shadow.count=10000",)
    config.points = (
        ("notebook", *NOTEBOOK, f"attacks.reconn.epochs={EPOCHS[size]}"),
        ("ours",),
    )
    config.metrics = ("attacks.reconn.mae", "attacks.kernel.mae")
    return config
