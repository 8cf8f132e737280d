"""Complete a direction to a record by training on guesses, where nothing cheaper does.

With n known records V, the direction w off their span leaves n + 1 numbers open, t and
c: the target is z = t w + V^T c. An error dz of a guess shifts the first layer by
alpha_z dz^T and by the response of the other records' alphas. alpha_z is read off the
span in each training, so this first part is known before any column of the Jacobian is
measured. The response depends on W z and V z only. We measure it along the directions
that matter most to these, and later trainings update it by secants (Broyden).
`span_attack` calls it for networks.

Steps are damped (Levenberg and Marquardt), in coordinates in which known records have
at most variance one. A guess near the discrete levels of its columns is rounded to
them; only such a row is certified. Source: ours; docs/span.md.
"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float

from informed.attacks.span.columns import Columns
from informed.attacks.span.completion import PREMISE, SURE, Completion, digits
from informed.attacks.span.direction import Direction
from informed.attacks.span.first_layers import SPREAD, Layer

# The constants below were chosen on letters of 784 pixels, 300 known, that a network of
# 32 tanh units was trained on: twelve targets, other seeds than those of the benchmark.
# Directions measured first; doubled whenever steps stall.
_MEASURED = 48
# Finite-difference step, in standard deviations of known records: the first, the factor
# by which it shrinks, and the smallest.
_MOVE, _LESS, _LEAST = 0.3, 0.3, 0.02
# Smallest standard deviation of a coordinate, relative to the largest. With 0.001 a
# search took 240 trainings at the median; with 0.1 to 1 it took 110.
_SMALLEST = 0.2
# The first damping, relative to the mean curvature; multiples of the last damping that
# are tried together; factors of the damping if none, the first or the second is best.
_FIRST, _DAMPINGS, _NEXT = 1e-3, (1.0, 0.03), (10.0, 0.3, 0.03)
# After this many steps that don't reduce the residual by this factor, measure more.
_STALLED, _GAIN = 5, 0.9
# If a complete new measurement leaves more than this share of the squared residual, try
# another start.
_HARDLY = 0.5
# Largest Jacobian in bytes; outputs of the layer are mixed at random to fit.
_BYTES = 1 << 28
# A guess is rounded to levels if its root mean square distance from them, in steps, is
# below this; by chance it is 0.29.
_NEAR = 0.15
# Largest squared residual of a row on levels, relative to that of one wrong level.
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
      direction: the direction of the one missing row, read from `layer`.
      theta: the released weights.
      known: rows (known, features) and labels (known,) of D_-.
      labels: labels that the target may have.
      trained: (rows (guesses, features), label) -> theta (guesses, params) of A.
      most: number of trainings after which no step is begun.
    Returns: the row, and the number of trainings used.
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
    why = "no row was found whose training gives the layer"
    if best.squared <= problem.enough:
        why = "training on it gives the layer, but nothing else says that it is the row"
    completion = Completion(
        row=problem.row(best.u),
        certified=False,
        determined=np.zeros(direction.basis.features, bool),
        why=why,
    )
    return completion, problem.count


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Guess:
    """A guess, and the layer after training on it."""

    u: np.ndarray  # the guess's coordinates
    residuals: np.ndarray  # those of the layer along the coordinates, outputs mixed
    share: np.ndarray  # (mixed outputs,), alpha_z

    @property
    def squared(self) -> float:
        """The squared norm of the residuals; infinite if training diverged."""
        value = float(self.residuals @ self.residuals)
        return value if np.isfinite(value) else np.inf


class _Problem:
    """The least-squares problem of the unknowns t and c; see the module's docstring."""

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
        # The distance of a known record from the span of the others.
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
        return self.count >= self._most

    def row(self, u: np.ndarray) -> np.ndarray:
        """Return the (features,) row at coordinates `u`."""
        return np.asarray((self._origin + self._axes @ u) @ self._frame)

    def train(self, rows: np.ndarray) -> np.ndarray:
        self.count += len(rows)
        return self._trained(rows, self.label)

    def guesses(self, us: np.ndarray) -> list[_Guess]:
        """Train on the rows at some coordinates, and compare with the release."""
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
        """Choose the label and the sign whose gradients align best with the release."""
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
        """Return coordinates of the label's known rows, or of all if it has none."""
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
        """Descend from one start; return the last guess, and its row on levels."""
        best = self.guesses(u[None])[0]
        damping, move, measured = _FIRST, _MOVE, min(len(u), _MEASURED)
        while True:
            before = best.squared
            jacobian = self._jacobian(best, measured, move)
            slow = 0
            while slow < _STALLED:
                # A start from which training diverges has no usable derivatives.
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
        # The part known in advance, alpha_z dz^T.
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
        # The residual of a row that is wrong by one step in one column.
        another = float(np.linalg.norm(best.share)) * columns.step.min()
        if not float((rest**2).sum()) <= min(self._rounding, _LESS_THAN * another**2):
            return None
        return Completion(
            row=near,
            certified=not self._layer.blind.any(),
            determined=~self._layer.blind,
            why="training on it gives the layer to its last digits, and it was found on"
            f" levels: {equations} columns more than unknowns",
            premise=PREMISE,
        )


def _steps(jacobian: np.ndarray, residuals: np.ndarray, damping: float) -> np.ndarray:
    """Return (dampings, unknowns) Levenberg-Marquardt steps."""
    values, axes = np.linalg.eigh(jacobian.T @ jacobian)
    values = np.maximum(values, 0.0)
    along = axes.T @ (jacobian.T @ residuals)
    damped = [values + damping * part * values.mean() for part in _DAMPINGS]
    return np.stack([-axes @ (along / divisor) for divisor in damped])
