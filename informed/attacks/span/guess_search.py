"""The n + 1 numbers that a direction leaves open, by training on guesses.

The target is z = t w + V^T c, with its direction w off the span and the known records
V. The first layer ends as W = s W_0 + sum_i alpha_i x_i^T + alpha_z z^T. So an error dz
of a guess shifts it by alpha_z dz^T and by the response of the other alphas. alpha_z is
read off the span in each training, so this first part is known before any column of the
Jacobian is measured. The response depends on W z and X z only. We measure it along the
directions that matter most to these, and later trainings update it by secants
(Broyden). If steps stall, more directions are measured.

Steps are damped (Levenberg and Marquardt), in coordinates in which known records have
variance one. A guess near the discrete levels of its columns is rounded to them.

Source: ours; docs/span.md.
"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float

from informed.attacks.span.columns import Columns
from informed.attacks.span.completion import SURE, Completion, digits
from informed.attacks.span.direction import Direction
from informed.attacks.span.first_layers import SPREAD, Layer

# The constants below were chosen on letters of 784 pixels, 300 known, that a network of
# 32 tanh units was trained on: twelve targets, other seeds than those of the benchmark.
# Directions that are measured first; twice as many whenever steps stall. With 40 to 96
# most targets take one or two measurements.
_MEASURED = 48
# How far a guess is moved to measure, in standard deviations of known records: first,
# by which factor less each time, and least.
_MOVE, _LESS, _LEAST = 0.3, 0.3, 0.02
# Least deviation of a coordinate, of the largest. With 0.001 a search took 240
# trainings at the median, as it strayed far along coordinates in which records hardly
# vary; with 0.1 to 1 it took 110.
_SMALLEST = 0.2
# The first damping, of the mean curvature; multiples of the last one that are tried
# together; and by what it is multiplied where none of them, or each of them, is best.
_FIRST, _DAMPINGS, _NEXT = 1e-3, (1.0, 0.03), (10.0, 0.3, 0.03)
# Steps without a tenth less of a residual, after which more is measured.
_STALLED, _GAIN = 5, 0.9
# Share of a squared residual that is left where measuring all again has hardly helped:
# then another start is better.
_HARDLY = 0.5
# Largest Jacobian: outputs of the layer are mixed at random to fewer.
_BYTES = 1 << 28
# Root mean square of distances from levels, in steps, for a guess to be put on them:
# chance brings 0.29.
_NEAR = 0.15
# Squared residual of the row on levels, at most: of that of a row on another level.
_LESS_THAN = 0.25

Trained = Callable[[np.ndarray, int], np.ndarray]


def search(
    direction: Direction,
    layer: Layer,
    theta: Float[np.ndarray, " params"],
    known: tuple[np.ndarray, np.ndarray],
    labels: list[int],
    trained: Trained,
    columns: Columns | None,
    most: int,
) -> tuple[Completion, int]:
    """Search for the row whose training gives the layer.

    Args:
      direction: of one missing row, off the span of the known rows.
      layer: that it was read from.
      theta: the release.
      known: rows (known, features) and labels (known,) of D_-.
      labels: that the target may have.
      trained: (rows (guesses, features), label) -> theta (guesses, params) of A.
      columns: what values the known rows' columns take; None: any.
      most: trainings after which no step is begun.
    Returns: the row, and how many trainings it took.
    """
    problem = _Problem(direction, layer, theta, known, trained, most)
    problem.begin(labels)
    levels = columns if columns is not None and columns.discrete.all() else None
    best = None
    for u in problem.starts():
        guess, certain = problem.descend(u, levels)
        if certain is not None:
            return certain, problem.count
        if best is None or guess.squared < best.squared:
            best = guess
        if problem.spent or best.squared <= problem.enough:
            break
    assert best is not None
    why = (
        "training on it gives the layer, but nothing else says that it is the row"
        if best.squared <= problem.enough
        else "no row was found whose training gives the layer"
    )
    completion = Completion(
        row=problem.row(best.u),
        certified=False,
        determined=np.zeros(direction.basis.features, bool),
        by="training",
        why=why,
    )
    return completion, problem.count


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Guess:
    """A guess that was trained on.

    Attributes:
      u: its coordinates.
      residuals: of the layer along the coordinates, outputs mixed.
      share: (mixed outputs,), alpha_z.
    """

    u: np.ndarray
    residuals: np.ndarray
    share: np.ndarray

    @property
    def squared(self) -> float:
        """The squared norm of the residuals; infinite where training diverged."""
        value = float(self.residuals @ self.residuals)
        return value if np.isfinite(value) else np.inf


class _Problem:
    """Least squares in the target's length off the span and its components in it.

    Attributes:
      enough: squared residual that rounding leaves.
      count: trainings so far;  label: that guesses are trained with.
    """

    def __init__(
        self,
        direction: Direction,
        layer: Layer,
        theta: np.ndarray,
        known: tuple[np.ndarray, np.ndarray],
        trained: Trained,
        most: int,
    ) -> None:
        self._trained, self._most, self.count, self.label = trained, most, 0, 0
        rows, self._labels = known
        basis, self._layer = direction.basis, layer
        self._released = layer.of(theta).astype(np.float64)
        spanning = np.vstack([rows[basis.kept], direction.vectors[0] * basis.scale])
        self._frame = np.linalg.qr(spanning.T)[0].T
        size = len(self._frame)
        inside = rows @ self._frame[:-1].T
        self._inside = inside
        variances, axes = np.linalg.eigh(np.atleast_2d(np.cov(inside, rowvar=False)))
        variances, axes = variances[::-1], axes[:, ::-1]
        deviations = np.sqrt(np.maximum(variances, _SMALLEST**2 * variances[0]))
        # How far a known record is off the span of the others.
        kept = inside[basis.kept]
        gram = kept @ kept.T
        gram += 1e-12 * np.trace(gram) * np.eye(len(gram)) / len(gram)
        self._length = float(np.median(1 / np.sqrt(np.diag(np.linalg.inv(gram)))))
        self._axes = np.zeros((size, size))
        self._axes[-1, 0] = self._length
        self._axes[:-1, 1:] = axes * deviations
        self._origin = np.zeros(size)
        units = len(self._released)
        fewer = int(np.clip(_BYTES // (8 * size**2), 1, units))
        self._mix = np.eye(units)
        if fewer < units:
            normal = np.random.default_rng(0).standard_normal((units, fewer))
            self._mix = np.linalg.qr(normal)[0].T
        noise = float((layer.deviation**2).mean())
        # Rounding along the coordinates, and of all weights of the layer.
        self.enough = fewer * size * noise / SPREAD**2 * 2.0
        self._rounding = units * len(layer.deviation) * noise

    @property
    def spent(self) -> bool:
        """Whether no more trainings are allowed."""
        return self.count >= self._most

    def row(self, u: np.ndarray) -> np.ndarray:
        """Return the (features,) row at some coordinates."""
        return np.asarray((self._origin + self._axes @ u) @ self._frame)

    def train(self, rows: np.ndarray) -> np.ndarray:
        """Train on (guesses, features) rows; return (guesses, params)."""
        self.count += len(rows)
        return self._trained(rows, self.label)

    def guesses(self, us: np.ndarray) -> list[_Guess]:
        """Train at some coordinates, and compare with the release."""
        guesses = []
        thetas = self.train(np.stack([self.row(u) for u in us]))
        for u, theta in zip(us, thetas, strict=True):
            weights = self._mix @ self._layer.of(theta).astype(np.float64)
            apart = (weights - self._mix @ self._released) @ self._frame.T
            changed = weights - self._mix @ self._layer.start.astype(np.float64)
            length = (self._origin + self._axes @ u)[-1]
            share = changed @ self._frame[-1] / (length or np.finfo(float).tiny)
            guesses.append(_Guess(u=u, residuals=apart.ravel(), share=share))
        return guesses

    def begin(self, labels: list[int]) -> None:
        """Take the label and the sign whose gradients point as the release's do."""
        changed = self._mix @ (self._released - self._layer.start)
        wanted = changed @ self._frame[-1]
        best, chosen = -1.0, (labels[0], 1.0)
        for label in labels:
            self._begin_at(label, 1.0)
            share = self.guesses(np.zeros((1, len(self._origin))))[0].share
            size = float(np.linalg.norm(share))
            along = float(share @ wanted) / size if size > 0 else 0.0
            if abs(along) > best:
                best, chosen = abs(along), (label, float(np.sign(along)) or 1.0)
        self._begin_at(*chosen)

    def _begin_at(self, label: int, sign: float) -> None:
        """Begin at the mean of a label's known rows, at their distance off the span."""
        self.label = label
        self._origin = np.append(self._members().mean(axis=0), sign * self._length)

    def _members(self) -> np.ndarray:
        """Return the label's known rows, or all where it has none, along the frame."""
        members = self._labels == self.label
        return self._inside[members] if members.any() else self._inside

    def starts(self) -> Iterator[np.ndarray]:
        """Yield the mean of the label's known rows, then each of these."""
        yield np.zeros(len(self._origin))
        inverse = np.linalg.inv(self._axes)
        for row in np.random.default_rng(0).permutation(self._members()):
            yield inverse @ (np.append(row, self._origin[-1]) - self._origin)

    def descend(
        self, u: np.ndarray, levels: Columns | None
    ) -> tuple[_Guess, Completion | None]:
        """Descend from one start; return the last guess, and a row on levels by it."""
        best = self.guesses(u[None])[0]
        damping, move, measured = _FIRST, _MOVE, min(len(u), _MEASURED)
        while True:
            before = best.squared
            jacobian = self._jacobian(best, measured, move)
            slow = 0
            while slow < _STALLED:
                # Where training diverges from a start, nothing leads away from it.
                if self.spent or not self.enough < best.squared < np.inf:
                    return best, None
                steps = _steps(jacobian, best.residuals, damping)
                tried = self.guesses(best.u + steps)
                for step, there in zip(steps, tried, strict=True):
                    if not np.isfinite(there.squared) or not step.any():
                        continue
                    missed = there.residuals - best.residuals - jacobian @ step
                    jacobian += np.outer(missed, step) / (step @ step)
                last, best = best, min([best, *tried], key=lambda guess: guess.squared)
                damping *= _NEXT[[last, *tried].index(best)]
                slow = 0 if best.squared < _GAIN**2 * last.squared else slow + 1
                if levels is not None and best is not last:
                    certain = self._on_levels(levels, best)
                    if certain is not None:
                        return best, certain
            finest = measured == len(u) and move == _LEAST
            if finest and best.squared > _HARDLY * before:
                return best, None
            measured, move = min(len(u), 2 * measured), max(move * _LESS, _LEAST)

    def _jacobian(self, best: _Guess, count: int, move: float) -> np.ndarray:
        """Measure the Jacobian at a guess along the directions that matter most."""
        size = len(self._axes)
        # The part that is known, alpha_z dz^T.
        outer = np.einsum("a,ij->aij", best.share, self._axes)
        jacobian = outer.reshape(-1, size)
        of_units = self._released @ self._frame.T @ self._axes
        main = np.linalg.svd(of_units, full_matrices=False)[2][: _MEASURED // 2]
        axes = np.eye(size)
        along = np.linalg.qr(np.vstack([axes[:1], main, axes[1:]]).T)[0].T[:count]
        moved = self.guesses(best.u + move * along)
        slopes = np.stack([guess.residuals - best.residuals for guess in moved]) / move
        jacobian += (slopes - along @ jacobian.T).T @ along
        return np.where(np.isfinite(jacobian), jacobian, 0.0)

    def _on_levels(self, columns: Columns, best: _Guess) -> Completion | None:
        """Round the guess to the nearest levels, if training on it gives the layer."""
        row = self.row(best.u)
        near = columns.rounded(row)
        free = (self._frame**2).sum(axis=0) > 1e-12
        apart = (np.abs(row - near) / columns.step)[free]
        distance = float(np.sqrt(np.mean(apart**2)))
        equations = len(apart) - len(best.u)
        if distance > _NEAR or digits(equations, distance) <= SURE:
            return None
        theta = self.train(near[None])[0]
        rest = self._layer.of(theta).astype(np.float64) - self._released
        # What a row would leave there that differs in one column by one step.
        another = float(np.linalg.norm(best.share)) * columns.step.min()
        if not float((rest**2).sum()) <= min(self._rounding, _LESS_THAN * another**2):
            return None
        return Completion(
            row=near,
            certified=True,
            determined=np.ones(len(near), bool),
            by="training",
            why="training on it gives the layer to its last digits, and it was found on"
            f" levels: {equations} columns more than unknowns",
        )


def _steps(jacobian: np.ndarray, residuals: np.ndarray, damping: float) -> np.ndarray:
    """Return (dampings, unknowns) steps of Levenberg and Marquardt."""
    values, axes = np.linalg.eigh(jacobian.T @ jacobian)
    values = np.maximum(values, 0.0)
    along = axes.T @ (jacobian.T @ residuals)
    level = values.mean()
    steps = [along / (values + damping * part * level) for part in _DAMPINGS]
    return np.stack([-axes @ step for step in steps])
