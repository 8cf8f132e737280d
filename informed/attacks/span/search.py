"""The n + 1 numbers that a direction leaves open, by training on guesses.

The target is z = t w + V^T c, w its direction off the span, V the known records. The
first layer ends as W = s W_0 + sum_i alpha_i x_i^T + alpha_z z^T. So a guess that is
off by dz is off by alpha_z dz^T there, and by what the other alphas answer. alpha_z is
read off the span of each training: the first part of the Jacobian is known before any
column is measured. The answer goes through what units see of the target, W z and X z,
and is measured along the directions that matter most to these; every later training
is a secant (Broyden), and where steps stall, more directions are measured.

Steps are damped (Levenberg and Marquardt), in coordinates in which known records have
variance one. A guess that comes near to levels is put on them.

Source: ours; docs/span.md.
"""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float

from informed.attacks.span.columns import Columns
from informed.attacks.span.completion import SURE, Completion, digits
from informed.attacks.span.direction import Direction
from informed.attacks.span.layers import SPREAD, Layer

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
    """The row whose training gives the layer, as nearly as it is found.

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
    space = _Space(direction, layer, theta, known)
    runs = _Runs(space, trained, most)
    space.begin(labels, runs)
    levels = columns if columns is not None and columns.discrete.all() else None
    best = None
    for u in space.starts(runs.label):
        here, found = _descended(space, runs, u, levels)
        if found is not None:
            return found, runs.count
        if best is None or here.squared < best.squared:
            best = here
        if runs.spent or best.squared <= space.enough:
            break
    assert best is not None
    why = (
        "training on it gives the layer, but nothing else says that it is the row"
        if best.squared <= space.enough
        else "no row was found whose training gives the layer"
    )
    found = Completion(
        row=space.row(best.u),
        certified=False,
        determined=np.zeros(direction.basis.features, bool),
        by="training",
        why=why,
    )
    return found, runs.count


def _descended(
    space: "_Space", runs: "_Runs", u: np.ndarray, levels: Columns | None
) -> tuple["_Guess", Completion | None]:
    """The guess of least residual from one start, and the row on levels beside it."""
    best = runs(u[None])[0]
    damping, move, measured = _FIRST, _MOVE, min(len(u), _MEASURED)
    while True:
        before = best.squared
        jacobian = _measured(space, runs, best, measured, move)
        slow = 0
        while slow < _STALLED:
            # Where training diverges from a start, nothing leads away from it.
            if runs.spent or not space.enough < best.squared < np.inf:
                return best, None
            steps = _steps(jacobian, best.residuals, damping)
            tried = runs(best.u + steps)
            for step, there in zip(steps, tried, strict=True):
                if not np.isfinite(there.squared) or not step.any():
                    continue
                missed = there.residuals - best.residuals - jacobian @ step
                jacobian += np.outer(missed, step) / (step @ step)
            last, best = best, min([best, *tried], key=lambda each: each.squared)
            damping *= _NEXT[[last, *tried].index(best)]
            slow = 0 if best.squared < _GAIN**2 * last.squared else slow + 1
            if levels is not None and best is not last:
                found = space.put_on(levels, best, runs)
                if found is not None:
                    return best, found
        finest = measured == len(u) and move == _LEAST
        if finest and best.squared > _HARDLY * before:
            return best, None
        measured, move = min(len(u), 2 * measured), max(move * _LESS, _LEAST)


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
        value = float(self.residuals @ self.residuals)
        return value if np.isfinite(value) else np.inf


class _Space:
    """Coordinates of the target: its length off the span, and components in it."""

    def __init__(
        self,
        direction: Direction,
        layer: Layer,
        theta: np.ndarray,
        known: tuple[np.ndarray, np.ndarray],
    ) -> None:
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
        self._most = units * len(layer.deviation) * noise

    def row(self, u: np.ndarray) -> np.ndarray:
        """(features,), the row at u."""
        return np.asarray(self._at(u) @ self._frame)

    def _at(self, u: np.ndarray) -> np.ndarray:
        return self._origin + self._axes @ u

    def guess(self, u: np.ndarray, theta: np.ndarray) -> _Guess:
        """What a training at u says."""
        weights = self._mix @ self._layer.of(theta).astype(np.float64)
        apart = (weights - self._mix @ self._released) @ self._frame.T
        changed = weights - self._mix @ self._layer.start.astype(np.float64)
        length = self._at(u)[-1]
        share = changed @ self._frame[-1] / (length or np.finfo(float).tiny)
        return _Guess(u=u, residuals=apart.ravel(), share=share)

    def begin(self, labels: list[int], runs: "_Runs") -> None:
        """Take the label and the sign whose gradients point as the release's do."""
        changed = self._mix @ (self._released - self._layer.start)
        wanted = changed @ self._frame[-1]
        nothing = np.zeros((1, len(self._origin)))
        best, chosen = -1.0, (labels[0], 1.0)
        for label in labels:
            runs.label = label
            self._begin_at(label, 1.0)
            share = runs(nothing)[0].share
            size = float(np.linalg.norm(share))
            along = float(share @ wanted) / size if size > 0 else 0.0
            if abs(along) > best:
                best, chosen = abs(along), (label, float(np.sign(along)) or 1.0)
        self._begin_at(*chosen)
        runs.label = chosen[0]

    def _begin_at(self, label: int, sign: float) -> None:
        """At the mean of a label's known rows, and as far off the span as they are."""
        self._origin = np.append(self._members(label).mean(axis=0), sign * self._length)

    def _members(self, label: int) -> np.ndarray:
        """The label's known rows, or all where it has none, along the frame."""
        members = self._labels == label
        return self._inside[members] if members.any() else self._inside

    def starts(self, label: int) -> Iterator[np.ndarray]:
        """The mean of the label's known rows, then one of these after the other."""
        yield np.zeros(len(self._origin))
        inverse = np.linalg.inv(self._axes)
        some = np.random.default_rng(0).permutation(self._members(label))
        for row in some:
            yield inverse @ (np.append(row, self._origin[-1]) - self._origin)

    def direct(self, share: np.ndarray) -> np.ndarray:
        """The part of the Jacobian that is alpha_z dz^T."""
        size = len(self._axes)
        whole = np.einsum("a,ij->aij", share, self._axes)
        return whole.reshape(-1, size)

    def directions(self) -> np.ndarray:
        """Orthonormal rows, by how much they matter to the answer of other records."""
        size = len(self._axes)
        seen = self._released @ self._frame.T @ self._axes
        seen = np.linalg.svd(seen, full_matrices=False)[2][: _MEASURED // 2]
        axes = np.eye(size)
        return np.linalg.qr(np.vstack([axes[:1], seen, axes[1:]]).T)[0].T

    def put_on(
        self, columns: Columns, best: _Guess, runs: "_Runs"
    ) -> Completion | None:
        """The guess on the levels next to it, if its training gives the layer."""
        row = self.row(best.u)
        near = columns.rounded(row)
        free = (self._frame**2).sum(axis=0) > 1e-12
        apart = (np.abs(row - near) / columns.step)[free]
        distance = float(np.sqrt(np.mean(apart**2)))
        equations = len(apart) - len(best.u)
        if distance > _NEAR or digits(equations, distance) <= SURE:
            return None
        theta = runs.trained(near[None])[0]
        rest = self._layer.of(theta).astype(np.float64) - self._released
        # What a row would leave there that differs in one column by one step.
        another = float(np.linalg.norm(best.share)) * columns.step.min()
        if not float((rest**2).sum()) <= min(self._most, _LESS_THAN * another**2):
            return None
        return Completion(
            row=near,
            certified=True,
            determined=np.ones(len(near), bool),
            by="training",
            why="training on it gives the layer to its last digits, and it was found on"
            f" levels: {equations} columns more than unknowns",
        )


class _Runs:
    """Trainings on guesses, counted."""

    def __init__(self, space: _Space, trained: Trained, most: int) -> None:
        self._space, self._trained, self._most = space, trained, most
        self.count, self.label = 0, 0

    @property
    def spent(self) -> bool:
        """Whether no more trainings are allowed."""
        return self.count >= self._most

    def trained(self, rows: np.ndarray) -> np.ndarray:
        """(guesses, params)"""
        self.count += len(rows)
        return self._trained(rows, self.label)

    def __call__(self, us: np.ndarray) -> list[_Guess]:
        rows = np.stack([self._space.row(u) for u in us])
        thetas = self.trained(rows)
        return [self._space.guess(u, t) for u, t in zip(us, thetas, strict=True)]


def _measured(
    space: _Space, runs: _Runs, best: _Guess, count: int, move: float
) -> np.ndarray:
    """The Jacobian at a guess, measured along the first directions."""
    jacobian = space.direct(best.share)
    along = space.directions()[:count]
    moved = runs(best.u + move * along)
    answers = np.stack([each.residuals - best.residuals for each in moved]) / move
    jacobian += (answers - along @ jacobian.T).T @ along
    return np.where(np.isfinite(jacobian), jacobian, 0.0)


def _steps(jacobian: np.ndarray, residuals: np.ndarray, damping: float) -> np.ndarray:
    """(dampings, unknowns), damped Gauss-Newton steps."""
    values, axes = np.linalg.eigh(jacobian.T @ jacobian)
    values = np.maximum(values, 0.0)
    along = axes.T @ (jacobian.T @ residuals)
    level = values.mean()
    each = [along / (values + damping * part * level) for part in _DAMPINGS]
    return np.stack([-axes @ step for step in each])
