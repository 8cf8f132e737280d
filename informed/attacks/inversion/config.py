"""How hard training inversion tries, as one frozen dataclass."""

import dataclasses

from informed.attacks.inversion.clouds import CloudConfig
from shadow import checks

REVISION = 10  # of the attack; see `shadow.records`
ENGINES = ("auto", "derivatives", "clouds")
_COUNTS = (
    "steps",
    "label_components",
    "labels_tried",
    "neighbours",
    "starts",
    "tangents",
    "krylov",
    "rank",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class InversionConfig:
    """How hard to try.

    Attributes:
      engine: "derivatives" (`gauss_newton`), "clouds" of runs (`clouds`), or "auto":
        clouds where training bends so much that derivatives lead nowhere, otherwise
        derivatives, and clouds where they have failed and pixels are at most 1,000.
      clouds: how clouds are cast.
      stages: numbers of components of the stages before the last; the last stage has
        all of them. Those that are not fewer than the pixels are left out.
      steps: Jacobians per stage, at most; each serves for as many steps as it helps.
      label_components: of the linearised ranking of candidate labels.
      labels_tried: labels that are tried to the end, best first, at most;
      label_factor: and only those whose residual in the ranking is at most this many
        times the best one's; clouds try all, but most of them not to the end.
      levels: where all public pixels lie on at most 256 evenly spaced values, as
        those of eight-bit images do, the answer is moved onto them, if theta agrees.
      neighbours: where the mean image doesn't lead to theta, so many public images of
        each label are trained on;
      starts: what a kernel regression then reads out of theta, one image per label, and
        where labels are few the public images nearest to it, are the next starts; so
        many, those first whose own theta is nearest.
      rank: of the data in derivatives in span (`retraining`).
      tangents: derivatives carried by one training run; a matter of speed and memory.
      krylov: dimensions of the matrix-free stages, which replace those whose Jacobian
        would pass 2 GiB.
      draws: of randomness of A that isn't told, whose mean stands for theta;
      noise_draws: and trainings that tell how theta scatters. Half as many components
        can be told apart.
      noise_factor: certified if the squared residual is at most this many times that
        of the noise,
      exact_mse: and `expected_mse` at most a quarter of this.
    """

    engine: str = "auto"
    clouds: CloudConfig = dataclasses.field(default_factory=CloudConfig)
    stages: tuple[int, ...] = (16, 60, 300)
    steps: int = 8
    label_components: int = 60
    labels_tried: int = 4
    label_factor: float = 2.0
    levels: bool = True
    neighbours: int = 600
    starts: int = 4
    rank: int = 100
    tangents: int = 16
    krylov: int = 50
    draws: int = 32
    noise_draws: int = 512
    noise_factor: float = 10.0
    exact_mse: float = 1e-6

    def __post_init__(self) -> None:
        checks.choice("engine", self.engine, ENGINES)
        for field in _COUNTS:
            checks.at_least(field, getattr(self, field), 1)
        checks.at_least("draws", self.draws, 2)
        checks.at_least("noise_draws", self.noise_draws, 2)
        checks.at_least("noise_factor", self.noise_factor, 1)
        checks.at_least("label_factor", self.label_factor, 1)
        for components in self.stages:
            checks.at_least("stages", components, 1)
