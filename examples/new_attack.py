"""A new attack: one file and one row.

The guess is the target of the shadow model whose release is nearest. Once it is
registered, `informed.add_attack(config, NAME, "nearest_model")` has `informed run` play
it; pictures and results.json show it.
"""

import dataclasses
import tempfile
from pathlib import Path

import informed
from informed.attacks import registry
from informed.experiment import pipeline
from informed.experiment.stored import Paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class NearestModelConfig:
    """models: how many shadow models to compare with, counted from the first."""

    models: int = 1000


def make(config, material):
    """Read the shadow models once; every release is compared with all of them."""
    models = material.shadows.read()
    published = material.view(models.weights[: config.models])

    def attack(release, knowledge, *, key):
        lengths = (published**2).sum(axis=1)
        distances = lengths - 2 * release.values @ published.T
        nearest = distances.argmin(axis=1)
        return informed.Reconstruction(
            images=models.images[nearest], labels=models.labels[nearest]
        )

    return attack


row = registry.Row(
    name="nearest_model",
    about="the target of the nearest shadow model",
    config=NearestModelConfig,
    make=make,
    sees="view",
    knows=("fixed", "algorithm", "public"),
    gives=("images", "labels"),
    shadows=True,
)
registry.register(row)

if __name__ == "__main__":
    experiment = informed.Experiment.from_mapping(
        {"attacks": {"mine": {"type": "nearest_model"}}}
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = Paths(workdir=Path(folder), shadow=Path(folder))
        print(pipeline.run(experiment, paths, progress=False)["attacks"]["mine"])
