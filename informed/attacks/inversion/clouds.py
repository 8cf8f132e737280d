"""Least squares by clouds of training runs: for functions with kinks or no derivatives.

`cloud_search` calls it: the function maps coordinates of an image, in standard
deviations, to trained weights; the aim is the released ones. A *cloud* is a set of
random points around the present guess at which the function is run. Near a kink, a
derivative is the slope of one piece only. A step needs the slope on the scale of the
present error, so we regress the cloud's values on its points (`cloud_regression`). As
the guess improves, the cloud shrinks.

The step starts from the regression's own value at the centre, which averages over
kinks. Candidates along the step and the cloud's points are compared by running them.
When progress stalls, we cast a large cloud around the best point so far and continue
from there, even if that is farther away ("heating"). We then also try likely points,
such as whole levels, at one to four times the step's standard error. Source: ours.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from informed.attacks.inversion import cloud_regression

Function = Callable[[np.ndarray], np.ndarray]
# Smallest and largest number of points of a cloud that isn't heated; between these
# twice as many as there are slopes to find. Slopes are kept from cloud to cloud.
POINTS, _MOST_POINTS = 96, 256
# Radius of the first cloud, in standard deviations of the unknowns.
_RADIUS = 0.7
# The next radius is this many times the error that follows from the distance to the
# aim, compared with distances within the cloud.
_REACH = 2.0
# Smallest and largest factor by which the radius changes from cloud to cloud. Faster
# shrinking leaves the radius below the error, where searches stall.
_SHRINK, _GROW = 0.4, 1.3
# Largest factor on the radius if no point was nearer, and the factor if training
# diverged at nearly all of them.
_FAILED = 0.8
# A cloud gains if distance or error falls below this share of that at the last gain.
_GAIN = 0.8
# Clouds in a row without a gain after which the search is heated: a large cloud is cast
# around the nearest point so far. How often that happens before the search ends.
_PATIENCE, HEATS = 8, 6
# Radius of a heated search's cloud, in standard deviations; factor on its points.
_HEAT, _CROWD = 0.1, 6
# Multiples of a step to try at once; nonlinear functions need shorter ones.
_FACTORS = np.array([1.0, 0.6, 0.3, 0.1, 1.5])


@dataclasses.dataclass(frozen=True, eq=False)
class CloudState:
    """The state of a search, from which it can continue."""

    u: Float[np.ndarray, " unknowns"]  # the nearest point so far
    value: Float[np.ndarray, " outputs"]  # the function there
    centre: Float[np.ndarray, " unknowns"]  # centre of the next cloud
    # Slopes by the last cloud's regression, or a first guess of them; None: none yet.
    slopes: Float[np.ndarray, "features outputs"] | None
    # All slopes around the centre of the last cloud, also those that weren't regressed.
    jacobian: Float[np.ndarray, "unknowns outputs"]
    radius: float = _RADIUS  # radius of the next cloud
    # `_REACH` times the error per unknown that the last cloud suggests, in standard
    # deviations; far above 1, the start was unsuccessful.
    error: float = np.inf

    @classmethod
    def start(
        cls, u: np.ndarray, value: np.ndarray, radius: float = _RADIUS
    ) -> "CloudState":
        """Return the state at a point without known slopes."""
        return cls(u, value, u, None, np.zeros((len(u), len(value))), radius)


def minimise(
    runs: Function,
    aim: Float[np.ndarray, " outputs"],
    begun: CloudState,
    *,
    rounds: int,
    rng: np.random.Generator,
    heats: int = HEATS,
    points: int = POINTS,
    allowed: Function = lambda us: us,
    likely: Function | None = None,
    explained: Callable[[np.ndarray], bool] = lambda residual: False,
    local: Callable[[np.ndarray], cloud_regression.Local | None] = lambda u: None,
) -> CloudState:
    """Minimise the distance of a function's outputs from `aim`.

    Args:
      runs: us (points, unknowns) -> (points, outputs), float64.
      begun: a start, or the state in which an earlier search ended.
      rounds: largest number of clouds, of at least `points` points.
      heats: number of times that a search is heated before it ends.
      allowed: us -> the nearest points at which the function can be run.
      likely: us -> the nearest points where the solution is expected, to try as well.
      explained: residual (outputs,) -> whether it is rounding, which ends the search.
      local: u (unknowns,) -> the part of the slopes there that needs no regression.
    Returns: the state in which the search ended; its `u` is the nearest point.
    """
    nearest, least = (begun.u, begun.value), _distance(begun.value, aim)
    u, slopes, jacobian = begun.centre, begun.slopes, begun.jacobian
    value = begun.value if u is begun.u else runs(u[None])[0]
    radius, error = begun.radius, begun.error
    stalled, heated_times, mark, mark_error = 0, 0, least, np.inf
    for _ in range(rounds):
        if explained(value - aim):
            break
        # Heating if the search stalls: a large cloud around the nearest point.
        heated = stalled == _PATIENCE
        if heated:
            if heated_times == heats:
                break
            heated_times, stalled = heated_times + 1, 0
            mark, mark_error = np.inf, np.inf
            (u, value), radius = nearest, _HEAT
        # The cloud.
        here = local(u)
        unknown_slopes = here.features.shape[1] if here else len(u)
        count = max(points, min(2 * unknown_slopes, _MOST_POINTS))
        count *= _CROWD if heated else 1
        cloud = allowed(u + radius * rng.standard_normal((count, len(u))))
        values = runs(cloud)
        # Points where training diverged are left out.
        there = np.isfinite(values).all(axis=1)
        if there.sum() < 3:
            stalled, radius = stalled + 1, _FAILED * radius
            continue
        cloud, values = cloud[there], values[there]
        centre = value if np.isfinite(value).all() else values.mean(axis=0)
        # The regression of changes on moves, and its step.
        fit, jacobian = _regressed(cloud - u, values - centre, slopes, here)
        slopes, noise = fit.slopes, fit.noise
        weighted = noise.whiten(jacobian)
        residual = noise.whiten(centre + fit.intercept - aim)
        moved = cloud_regression.step(weighted, residual, radius)
        tried = allowed(u + _FACTORS[:, None] * moved)
        if likely is not None:
            tried = np.concatenate([tried, likely(tried)])
            if heated:
                errors = cloud_regression.draws(weighted, radius, count, rng)
                tried = np.concatenate([tried, likely(u + moved + errors)])
        # The candidate whose outputs are nearest, in units of the noise of kinks.
        candidates = np.concatenate([tried, cloud])
        outputs = np.concatenate([runs(tried), values])
        # A heated search leaves its centre, whatever the distance.
        if not heated:
            candidates = np.concatenate([u[None], candidates])
            outputs = np.concatenate([value[None], outputs])
        away = _squares(noise.whiten(outputs - aim))
        within = np.mean(_squares(noise.whiten(values - centre)))
        best = int(np.argmin(away))
        stays = not heated and not best
        u, value = candidates[best], outputs[best]
        distance = _distance(value, aim)
        if distance < least:
            nearest, least = (u, value), distance
        # Stop if the cloud is smaller than the rounding of its points.
        if not within:
            break
        # The next radius follows the error that the distance to the aim suggests.
        error = _REACH * radius * np.sqrt(away[best] / within)
        gained = distance < _GAIN * mark or error < _GAIN * mark_error
        stalled = 0 if gained else stalled + 1
        if gained:
            mark, mark_error = min(mark, distance), min(mark_error, error)
        wanted = min(error, _FAILED * radius) if stays else error
        radius = float(np.clip(wanted, _SHRINK * radius, _GROW * radius))
    return CloudState(*nearest, u, slopes, jacobian, radius, error)


def _regressed(
    moves: np.ndarray,
    changes: np.ndarray,
    slopes: np.ndarray | None,
    local: cloud_regression.Local | None,
) -> tuple[cloud_regression.Fit, np.ndarray]:
    """Fit the unknown slopes; also return all slopes (unknowns, outputs)."""
    if local is None:
        fit = cloud_regression.regress(moves, changes, slopes)
        return fit, fit.slopes
    features, changes = moves @ local.features, changes - moves @ local.known
    fit = cloud_regression.regress(features, changes, slopes)
    return fit, local.features @ fit.slopes + local.known


def _distance(value: np.ndarray, aim: np.ndarray) -> float:
    """Return the distance from the aim; infinite if a value isn't finite."""
    return float(np.sqrt(_squares((value - aim)[None])[0]))


def _squares(rows: np.ndarray) -> np.ndarray:
    """Return the squared length of each row; infinite if a value isn't finite."""
    squares = np.einsum("ij,ij->i", rows, rows)
    return np.where(np.isfinite(squares), squares, np.inf)
