"""Least squares by clouds of runs: for functions with kinks, jumps or no derivatives.

Near a kink a derivative is the slope of one piece. What a step needs is the slope on
the scale of the present error, so the function is evaluated at a cloud of points around
the best guess, and regressed on where they lie (`regression`). As it improves, the
cloud shrinks:

- The step is taken from the regression's own value at the centre, which averages over
  kinks, not from the run at the centre.
- Candidates along the step and the cloud's own points are judged by runs alone.
- Many small gains in a small cloud may be noise that was fitted, far from the answer.
  Where distances hardly fall any more, a large cloud is cast around the nearest point
  so far, and the search goes on from there, even if that is farther away. Then also
  what is likely beside the step is tried, as far around as the step may err.

Source: ours.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from informed.attacks.inversion import regression
from shadow import checks

Function = Callable[[np.ndarray], np.ndarray]
FACTORS = np.array([1.0, 0.6, 0.3, 0.1, 1.5])  # of a step, tried at once
_GAIN = 0.8  # a distance that falls less stalls


@dataclasses.dataclass(frozen=True, kw_only=True)
class CloudConfig:
    """How clouds are cast and moved.

    Attributes:
      points: of a cloud, at least,
      most_points: at most, and otherwise twice as many as slopes to find; fewer than
        unknowns are enough, since slopes are remembered.
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
    most_points: int = 256
    rounds: int = 150
    radius: float = 0.7
    reach: float = 2.0
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

    def shortened(self, rounds: int) -> "CloudConfig":
        """The same for at most so many clouds, and without heating."""
        return dataclasses.replace(self, rounds=min(rounds, self.rounds), heats=0)

    def size(self, slopes: int) -> int:
        """Points of a cloud that is to tell so many slopes."""
        return max(self.points, min(2 * slopes, self.most_points))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CloudState:
    """The nearest point so far.

    Attributes:
      u: (unknowns,).
      value: (outputs,), the function there.
      centre: (unknowns,), of the next cloud.
      slopes: (features, outputs), those that clouds find, of the last one, or a first
        guess of them; None: nothing is known.
      whole: (unknowns, outputs), all slopes, of the last cloud.
      radius: of the next cloud; None: it will be the first one.
      error: that the distance to the aim suggests, in standard deviations of the
        unknowns, at the last cloud. Where it is far above 1 the start led nowhere.
    """

    u: Float[np.ndarray, " unknowns"]
    value: Float[np.ndarray, " outputs"]
    centre: Float[np.ndarray, " unknowns"]
    slopes: Float[np.ndarray, "features outputs"] | None
    whole: Float[np.ndarray, "unknowns outputs"]
    radius: float | None
    error: float

    @classmethod
    def start(cls, u: np.ndarray, value: np.ndarray) -> "CloudState":
        """Where nothing is known yet."""
        return cls(
            u=u,
            value=value,
            centre=u,
            slopes=None,
            whole=np.zeros((len(u), len(value))),
            radius=None,
            error=np.inf,
        )


def minimise(
    runs: Function,
    aim: Float[np.ndarray, " outputs"],
    begun: CloudState,
    *,
    config: CloudConfig,
    rng: np.random.Generator,
    allowed: Function = lambda us: us,
    likely: Function | None = None,
    explained: Callable[[np.ndarray], bool] = lambda residual: False,
    local: Callable[[np.ndarray], regression.Local | None] = lambda u: None,
) -> CloudState:
    """Bring the outputs of a function near to `aim`.

    Args:
      runs: us (points, unknowns) -> (points, outputs), float64.
      aim: the wanted outputs.
      begun: where to begin, or to go on.
      config: see there.
      rng: casts the clouds.
      allowed: us -> the nearest ones that can be run.
      likely: us -> the nearest ones where the answer is expected, such as images of
        eight bits; tried beside every candidate.
      explained: whether a residual is nothing but rounding, which ends the search.
      local: what is known of the slopes at any point.
    """
    nearest, least = (begun.u, begun.value), distance_to(begun.value, aim)
    u, slopes, whole = begun.centre, begun.slopes, begun.whole
    value = begun.value if u is begun.u else runs(u[None])[0]
    radius = config.radius if begun.radius is None else begun.radius
    error = begun.error
    stalled, heats, mark, mark_error = 0, 0, least, np.inf
    for _ in range(config.rounds):
        if explained(value - aim):
            break
        heated = stalled == config.patience
        if heated:
            if heats == config.heats:
                break
            heats, stalled, mark, mark_error = heats + 1, 0, np.inf, np.inf
            (u, value), radius = nearest, config.heat
        here = local(u)
        points = config.size(here.features.shape[1] if here else len(u))
        points *= config.crowd if heated else 1
        cloud = allowed(u + radius * rng.standard_normal((points, len(u))))
        values = runs(cloud)
        there = np.isfinite(values).all(axis=1)  # where training didn't diverge
        if there.sum() < 3:
            stalled, radius = stalled + 1, config.failed * radius
            continue
        cloud, values = cloud[there], values[there]
        centre = value if np.isfinite(value).all() else values.mean(axis=0)
        moves, changes = cloud - u, values - centre
        if here:
            moves, changes = moves @ here.features, changes - moves @ here.known
        fit = regression.regress(moves, changes, slopes)
        slopes, noise = fit.slopes, fit.noise
        whole = here.features @ slopes + here.known if here else slopes
        weighted = noise.whiten(whole)
        residual = noise.whiten(centre + fit.intercept - aim)
        moved = regression.step(weighted, residual, radius)
        tried = allowed(u + FACTORS[:, None] * moved)
        if likely is not None:
            tried = np.concatenate([tried, likely(tried)])
            if heated:
                drawn = u + moved + regression.draws(weighted, radius, points, rng)
                tried = np.concatenate([tried, likely(drawn)])
        candidates = np.concatenate([tried, cloud])
        outputs = np.concatenate([runs(tried), values])
        if not heated:  # else it leaves, whatever the distance
            candidates = np.concatenate([u[None], candidates])
            outputs = np.concatenate([value[None], outputs])
        away = squares(noise.whiten(outputs - aim))
        within = np.mean(squares(noise.whiten(values - centre)))
        best = int(np.argmin(away))
        stays = not heated and not best
        u, value = candidates[best], outputs[best]
        distance = distance_to(value, aim)
        if distance < least:
            nearest, least = (u, value), distance
        if not within:  # the cloud is smaller than the rounding of its points
            break
        error = config.reach * radius * np.sqrt(away[best] / within)
        gained = distance < _GAIN * mark or error < _GAIN * mark_error
        stalled = 0 if gained else stalled + 1
        if gained:
            mark, mark_error = min(mark, distance), min(mark_error, error)
        wanted = min(error, config.failed * radius) if stays else error
        radius = float(np.clip(wanted, config.shrink * radius, config.grow * radius))
    return CloudState(
        u=nearest[0],
        value=nearest[1],
        centre=u,
        slopes=slopes,
        whole=whole,
        radius=radius,
        error=error,
    )


def distance_to(value: np.ndarray, aim: np.ndarray) -> float:
    """Infinite where the value isn't finite."""
    return float(np.sqrt(squares((value - aim)[None])[0]))


def squares(rows: np.ndarray) -> np.ndarray:
    """Squared lengths; infinite where a value isn't finite."""
    squares = np.einsum("ij,ij->i", rows, rows)
    return np.where(np.isfinite(squares), squares, np.inf)
