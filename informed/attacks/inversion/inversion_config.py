"""How hard the inversion of training tries: its configuration."""

import dataclasses

from shadow import checks

ENGINES = ("auto", "derivatives", "clouds")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InversionConfig:
    """How hard the inversion tries.

    Attributes:
      engine: "derivatives" (`gauss_newton`), "clouds" of runs (`clouds`), or "auto":
        clouds where training bends so much that derivatives lead nowhere, otherwise
        derivatives, and clouds where they have failed and pixels are at most 1,000.
      stages: numbers of components of the stages before the last; the last stage has
        all of them. Those that are not fewer than the pixels are left out.
      steps: Jacobians per stage, at most; each serves for as many steps as it helps.
      clouds: clouds that one search casts, at most.
      levels: whether the images are moved onto the levels of the public images, if
        theta agrees. There are levels where all public pixels lie on at most 256 evenly
        spaced values, as those of eight-bit images do.
      neighbours: number of public images per label, at most, that are trained on where
        the mean image doesn't lead to theta.
      starts: number of further starts, at most: the image that a kernel regression on
        those trainings reads out of theta for each label, and, where labels are few,
        the public images whose own theta is nearest.
      draws: draws of the randomness of A that isn't told, whose mean stands for theta.
      noise_draws: trainings that tell how theta scatters over that randomness. Half as
        many components of the target are searched.
      exact_mse: a reconstruction is certified only if four times `expected_mse` is at
        most this, in squared pixel values.
    """

    engine: str = "auto"
    stages: tuple[int, ...] = (16, 60, 300)
    steps: int = 8
    clouds: int = 150
    levels: bool = True
    neighbours: int = 600
    starts: int = 4
    draws: int = 32
    noise_draws: int = 512
    exact_mse: float = 1e-6

    def __post_init__(self) -> None:
        checks.choice("engine", self.engine, ENGINES)
        for field in ("steps", "clouds", "neighbours", "starts"):
            checks.at_least(field, getattr(self, field), 1)
        for components in self.stages:
            checks.at_least("stages", components, 1)
        checks.at_least("draws", self.draws, 2)
        checks.at_least("noise_draws", self.noise_draws, 2)
