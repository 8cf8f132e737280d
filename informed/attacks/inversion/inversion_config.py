"""Settings of the inversion, set by users and read by all parts of the attack."""

import dataclasses

from shadow import checks

ENGINES = ("auto", "derivatives", "clouds")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InversionConfig:
    """Engine and effort of the inversion of weights theta.

    Attributes:
      engine: "derivatives" (`gauss_newton`), "clouds" of runs (`clouds`), or "auto":
        clouds if training is too nonlinear for derivatives; otherwise derivatives,
        followed by clouds if these fail and images have at most 1,000 pixels.
      stages: numbers of principal components in the stages of the search by derivatives
        before the last, which has all. Numbers not below that of pixels are ignored.
      steps: most Jacobians per stage; each is reused for as many steps as it helps.
      clouds: most clouds of one search.
      levels: whether to round images to the levels of the known images, if theta
        agrees. There are levels if all their pixels lie on at most 256 evenly spaced
        values, as those of eight-bit images do.
      neighbours: most known images per label to train on, if the mean image doesn't
        lead to theta.
      starts: most random starts of several unknown points; of one point, most labels
        with columns free that never vary, and most labels and known images as starts.
      draws: draws of training's unknown randomness, over which weights are averaged.
      noise_draws: trainings that measure how theta scatters over that randomness. Half
        as many components of the target are searched.
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
        checks.at_least("stages", min(self.stages, default=1), 1)
        checks.positive("exact_mse", self.exact_mse)
        checks.at_least("draws", self.draws, 2)
        checks.at_least("noise_draws", self.noise_draws, 2)
