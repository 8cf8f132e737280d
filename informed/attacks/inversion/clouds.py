"""Least squares by clouds of runs: for functions with kinks, jumps or no derivatives.

Near a kink a derivative is the slope of one piece. What a step needs is the slope on
the scale of the present error, so the function is evaluated at a cloud of points around
the best guess, and regressed on where they lie. As it improves, the cloud shrinks:

- The regression starts from the slopes of earlier clouds and says, for every output on
  its own, by generalised cross-validation, how far it goes from there. So clouds may
  have fewer points than there are unknowns.
- What it leaves unexplained weights the outputs: those that answer smoothly count most.
- The step is taken from the regression's own value at the centre, which averages over
  kinks, not from the run at the centre.
- Candidates along the step and the cloud's own points are judged by runs alone.
- Many small gains in a small cloud may be noise that was fitted, far from the answer.
  Where distances hardly fall any more, a large cloud is cast around the nearest point
  so far, and the search goes on from there, even if that is farther away. Then also
  what is likely beside the step is tried, as far around as the step may err.

Source: ours. Regression with slopes shrunk towards earlier ones is what an ensemble
Kalman inversion does with an ensemble of its own (Iglesias, Law and Stuart, 2013).
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from shadow import checks

Function = Callable[[np.ndarray], np.ndarray]
FACTORS = np.array([1.0, 0.6, 0.3, 0.1, 1.5])  # of a step, tried at once
_RIDGES = 10.0 ** np.arange(-8, 5)  # of the regression, in units of its mean square
_LEAST_FREE = 0.3  # of the points; with fewer degrees of freedom misfits say nothing
_GAIN = 0.8  # a distance that falls less stalls
_SCALES = np.array([1.0, 2.0, 4.0])
_LEAST_SHARE = 1e-3  # of the median misfit, added to every output's


@dataclasses.dataclass(frozen=True, kw_only=True)
class CloudConfig:
    """How clouds are cast and moved.

    Attributes:
      points: of a cloud; fewer than unknowns are enough, since slopes are remembered.
      rounds: clouds, at most.
      radius: of the first cloud, in standard deviations of the unknowns.
      reach: the next radius is this many times the error that the distance to the aim
        suggests, compared with the distances within the cloud. The error in directions
        that the function hardly tells apart is larger than that.
      shrink, grow: the radius changes by these factors at most from cloud to cloud;
      failed: and falls to this part, where no point was nearer.
      patience: clouds in a row in which the distance fell by less than a fifth, after
        which the search is heated:
      heats: this often, before it ends;
      heat: the radius then,
      crowd: and times as many points.
    """

    points: int = 96
    rounds: int = 150
    radius: float = 0.7
    reach: float = 3.0
    shrink: float = 0.4
    grow: float = 1.3
    failed: float = 0.8
    patience: int = 8
    heats: int = 6
    heat: float = 0.1
    crowd: int = 6

    def __post_init__(self) -> None:
        checks.at_least("points", self.points, 8)
        checks.at_least("rounds", self.rounds, 1)
        checks.at_least("patience", self.patience, 1)
        checks.at_least("heats", self.heats, 0)
        checks.at_least("crowd", self.crowd, 1)
        checks.positive("radius", self.radius)
        checks.positive("heat", self.heat)
        checks.positive("reach", self.reach)
        checks.within("shrink", self.shrink, 0, 1)
        checks.at_least("grow", self.grow, 1)
        checks.within("failed", self.failed, 0, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fit:
    """What a cloud says of the function around its centre.

    Attributes:
      slopes: (unknowns, outputs).
      intercept: (outputs,), the averaged function at the centre less the run there.
      misfit: (outputs,), mean square of what is left.
    """

    slopes: Float[np.ndarray, "unknowns outputs"]
    intercept: Float[np.ndarray, " outputs"]
    misfit: Float[np.ndarray, " outputs"]

    @property
    def deviations(self) -> Float[np.ndarray, " outputs"]:
        """Of what is left, > 0."""
        share = _LEAST_SHARE * np.median(self.misfit)
        return np.sqrt(np.maximum(self.misfit + share, np.finfo(float).tiny))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """The nearest point.

    Attributes:
      u: (unknowns,).
      value: (outputs,), the function there.
      slopes: (unknowns, outputs), of the last cloud.
      deviations: (outputs,), of what it left.
    """

    u: Float[np.ndarray, " unknowns"]
    value: Float[np.ndarray, " outputs"]
    slopes: Float[np.ndarray, "unknowns outputs"]
    deviations: Float[np.ndarray, " outputs"]


def regress(
    moves: Float[np.ndarray, "points unknowns"],
    changes: Float[np.ndarray, "points outputs"],
    slopes: Float[np.ndarray, "unknowns outputs"] | None = None,
) -> Fit:
    """Regress changes of a function on moves, with slopes shrunk towards known ones.

    Args:
      moves: of the points from the centre.
      changes: of the function from its value at the centre.
      slopes: those of earlier clouds; None: zero.
    """
    if slopes is None:
        slopes = np.zeros((moves.shape[1], changes.shape[1]))
    left = changes - moves @ slopes
    centre, average = moves.mean(axis=0), left.mean(axis=0)
    apart, left = moves - centre, left - average
    spectrum, rotation = np.linalg.eigh(apart @ apart.T)
    spectrum, turned = np.maximum(spectrum, 0), rotation.T @ left
    ridges = _RIDGES * spectrum.mean()
    kept = ridges[:, None] / (spectrum[None] + ridges[:, None])  # (ridges, points)
    free = kept.sum(axis=1) - 1  # the mean has taken one
    enough = free >= min(_LEAST_FREE * len(moves), free.max())
    ridges, kept, free = ridges[enough], kept[enough], free[enough]
    squares = kept**2 @ turned**2
    best = np.argmin(squares / free[:, None] ** 2, axis=0)
    misfit = np.take_along_axis(squares, best[None], axis=0)[0] / free[best]
    more = apart.T @ (rotation @ (turned / (spectrum[:, None] + ridges[best])))
    return Fit(slopes=slopes + more, intercept=average - centre @ more, misfit=misfit)


def step(
    fit: Fit, residual: Float[np.ndarray, " outputs"], radius: float
) -> Float[np.ndarray, " unknowns"]:
    """The weighted Gauss-Newton step.

    Args:
      fit: of the cloud.
      residual: of the averaged function at its centre.
      radius: of the cloud; steps of several radii are held back.
    """
    gram, weighted = _normal_equations(fit, radius)
    return -np.linalg.solve(gram, weighted @ (residual / fit.deviations))


def _normal_equations(fit: Fit, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """The Gram matrix of the step, and the weighted slopes."""
    weighted = fit.slopes / fit.deviations
    gram = weighted @ weighted.T
    gram[np.diag_indices_from(gram)] += 1 / (3 * radius) ** 2
    return gram, weighted


def draws(
    fit: Fit, radius: float, count: int, rng: np.random.Generator
) -> Float[np.ndarray, "count unknowns"]:
    """Errors that the step may have, at one to four times what the misfit says."""
    gram, _ = _normal_equations(fit, radius)
    spectrum, rotation = np.linalg.eigh(gram)
    normal = rng.standard_normal((count, len(gram))) / np.sqrt(spectrum)
    return rng.choice(_SCALES, (count, 1)) * (normal @ rotation.T)


def minimise(
    runs: Function,
    aim: Float[np.ndarray, " outputs"],
    start: Float[np.ndarray, " unknowns"],
    *,
    config: CloudConfig,
    rng: np.random.Generator,
    allowed: Function = lambda us: us,
    likely: Function | None = None,
    explained: Callable[[np.ndarray], bool] = lambda residual: False,
    slopes: Float[np.ndarray, "unknowns outputs"] | None = None,
) -> Found:
    """Bring the outputs of a function near to `aim`.

    Args:
      runs: us (points, unknowns) -> (points, outputs), float64.
      aim: the wanted outputs.
      start: where to begin.
      config: see there.
      rng: casts the clouds.
      allowed: us -> the nearest ones that can be run.
      likely: us -> the nearest ones where the answer is expected, such as images of
        eight bits; tried beside every candidate.
      explained: whether a residual is nothing but rounding, which ends the search.
      slopes: a first guess of them at the start; None: zero.
    """
    u, radius = start, config.radius
    value = runs(u[None])[0]
    slopes = np.zeros((len(u), len(aim))) if slopes is None else slopes
    deviations = np.ones(len(aim))
    nearest, least = (u, value), distance_to(value, aim)
    stalled, mark, heats = 0, least, 0
    for _ in range(config.rounds):
        if explained(value - aim):
            break
        heated, points = stalled == config.patience, config.points
        if heated:
            if heats == config.heats:
                break
            heats, stalled, mark = heats + 1, 0, np.inf
            (u, value), radius = nearest, config.heat
            points *= config.crowd
        cloud = allowed(u + radius * rng.standard_normal((points, len(u))))
        values = runs(cloud)
        there = np.isfinite(values).all(axis=1)  # where training didn't diverge
        if there.sum() < 3:
            stalled, radius = stalled + 1, config.failed * radius
            continue
        cloud, values = cloud[there], values[there]
        centre = value if np.isfinite(value).all() else values.mean(axis=0)
        fit = regress(cloud - u, values - centre, slopes)
        slopes, deviations = fit.slopes, fit.deviations
        moved = step(fit, centre + fit.intercept - aim, radius)
        tried = allowed(u + FACTORS[:, None] * moved)
        if likely is not None:
            tried = np.concatenate([tried, likely(tried)])
            if heated:
                drawn = u + moved + draws(fit, radius, points, rng)
                tried = np.concatenate([tried, likely(drawn)])
        candidates = np.concatenate([tried, cloud])
        outputs = np.concatenate([runs(tried), values])
        if not heated:  # else it leaves, whatever the distance
            candidates = np.concatenate([u[None], candidates])
            outputs = np.concatenate([value[None], outputs])
        away = squares((outputs - aim) / deviations)
        within = np.mean(squares((values - centre) / deviations))
        best = int(np.argmin(away))
        stays = not heated and not best
        u, value = candidates[best], outputs[best]
        distance = distance_to(value, aim)
        if distance < least:
            nearest, least = (u, value), distance
        if not within:  # the cloud is smaller than the rounding of its points
            break
        error = config.reach * radius * np.sqrt(away[best] / within)
        if stays:
            error = min(error, config.failed * radius)
        radius = float(np.clip(error, config.shrink * radius, config.grow * radius))
        stalled = 0 if distance < _GAIN * mark else stalled + 1
        mark = mark if stalled else distance
    u, value = nearest
    return Found(u=u, value=value, slopes=slopes, deviations=deviations)


def distance_to(value: np.ndarray, aim: np.ndarray) -> float:
    """Infinite where the value isn't finite."""
    return float(np.sqrt(squares((value - aim)[None])[0]))


def squares(rows: np.ndarray) -> np.ndarray:
    """Squared lengths; infinite where a value isn't finite."""
    squares = np.einsum("ij,ij->i", rows, rows)
    return np.where(np.isfinite(squares), squares, np.inf)
