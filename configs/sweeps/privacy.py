"""Figures 9 and 10: private training, MSE and accuracy against epsilon.

Command:   informed sweep --config=configs/sweeps/privacy.py --workdir=DIR
Sizes:     :cpu is the default, :paper has the paper's, :smoke is for tests

Full-batch DP-GD, clipping norm 1, delta 1e-5, noise that the adversary doesn't know.
The paper's network, the kernel regression and training inversion attack the same
models. The point without noise clips as well, and isn't inverted: plain derivatives of
clipped training take minutes per target.
"""

from ml_collections import config_dict

import informed
from dp import accounting
from informed.runs.sweep import SweepConfig

EPSILONS = {
    "smoke": (10.0,),
    "cpu": (1.0, 10.0, 100.0, 1000.0, 10_000.0),
    "paper": (0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0),
}
STEPS = {"smoke": 10, "cpu": 100, "paper": 100}
SMALLER = {
    "smoke": (),
    "cpu": ("shadow.count=4000", "data.num_test=300", "attacks.reconn.epochs=40"),
    "paper": (),
}
INVERTED = {"smoke": 1, "cpu": 3, "paper": 100}
DRAWS = {"smoke": 4, "cpu": 64, "paper": 512}


def get_config(size: str = "cpu") -> config_dict.ConfigDict:
    config = informed.defaults(SweepConfig)
    config.title = "Private training"
    config.base = f"../mnist.py:{size}"
    config.overrides = ("attacks.kernel.targets=null", *SMALLER[size])
    clip = "training.privacy.clip_norm=1.0"
    points = [("no noise", clip, "training.privacy.noise_multiplier=0.0")]
    for epsilon in EPSILONS[size]:
        sigma = accounting.noise_multiplier(
            epsilon, 1e-5, steps=STEPS[size], relation="zero_out"
        )
        points.append(
            (
                f"epsilon {epsilon:g}",
                clip,
                f"training.privacy.noise_multiplier={sigma!r}",
            )
        )
    inverted = (
        f"attacks.inversion.targets={INVERTED[size]}",
        f"attacks.inversion.draws={DRAWS[size]}",
        f"attacks.inversion.noise_draws={DRAWS[size]}",
    )
    config.points = tuple(
        (name, *fields, *(inverted if name != "no noise" else ()))
        for name, *fields in points
    )
    config.x = "epsilon"
    config.metrics = (
        "attacks.reconn.mse",
        "attacks.kernel.mse",
        "attacks.inversion.mse",
    )
    return config
