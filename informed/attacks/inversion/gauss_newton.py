"""Least squares by Gauss-Newton where the Jacobian is very expensive.

`solving` and `stationary_attack` call it, each with its own residuals and slopes.

- Several dampings of a step are evaluated at once, as one batch of training runs: those
  around the previous best, and others only if none helps.
- Broyden's update keeps the Jacobian useful after a step. A new one costs as much as
  dozens of steps. It is computed only when a step with the old one gains less than a
  new one did, relative to its cost.
- The Jacobian may be approximate, or known only on a subspace: steps are judged by the
  function itself.

Dampings are relative to the squared residual, which makes convergence fast at the end
and steps short at the beginning (Levenberg-Marquardt after Fan and Yuan, 2005).
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

Directions = Float[np.ndarray, "some unknowns"]
Function = Callable[[np.ndarray], np.ndarray]
# Dampings of a step, relative to the squared residual.
DAMPINGS = 10.0 ** np.arange(-7, 3)
# Dampings whose steps are evaluated together, as one batch of runs.
AT_ONCE = 4
# Columns of a Jacobian that cost as much as a step, if all dampings are tried.
_COLUMNS = 12.0
# If a step divides the cost by less than this factor, compute a new Jacobian.
_LEAST_GAIN = 1.05
# Largest number of steps with one Jacobian.
_MOST_STEPS = 30
# Directions with a smaller undetermined share count as determined.
_NEGLIGIBLE = 1e-6
# Shorter steps of u don't change float32 images, so they give no slope.
_SMALLEST_STEP = 1e-9


@dataclasses.dataclass(frozen=True)
class Linearised:
    """Slopes of residuals along some directions (orthonormal rows)."""

    matrix: Float[np.ndarray, "residuals some"]
    directions: Directions


@dataclasses.dataclass(frozen=True)
class Iterate:
    """Unknowns u, residuals there, and their cost |residuals|^2 + prior |u|^2."""

    u: Float[np.ndarray, " unknowns"]
    residuals: Float[np.ndarray, " residuals"]
    cost: float


def evaluate(residuals: Function, us: np.ndarray, prior: float) -> list[Iterate]:
    """Evaluate at us (points, unknowns); the cost is infinite if training diverged."""
    values = residuals(us)
    costs = np.sum(values**2, axis=1) + prior * np.sum(us**2, axis=1)
    costs = np.where(np.isfinite(costs), costs, np.inf)
    return [Iterate(u, r, float(c)) for u, r, c in zip(us, values, costs, strict=True)]


def minimise(
    residuals: Function,
    linearise: Callable[[np.ndarray], Linearised],
    start: Iterate,
    *,
    steps: int,
    enough: float,
    give_up: float,
    reach: float = np.inf,
    prior: float = 0.0,
    slopes: Linearised | None = None,
    settle: Callable[[Iterate], Iterate] | None = None,
    price: float | None = None,
    most: int = _MOST_STEPS,
) -> tuple[Iterate, "Slopes"]:
    """Minimise |residuals(u)|^2 + prior |u|^2 over start + span of the directions.

    Args:
      residuals: us (points, unknowns) -> (points, residuals), float64.
      linearise: u (unknowns,) -> derivatives there.
      steps: largest number of Jacobians; each may serve several cheap steps.
      enough: cost at which the search stops.
      give_up: least factor by which the steps with a Jacobian divide the cost.
      reach: points with a larger |u| than this and the start's are scaled down to it.
      slopes: derivatives at the start; None: not computed yet.
      settle: new best point -> the same or a better one; None: no such refinement.
      price: the cost of a Jacobian, in steps; None: by its columns.
      most: largest number of steps with one Jacobian.
    Returns: the best point, and the latest derivatives.
    """
    here = start
    known = Slopes(linearise(here.u) if slopes is None else slopes)
    farthest = max(reach, np.linalg.norm(here.u))
    taken, jacobians, damping = 0, 1, len(DAMPINGS) // 2
    useful, before = _LEAST_GAIN, here.cost
    while here.cost > enough:
        # Gauss-Newton steps with all dampings, scaled down to the reach.
        us = here.u + known.moves(here, prior)
        us /= np.maximum(1, np.linalg.norm(us, axis=1, keepdims=True) / farthest)
        best, damping = _least(residuals, us, prior, damping, here.cost)
        gain = here.cost / best.cost if best.cost > 0 else np.inf
        if gain > 1:
            # Broyden's update, by the step that was taken.
            moved = known.directions @ (best.u - here.u)
            known.update(moved, best.residuals - here.residuals)
            last, here = here, best if settle is None else settle(best)
            if np.array_equal(here.u, last.u):
                break  # `settle` went back, so no step leads away
        if not taken:
            # A cheap step must gain as much per cost as this one did.
            paid = len(known.directions) / _COLUMNS if price is None else price
            useful = max(gain ** (1 / (1 + paid)), _LEAST_GAIN)
        taken += 1
        # Compute a new Jacobian if the old one no longer helps. Gains and differences
        # are NaN where training diverges.
        if not gain >= useful or taken == most:
            if jacobians == steps or not before - give_up * here.cost >= 0:
                break
            known, taken, jacobians = Slopes(linearise(here.u)), 0, jacobians + 1
            before = here.cost
    return here, known


def _least(
    residuals: Function, us: np.ndarray, prior: float, near: int, cost: float
) -> tuple[Iterate, int]:
    """Return the point of least cost among us, one per damping, and its index.

    Four around `near` are tried, and others only as long as none is below `cost`: where
    the best of four is at their edge, they move with it at the next step.
    """
    tried = dict[int, Iterate]()
    nearest = sorted(range(len(us)), key=lambda number: abs(number - near + 0.5))
    for numbers in (nearest[i : i + AT_ONCE] for i in range(0, len(us), AT_ONCE)):
        tried |= zip(numbers, evaluate(residuals, us[numbers], prior), strict=True)
        best = min(tried, key=lambda number: tried[number].cost)
        if tried[best].cost < cost:
            break
    return tried[best], best


class Slopes:
    """A Jacobian on a subspace, changed in place by `set` and Broyden's `update`."""

    def __init__(self, linearised: Linearised) -> None:
        self.directions = linearised.directions
        self.matrix = without_overflow(linearised.matrix)
        self.gram = self.matrix.T @ self.matrix
        # Broyden's update gives slopes to directions that had none.
        self._first_gram = self.gram.copy()

    def weakest(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return unit vectors of u on which residuals depended least, before updates.

        Also returns the current slopes (residuals, directions) along each.
        """
        _, rotation = np.linalg.eigh(self._first_gram)
        least = rotation[:, :count]
        return least.T @ self.directions, self.matrix @ least

    def set(self, directions: Directions, along: np.ndarray) -> None:
        """Replace the slopes along orthonormal directions by measured ones."""
        inside = self.directions @ directions.T
        self.matrix += (along - self.matrix @ inside) @ inside.T
        self.gram = self.matrix.T @ self.matrix

    def without(self, directions: Directions) -> "Slopes":
        """Restrict the slopes to the part of the subspace orthogonal to directions."""
        inside = self.directions @ directions.T
        others = np.linalg.qr(inside, mode="complete")[0][:, inside.shape[1] :]
        slopes = Slopes(Linearised(self.matrix @ others, others.T @ self.directions))
        slopes._first_gram = others.T @ self._first_gram @ others
        return slopes

    def moves(self, here: Iterate, prior: float) -> np.ndarray:
        """Return the Gauss-Newton steps of all dampings, (dampings, unknowns)."""
        slope = self.matrix.T @ here.residuals + prior * (self.directions @ here.u)
        spectrum, rotation = np.linalg.eigh(self.gram)
        damped = np.maximum(spectrum, 0)[None] + prior + DAMPINGS[:, None] * here.cost
        steps = -((rotation.T @ slope)[None] / damped) @ rotation.T
        return steps @ self.directions

    def posterior_variances(
        self, outputs: Float[np.ndarray, "part outputs"]
    ) -> Float[np.ndarray, "parts outputs"]:
        """Return variances of v @ outputs for each of the parts v of u.

        Laplace's approximation of the posterior: residuals have unit noise and u a
        standard normal prior, so the covariance of u is (J^T J + I)^-1.
        """
        spectrum, rotation = np.linalg.eigh(self.gram)
        shares = 1 / (1 + np.maximum(spectrum, 0))
        along = rotation.T @ self.directions
        parts = np.split(along, along.shape[1] // len(outputs), axis=1)
        prior = np.sum(outputs**2, axis=0)
        variances = []
        for part in parts:
            inside = (part @ outputs) ** 2
            outside = np.maximum(prior - inside.sum(axis=0), 0)
            variances.append(outside + shares @ inside)
        return np.stack(variances)

    def untold(self) -> tuple[Directions, Float[np.ndarray, " some"]]:
        """Return the directions that residuals don't fully determine, with shares.

        u minus its posterior mean is the sum, over these, of share times the part of u
        along the direction; the share is 1 if residuals don't depend on it at all.
        """
        spectrum, rotation = np.linalg.eigh(self.gram)
        shares = 1 / (1 + np.maximum(spectrum, 0))
        kept = shares > _NEGLIGIBLE
        count = len(self.directions)
        beyond = np.linalg.qr(self.directions.T, mode="complete")[0][:, count:].T
        inside = rotation[:, kept].T @ self.directions
        shares = np.concatenate([shares[kept], np.ones(len(beyond))])
        return np.concatenate([inside, beyond]), shares

    def conditioned(
        self,
        outputs: Float[np.ndarray, "unknowns outputs"],
        known: Bool[np.ndarray, " outputs"],
        gaps: Float[np.ndarray, " known"],
        variance: float,
    ) -> tuple[Float[np.ndarray, " outputs"], Float[np.ndarray, " outputs"]]:
        """Condition u @ outputs on its known entries, of values with `variance`.

        `gaps` are the known values minus those at u.
        Returns: the change of the posterior mean, and the remaining variances.
        """
        spectrum, rotation = np.linalg.eigh(self.gram)
        explained = 1 - 1 / (1 + np.maximum(spectrum, 0))
        along = (rotation.T @ self.directions) @ outputs
        covariance = outputs.T @ outputs - along.T @ (explained[:, None] * along)
        between = covariance[known]
        inside = between[:, known] + variance * np.eye(int(known.sum()))
        gain = np.linalg.solve(inside, between).T
        variances = np.diag(covariance) - np.sum(gain * between.T, axis=1)
        return gain @ gaps, np.maximum(variances, 0)

    def update(self, moved: np.ndarray, change: np.ndarray) -> None:
        """Apply Broyden's smallest change of the Jacobian that explains a step."""
        squared = moved @ moved
        if squared < _SMALLEST_STEP**2:
            return
        error = change - self.matrix @ moved
        along = moved / squared
        cross = np.outer(self.matrix.T @ error, along)
        self.gram += cross + cross.T + (error @ error) * np.outer(along, along)
        self.matrix += np.outer(error, along)


def without_overflow(slopes: np.ndarray) -> np.ndarray:
    """Copy slopes, with zeros in rows that overflow; for `shared_measurements` too."""
    finite = np.isfinite(slopes).all(axis=1, keepdims=True)
    return np.where(finite, slopes, 0.0)


def krylov(
    push: Function, pull: Function, slope: np.ndarray, dimensions: int
) -> Linearised:
    """Differentiate on the Krylov space of J^T J and a gradient.

    LSQR would search the same space. We keep its basis, so that every damping can be
    tried and Broyden's method can update it.

    `push` is v -> J v, `pull` r -> J^T r, `slope` J^T residuals. The space has fewer
    `dimensions` if it is exhausted.
    """
    directions: list[np.ndarray] = []
    columns: list[np.ndarray] = []
    following = slope
    while len(columns) < dimensions:
        length = np.linalg.norm(following)
        # Gram-Schmidt twice, since once leaves rounding along earlier directions.
        for _ in range(2):
            for direction in directions:
                following = following - (direction @ following) * direction
        rest = np.linalg.norm(following)
        if rest <= 1e-10 * length:
            break
        directions.append(following / rest)
        columns.append(push(directions[-1]))
        following = pull(columns[-1])
    if not directions:
        nothing = np.zeros((1, len(slope)))
        return Linearised(np.zeros((len(push(nothing[0])), 1)), nothing)
    return Linearised(np.stack(columns, axis=1), np.stack(directions))
