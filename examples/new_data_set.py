"""A new data set: a function that returns `shadow.Examples`, and a name.

Here a table, scikit-learn's 178 wines: columns as pixels of an image of height 1. Once
registered, `config.data.name = "wine"` runs it. A file needs no code: an .npz with the
arrays images (examples, height, width, channels) in [0, 1] and labels is a name itself.
"""

import tempfile
from pathlib import Path

from sklearn import datasets, preprocessing

import informed
import shadow
from informed.experiment import pipeline
from informed.experiment.named import NamedAttack
from informed.experiment.settings import DataConfig, ShadowConfig
from informed.experiment.stored import Paths


def wine() -> shadow.Examples:
    """Return thirteen columns, each scaled to [0, 1], of three cultivars."""
    table, labels = datasets.load_wine(return_X_y=True)
    columns = preprocessing.minmax_scale(table).astype("float32")
    return shadow.Examples(
        images=columns.reshape(-1, 1, 13, 1),
        labels=labels,
        num_classes=3,
        name="wine",
    )


shadow.register_source("wine", wine)


def main() -> dict:
    """Attack models of ten wines, by kernel regression and by inversion of one."""
    experiment = informed.Experiment(
        data=DataConfig(name="wine", num_fixed=60, num_test=10),
        shadow=ShadowConfig(count=100),
        attacks={
            "kernel": NamedAttack.of("kernel"),
            "inversion": NamedAttack.of("inversion", targets=1),
        },
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = Paths(workdir=Path(folder), shadow=Path(folder))
        results = pipeline.run(experiment, paths, progress=False)
    errors = {name: numbers["mse"] for name, numbers in results["attacks"].items()}
    return errors | {n: results[n] for n in ("nn_oracle_mse", "mean_image_mse")}


if __name__ == "__main__":
    print(main())
