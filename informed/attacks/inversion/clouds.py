"""Least squares by clouds of runs: for functions with kinks, jumps or no derivatives.

Near a kink a derivative is the slope of one piece. A step needs the slope on the scale
of the present error, so the function is evaluated at a cloud of points around the best
guess, and regressed on their positions (`regression`). As the guess improves, the cloud
shrinks:

- The step is taken from the regression's own value at the centre, which averages over
  kinks, not from the run at the centre.
- Candidates along the step and the cloud's own points are judged by runs alone.
- Many small gains in a small cloud may be noise that was fitted, far from the answer.
  Where distances hardly fall any more, a large cloud is cast around the nearest point
  so far, and the search goes on from there, even if that is farther away ("heating").
  Then likely points around the step are tried too, as far away as the step may err.

Source: ours.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from informed.attacks.inversion import regression
from shadow import checks

Function = Callable[[np.ndarray], np.ndarray]
# Multiples of a step that are tried at once: shorter ones where the function bends.
FACTORS = np.array([1.0, 0.6, 0.3, 0.1, 1.5])
# A search stalls where neither distance nor error falls below this share of its mark.
_GAIN = 0.8


@dataclasses.dataclass(frozen=True, kw_only=True)
class CloudConfig:
    """How clouds are cast and moved.

    Attributes:
      points: points of a cloud, at least. Between this and `most_points` a cloud has
        twice as many points as there are slopes to find.
      most_points: points of a cloud, at most. Fewer than unknowns are enough, since
        slopes are remembered from cloud to cloud.
      rounds: number of clouds, at most.
      radius: radius of the first cloud, in standard deviations of the unknowns.
      reach: the next radius is this many times the error that the distance to the aim
        suggests, compared with the distances within the cloud. The error in directions
        that the function hardly tells apart is larger than that.
      shrink: smallest factor by which the radius changes from cloud to cloud. Faster
        shrinking leaves the radius below the error, where searches stall.
      grow: largest factor by which the radius changes from cloud to cloud.
      failed: factor to which the radius falls where no point was nearer.
      patience: number of clouds in a row without a gain (the distance fell by less than
        a fifth) after which the search is heated: a large cloud is cast around the
        nearest point so far.
      heats: number of times that a search is heated before it ends.
      heat: radius of the cloud of a heated search, in the unit of `radius`.
      crowd: factor on the points of that cloud.
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
        """These settings with at most so many clouds, and without heating."""
        return dataclasses.replace(self, rounds=min(rounds, self.rounds), heats=0)

    def next_radius(self, radius: float, error: float, failed: bool) -> float:
        """The radius after a cloud, which follows the error that is left.

        Args:
          radius: radius of the last cloud.
          error: distance to the answer that it suggests, in the same unit.
          failed: whether no point was nearer than its centre.
        """
        wanted = min(error, self.failed * radius) if failed else error
        return float(np.clip(wanted, self.shrink * radius, self.grow * radius))

    def size(self, slopes: int) -> int:
        """Points of a cloud that is to tell so many slopes."""
        return max(self.points, min(2 * slopes, self.most_points))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CloudState:
    """Where a search stands, so that it can be left and gone on with.

    Attributes:
      u: (unknowns,), the nearest point so far.
      value: (outputs,), the function there.
      centre: (unknowns,), centre of the next cloud.
      slopes: (features, outputs), the slopes that the last cloud was regressed to, or a
        first guess of them; None: nothing is known.
      whole: (unknowns, outputs), all slopes at the last cloud, known ones included.
      radius: radius of the next cloud; None: it will be the first one.
      error: distance to the answer that the last cloud suggests, in standard deviations
        of the unknowns. Where it is far above 1 the start led nowhere.
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
        """The state at a start, where nothing is known yet."""
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
      begun: a start, or the state in which an earlier search was left.
      config: how clouds are cast and moved.
      rng: casts the clouds.
      allowed: us -> the nearest points at which the function can be run.
      likely: us -> the nearest points where the answer is expected; tried as well.
      explained: residual (outputs,) -> whether it is rounding, which ends the search.
      local: u (unknowns,) -> the part of the slopes there that needs no regression.
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
        # Heating, where the search stalls: a large cloud around the nearest point.
        heated = stalled == config.patience
        if heated:
            if heats == config.heats:
                break
            heats, stalled, mark, mark_error = heats + 1, 0, np.inf, np.inf
            (u, value), radius = nearest, config.heat
        # The cloud.
        here = local(u)
        points = config.size(here.features.shape[1] if here else len(u))
        points *= config.crowd if heated else 1
        cloud = allowed(u + radius * rng.standard_normal((points, len(u))))
        values = runs(cloud)
        # Points where training diverged are left out.
        there = np.isfinite(values).all(axis=1)
        if there.sum() < 3:
            stalled, radius = stalled + 1, config.failed * radius
            continue
        cloud, values = cloud[there], values[there]
        centre = value if np.isfinite(value).all() else values.mean(axis=0)
        # The regression of changes on moves, and its step.
        fit, whole = _regressed(cloud - u, values - centre, slopes, here)
        slopes, noise = fit.slopes, fit.noise
        weighted = noise.whiten(whole)
        residual = noise.whiten(centre + fit.intercept - aim)
        moved = regression.step(weighted, residual, radius)
        tried = allowed(u + FACTORS[:, None] * moved)
        if likely is not None:
            tried = np.concatenate([tried, likely(tried)])
            if heated:
                drawn = u + moved + regression.draws(weighted, radius, points, rng)
                tried = np.concatenate([tried, likely(drawn)])
        # The candidate whose outputs are nearest, in units of the noise of kinks.
        candidates = np.concatenate([tried, cloud])
        outputs = np.concatenate([runs(tried), values])
        # A heated search leaves its centre, whatever the distance.
        if not heated:
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
        # The cloud is smaller than the rounding of its points.
        if not within:
            break
        # The next radius follows the error that the distance to the aim suggests.
        error = config.reach * radius * np.sqrt(away[best] / within)
        gained = distance < _GAIN * mark or error < _GAIN * mark_error
        stalled = 0 if gained else stalled + 1
        if gained:
            mark, mark_error = min(mark, distance), min(mark_error, error)
        radius = config.next_radius(radius, error, stays)
    return CloudState(
        u=nearest[0],
        value=nearest[1],
        centre=u,
        slopes=slopes,
        whole=whole,
        radius=radius,
        error=error,
    )


def _regressed(
    moves: np.ndarray,
    changes: np.ndarray,
    slopes: np.ndarray | None,
    local: regression.Local | None,
) -> tuple[regression.Fit, np.ndarray]:
    """A fit of the slopes that aren't known, and all slopes (unknowns, outputs)."""
    if local is None:
        fit = regression.regress(moves, changes, slopes)
        return fit, fit.slopes
    features, changes = moves @ local.features, changes - moves @ local.known
    fit = regression.regress(features, changes, slopes)
    return fit, local.features @ fit.slopes + local.known


def distance_to(value: np.ndarray, aim: np.ndarray) -> float:
    """Distance of a value from the aim; infinite where the value isn't finite."""
    return float(np.sqrt(squares((value - aim)[None])[0]))


def squares(rows: np.ndarray) -> np.ndarray:
    """Squared length of each row; infinite where a value isn't finite."""
    squares = np.einsum("ij,ij->i", rows, rows)
    return np.where(np.isfinite(squares), squares, np.inf)
