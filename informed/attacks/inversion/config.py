"""How hard training inversion tries, and its thresholds, as frozen dataclasses."""

import dataclasses

from informed.attacks.inversion import gauss_newton
from informed.attacks.inversion.clouds import CloudConfig
from shadow import checks

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
      label_components: number of components of the linearised map by which candidate
        labels are ranked.
      labels_tried: number of labels that derivatives try, at most, the best first.
      label_factor: a label is tried by derivatives if its residual in the ranking is
        at most this many times the best one's. Clouds begin with every label, and leave
        most of them early.
      levels: whether the answer is moved onto the levels of the public images, if theta
        agrees. There are levels where all public pixels lie on at most 256 evenly
        spaced values, as those of eight-bit images do.
      neighbours: number of public images per label, at most, that are trained on where
        the mean image doesn't lead to theta.
      starts: number of further starts, at most: the image that a kernel regression on
        those trainings reads out of theta for each label, and, where labels are few,
        the public images whose own theta is nearest.
      rank: number of leading directions of the data in derivatives in span (`span`).
      tangents: derivatives carried by one training run; a matter of speed and memory.
      krylov: dimensions of the matrix-free stages, which replace those whose Jacobian
        would pass 2 GiB.
      draws: draws of the randomness of A that isn't told, whose mean stands for theta.
      noise_draws: trainings that tell how theta scatters over that randomness. Half as
        many components of the target are searched.
      noise_factor: a reconstruction is certified only if its squared residual is at
        most this many times that of the noise.
      exact_mse: a reconstruction is certified only if four times `expected_mse` is at
        most this, in squared pixel values.
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


@dataclasses.dataclass(frozen=True)
class Patience:
    """How long a stage of Gauss-Newton is searched.

    Attributes:
      give_up: the stage ends when a step with a new Jacobian divides the cost by less
        than this.
      times: Jacobians of the stage, at most, as a multiple of `InversionConfig.steps`.
    """

    give_up: float
    times: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SolverConfig:
    """Thresholds of the search from one start, and of its certificate.

    They are no part of an experiment's configuration: a change of one is a change of
    the attack, and raises its row's revision.

    Attributes:
      last_digits: relative standard deviation of the changes of pixels with which A is
        run again to measure its rounding. It is a few times the spacing of float32
        numbers (1.2e-7), so that every training differs, and far below an error that
        matters.
      rounding_runs: trainings with changed last digits, whose median is the rounding.
        Together with the unchanged one they fill two batches of runs.
      floor_factor: Gauss-Newton ends where the squared residual is at most this many
        times what rounding leaves on average; no step helps any more.
      quick: patience with the mean image of a label, since other starts follow.
      patient: patience with what a regression reads out of theta, where a new start
        promises less than more steps.
      several: patience of the last stage with several unknown points, where another
        start is worse than more steps, each of small gain.
      last_stage_times: `times` of the last stage with one unknown point. All pixels
        move there, and need more Jacobians than a few components do.
      matrix_free: patience of stages in a Krylov space, whose steps are cheaper and
        gain less; `times` multiplies that of the stage.
      reach: bound on the norm of u, in standard deviations per component. Farther from
        the mean there is no image of this kind, and training there tells nothing.
      on_level: distance from a level, in pixel values, below which a pixel lies on it.
        Passing through coordinates and back in float64 leaves less.
      margin: factor on `expected_mse` before the certificate compares it, since errors
        scatter around what is expected and noise is seldom independent. Chosen on the
        20 targets of the row "trained in TF32" of docs/inversion.md; confirmed there
        on 20 fresh ones.
      tried_at_once: weakest directions that are tried together before an answer is
        certified; with the answer itself they fill two batches of runs.
      most_tries: such batches, at most. A direction to which training doesn't answer is
        left out of what theta tells, and the next ones are tried.
      least_answer: share of the change of theta that the slopes promise along a
        direction, from which on training answers to it. A direction of real slopes has
        about 1, one without has 0 and the noise.
      touched: change of a weight, against training on a black target, that shows that
        the target lights its pixel, in spacings of float32 numbers there. With small
        learning rates all changes are small. A pixel that is taken for lit and isn't
        costs time; one that is taken for black and isn't can't be found.
      lit: lowest value at which a pixel that is certainly lit starts. With Adam the
        weights jump between a black and a lit pixel, so the search has to begin on the
        right side.
      largest_jacobian_bytes: size of a float64 Jacobian beyond which a stage is
        matrix-free; a matter of memory.
      large_rounding: rounding at a start, relative to its distance to theta, beyond
        which training counts as chaotic and rounding explains nothing by itself.
      small_distance: share of that distance that a residual of chaotic training may
        have at most. At the truth, with the same last digits, it has none.
      chance: probability that free pixels come so near to levels by chance, below which
        an answer is said to be exact if the target's pixels are levels.
      short_clouds: clouds that every start gets; then clouds that a promising start
        gets before the starts are compared. More of them find the right label later,
        fewer leave a start before it shows where it leads.
      promising: error in standard deviations of the unknowns, estimated after the first
        clouds, below which a start is promising. Starts that lead nowhere stay above.
      long_searches: starts that are searched to the end, the most promising first.
      most_unknowns: unknowns up to which clouds follow where derivatives have failed;
        with more a cloud costs too many trainings.
    """

    last_digits: float = 1e-6
    rounding_runs: int = 2 * gauss_newton.AT_ONCE - 1
    floor_factor: float = 2.0
    quick: Patience = Patience(1.3, 1)
    patient: Patience = Patience(1.1, 2)
    several: Patience = Patience(1.02, 4)
    last_stage_times: int = 2
    matrix_free: Patience = Patience(1.02, 4)
    reach: float = 2.5
    on_level: float = 1e-9
    margin: float = 4.0
    tried_at_once: int = 2 * gauss_newton.AT_ONCE - 1
    most_tries: int = 8
    least_answer: float = 0.5
    touched: float = 4.0
    lit: float = 0.1
    largest_jacobian_bytes: int = 2 << 30
    large_rounding: float = 0.03
    small_distance: float = 1e-3
    chance: float = 1e-9
    short_clouds: tuple[int, int] = (16, 48)
    promising: float = 1.5
    long_searches: int = 2
    most_unknowns: int = 1000
