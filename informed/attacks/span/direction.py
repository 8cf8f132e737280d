"""Read a missing row's direction off the known rows' span from a layer's weights.

Consider a dense layer W (outputs, features) of the inputs whose updates are sums of
gradients. With the initial weights subtracted, W P = alpha_z (P z)^T, where z is the
missing row, alpha_z has an entry per output, and P projects off the known rows' span.
So the right singular vector of W P is the direction of P z. k missing rows give rank k,
if there are enough outputs. `linear_fit` and `span_attack` begin with `read`; users
`rank` a gallery by it.

Source: ours; docs/span.md has the statement and its proof.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from informed.attacks.impossible import (
    LimitError,
    NoTraceError,
    ReconstructionImpossibleError,
)
from informed.attacks.quantisation import measure
from informed.attacks.span.basis import EPS, Basis
from informed.attacks.span.completion import SURE

# A singular value counts as a row if it is this many times the largest singular value
# that rounding noise has.
_ABOVE_NOISE = 2.0
# Rounding of training itself, as a multiple of the rounding of independent terms. All
# models of tests/informed/attacks/span stay below it.
_TRAINING = 32
# Shares (coefficients of rows), relative to the largest: below `_NONE` they are zero,
# and closer than `_EQUAL` they are equal. `_OFTEN` is the share of known rows that may
# be equal beyond chance; above `_COARSE`, chance makes equality too frequent to judge.
_NONE, _EQUAL, _OFTEN, _COARSE = 1e-7, 1e-10, 0.02, 0.1
# Largest number of known rows; their inner products take 3 GiB.
_MOST = 20_000
# A row whose part off the span is below this share of its length has no direction.
_THERE = 1e-6
# A row lies on the direction if its sine is within this many errors. In the tests one
# suffices; ten leave room for training that rounds more.
_WITHIN = 10.0
# Larger sines are no evidence, however many equations there are: rows aren't random.
_VAGUE = 0.1
# Rows projected together.
_BLOCK = 2048
_EPS32 = float(np.finfo(np.float32).eps)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Direction:
    """The directions of the missing rows off the span of the known ones."""

    basis: Basis  # the span of the known rows; all vectors here are in its units
    # An orthonormal basis of the missing rows' parts off the span. For one missing row
    # it is its direction, of unknown sign.
    vectors: Float[np.ndarray, "rank features"]
    singular: Float[np.ndarray, " values"]  # all singular values, the largest first
    error: float  # estimated sine of the angle to the true directions (Wedin)
    # Left singular vectors: directions of the missing rows' gradients in the outputs.
    outputs: Float[np.ndarray, "outputs unknown"]
    # Coefficients of the known rows; zeros for rows that are combinations of others.
    shares: Float[np.ndarray, "outputs known"]

    @property
    def rank(self) -> int:
        """Number of unknown rows that the layer shows: at most one per output."""
        return len(self.vectors)

    @property
    def equations(self) -> int:
        """Number of equations minus number of unknowns, for one missing row."""
        return self.basis.features - len(self.basis) - self.rank

    @functools.cached_property
    def alone(self) -> bool:
        """Whether the layer would have shown any further unknown row.

        It would if there are more free outputs than unknown rows, unless rows have
        equal weight; see `equal`.
        """
        values = np.linalg.svd(self.shares, compute_uv=False)
        # Outputs that always move together, such as those of two classes, count once.
        free = int((values > max(1e-6, self.error) * values.max(initial=0.0)).sum())
        return free > self.outputs.shape[1]

    def equal(self, rows: Float[np.ndarray, "rank features"]) -> bool:
        """Return whether training may have given the missing rows equal weight.

        A hinge loss and perceptrons do. Two missing rows of equal weight look like one
        row, their sum, and values may move between a missing row and a known one of
        its weight. `rows` are the missing rows, each up to a factor.
        """
        scaled = rows / self.basis.scale
        inside, _ = self.basis.split(scaled)
        along = scaled @ self.vectors.T
        weights = self.outputs * self.singular[: self.rank] @ np.linalg.pinv(along)
        known = self.shares[:, self.basis.kept] - weights @ inside
        sizes = np.abs(known).max(axis=0, initial=0.0)
        there = known[:, sizes > _NONE * sizes.max(initial=0.0)]
        if there.shape[1] < 2:
            return True
        there = there / sizes.max()
        level = max(_EQUAL, 10 * self.error)
        for mine in weights.T[:, :, None] / sizes.max():
            apart = np.minimum(np.abs(there - mine), np.abs(there + mine)).max(axis=0)
            if (apart <= level).any():
                return True
        # Opposite weights are equal weights of rows with the other label.
        largest = np.abs(there).argmax(axis=0)
        there = there * np.sign(there[largest, range(len(largest))])
        free = (np.linalg.svd(there, compute_uv=False) > 1e-6).sum()
        by_chance = there.shape[1] * level ** float(free)
        if by_chance > _COARSE:
            return True
        near = there[:, np.lexsort(np.round(there / level))]
        often = (np.abs(np.diff(near, axis=1)).max(axis=0) <= level).mean()
        return bool(often > _OFTEN + 5 * by_chance)

    @functools.cached_property
    def untrained(self) -> Int[np.ndarray, " named"]:
        """Positions of known rows that left no trace in the layer.

        Altered rows are among them, and rows that training omitted. Empty if there are
        no more outputs than unknown rows: no output tells rows apart.
        """
        if self.rank >= len(self.shares):
            return np.zeros(0, int)
        kept = self.basis.kept
        if not len(kept):
            return kept
        there = self.shares[:, kept]
        off = there - self.outputs @ (self.outputs.T @ there)
        size = np.linalg.norm(there, axis=0)
        level = max(self.error, 1e-9) * np.median(size)
        return kept[np.linalg.norm(off, axis=0) <= 100 * level]


def read(
    weights: Float[np.ndarray, "*outputs features"],
    known: Any,
    *,
    start: Float[np.ndarray, "*outputs features"] | None = None,
    deviation: float | Float[np.ndarray, " features"] | None = None,
) -> Direction:
    """Read the direction of the missing rows.

    Args:
      weights: released weights of the layer that takes the inputs.
      known: (known, features), D_- as that layer gets it.
      start: the layer's initial weights, or its weights after training on rows of the
        span, such as D_- with one of its rows duplicated; None: zeros.
      deviation: standard deviation of noise on the weights, overall or per column;
        None: that of their rounding, which is detected, and of training's own.
    Raises: ReconstructionImpossibleError: at most one dimension is left off the known
      rows' span, so it tells no rows apart. LimitError:
      more than 20,000 known rows. NoTraceError: nothing above rounding is off the span.
      ValueError: shapes that don't belong together.
    """
    weights = np.atleast_2d(np.asarray(weights))
    count = known.shape[0]
    if count > _MOST:
        raise LimitError(
            f"Expected at most {_MOST} known rows, got {count}: their inner"
            " products would not fit into memory. That is a limit of this tool."
        )
    written = measure(weights.astype(np.float64))
    basis = Basis.of(known)
    if weights.shape[1] != basis.features:
        raise ValueError(
            f"Expected known rows of {weights.shape[1]} features, as many as the layer"
            f" has, got {basis.features}."
        )
    if len(basis) >= basis.features - 1:
        raise ReconstructionImpossibleError(
            f"The known rows span {len(basis)} of {basis.features} dimensions: what is"
            " left has no direction that tells rows apart."
        )
    change = weights.astype(np.float64)
    change = change if start is None else change - np.asarray(start, np.float64)
    # Weights are combinations of rows, so they scale by the columns' units like rows.
    scaled = change / basis.scale
    shares, off = basis.split(scaled)
    upper, singular, right = np.linalg.svd(off, full_matrices=False)
    rounding = written.deviation
    if deviation is not None:
        rounding = np.full_like(change, deviation)
    sizes = np.sqrt(shares**2 @ (basis.rows**2) + scaled**2)
    # Weights stored in single precision may have been trained in it.
    eps = _EPS32 if written.name == "float32" else EPS
    training = _TRAINING * eps if deviation is None else 0.0
    entries = np.hypot(rounding / basis.scale, training * sizes)
    # The largest singular value of independent noise of this size.
    noise = float(np.sqrt((entries**2).mean())) * (
        np.sqrt(len(off)) + np.sqrt(off.shape[1])
    )
    rank = int((singular > _ABOVE_NOISE * noise).sum())
    if not rank:
        raise NoTraceError(
            "Off the span of the known rows the weights hold nothing above rounding"
            f" ({written.name}): no direction can be read there. Either training was"
            " never moved by the missing row, or that lies in the known rows' span, as"
            " behind a scaler, or its trace is lost in rounding."
        )
    coefficients = np.zeros((len(change), count))
    coefficients[:, basis.kept] = shares
    return Direction(
        basis=basis,
        vectors=right[:rank],
        singular=singular,
        error=min(1.0, noise / float(singular[rank - 1])),
        outputs=upper[:, :rank],
        shares=coefficients,
    )


class Ranking(NamedTuple):
    """A gallery of candidate rows, ranked by the angle to the missing rows."""

    order: Int[np.ndarray, " rows"]  # positions in the gallery, the nearest first
    # Of the angle between each row's part off the span and the direction; 1 if a row
    # lies in the span.
    sines: Float[np.ndarray, " rows"]
    names: Int[np.ndarray, " named"]  # positions of the rows that lie on the direction


def rank(direction: Direction, gallery: Float[np.ndarray, "rows features"]) -> Ranking:
    """Rank rows (rows, features) by the angle to the missing rows.

    A row is named only if its angle is within ten times the direction's error and a
    random row's wouldn't be. With several missing rows, it is named if it lies in their
    span. Equal rows, multiples, and rows that differ by a combination of known ones are
    named together.
    """
    sines = np.ones(gallery.shape[0])
    for at in range(0, len(sines), _BLOCK):
        rows = np.asarray(gallery[at : at + _BLOCK], np.float64)
        scaled = rows / direction.basis.scale
        off = direction.basis.off(scaled)
        length = np.linalg.norm(off, axis=1)
        along = off @ direction.vectors.T
        rest = np.linalg.norm(off - along @ direction.vectors, axis=1)
        there = length > _THERE * np.linalg.norm(scaled, axis=1)
        sines[at : at + _BLOCK] = np.where(
            there, rest / np.where(there, length, 1.0), 1.0
        )
    # Name no row if one of as many random rows could be within the error.
    within = max(_WITHIN * direction.error, EPS)
    names = np.flatnonzero(sines <= within)
    by_chance = np.log10(max(len(sines), 1)) + direction.equations * np.log10(within)
    if direction.equations <= 0 or within >= _VAGUE or by_chance > -SURE:
        names = names[:0]
    return Ranking(order=np.argsort(sines, kind="stable"), sines=sines, names=names)
