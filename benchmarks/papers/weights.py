"""Victims and attacks on weights alone that rows share, each made once in the lab."""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.lab import Lab
from benchmarks.weights_alone import Setting
from shadow import records
from uninformed import candidates, kkt
from uninformed.homogeneous import DenseLayers
from uninformed.kkt import experiment, scoring, training_images
from uninformed.kkt.experiment import Attacked, Uninformed
from uninformed.kkt.training_images import VictimImages


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A victim; `fit` are its losses, error and accuracy, see `scoring.fit`."""

    config: Uninformed
    images: VictimImages
    network: DenseLayers
    fit: Mapping[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """A victim after the attack: its results.json, and the folder of its pictures."""

    config: Uninformed
    attacked: Attacked
    results: Mapping[str, Any]
    folder: Path

    def picture(self) -> bytes:
        """Training images and the candidates nearest to them, a PNG file."""
        return (self.folder / scoring.RECONSTRUCTIONS).read_bytes()

    def picture_of_all(self) -> bytes:
        """The same of the candidates of all runs together."""
        made, file = self.attacked, self.folder / "all_runs.png"
        points = scoring.together(made.images, made.trials)
        scoring.draw_images(made.images, self._matched(points), file)
        return file.read_bytes()

    @functools.cached_property
    def matches(self) -> candidates.Matches:
        """The candidates of the chosen run beside the training images."""
        return self._matched(self.attacked.chosen.points)

    def _matched(self, points: np.ndarray) -> candidates.Matches:
        images = self.attacked.images
        mean = images.mean if self.config.data.mean_known else None
        return scoring.matched(images, points, mean)

    def leads(self) -> np.ndarray:
        """(points,), the victim's output at each training image, for its class."""
        return scoring.leads(self.attacked.images, self.attacked.network)


def trained(lab: Lab, name: str, setting: Setting) -> Trained:
    """The victim of a setting alone, in the folder that `played` has too."""
    config, folder = setting.experiment(), _folder(lab, name)
    images = training_images.load(config.data, lab.data_dir)
    clock = records.Clock(folder / "seconds.json")
    with clock.running("train_s"):
        network = experiment.victim(config, images, folder / "network.npz")
    lab.note(f"victim {name}", clock.seconds["train_s"])
    fit = scoring.fit(config, images, network)
    return Trained(config=config, images=images, network=network, fit=fit)


def played(lab: Lab, name: str, setting: Setting) -> Played:
    """The victim of a setting, attacked and evaluated; evaluated once in a lab."""
    config, folder = setting.experiment(), _folder(lab, name)
    if folder not in lab.made:
        # Refuses a folder of another configuration.
        attacked = experiment.attacked(config, folder, lab.data_dir)
        results = scoring.evaluate(config, attacked, folder)
        lab.made[folder] = Played(
            config=config, attacked=attacked, results=results, folder=folder
        )
    made = lab.made[folder]
    seconds = made.attacked.seconds["train_s"] + made.attacked.seconds["attack_s"]
    lab.note(f"victim and attack {name}", seconds)
    return made


def identity(made: Trained) -> dict[str, Any]:
    """What tells a victim from others, for keys of what is kept."""
    theta = [np.asarray(layer.w).tobytes() for layer in made.network]
    return {
        "images": made.images.fingerprint(),
        "theta": [hashlib.sha256(each).hexdigest() for each in theta],
        "attack": kkt.REVISION,
    }


def _folder(lab: Lab, name: str) -> Path:
    return lab.work / "weights" / name
