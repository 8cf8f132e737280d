"""Select first layers whose weights change by combinations of training records only.

Other layers leave the records' span, as under Adam, which updates by coordinate. Two
trainings show which do. `span_attack` calls `find` and reads the target from these
layers.
"""

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from informed.adversary_runs import adversary_runs
from informed.attacks.quantisation import measure
from informed.attacks.span.basis import Basis
from shadow.threat import Knowledge
from shadow.victims import Slice

# Largest share of training's change off the span of all rows. Training in single
# precision leaves 1e-5, Adam more than a tenth.
_OFF = 1e-3
# Bound on a release's rounding, as a multiple of that of the two trainings. On the
# networks of tests/informed/attacks/span/test_networks.py it is at most 3.
SPREAD = 5.0


@dataclasses.dataclass(kw_only=True, eq=False)
class Layer:
    """A first layer: its released weights, and those without the target."""

    part: Slice  # the layer's place in theta
    # Its weights after training on known records, one of them twice.
    start: Float[np.ndarray, "units features"]
    # Bound on the rounding error of each column's weights.
    deviation: Float[np.ndarray, " features"]
    transposed: bool = False  # whether theta stores (features, units)
    # Columns that training overlooks or overwrites.
    blind: Bool[np.ndarray, " features"]

    def of(self, theta: np.ndarray) -> np.ndarray:
        """Return the (units, features) weights, transposed if theta stores them so."""
        return _weights(self.part, theta, self.transposed)

    def released(self, theta: np.ndarray) -> "Layer":
        """Add the rounding of released weights to that of training."""
        rounding = measure(self.of(theta).astype(np.float64)).deviation
        mean = SPREAD * np.sqrt((rounding**2).mean(axis=0))
        return dataclasses.replace(self, deviation=np.hypot(self.deviation, mean))


def spanned(rows: int, features: int) -> str:
    """Return why D_- leaves no direction off its span; "" if it leaves some."""
    if rows + 2 < features:
        return ""
    return f"D_- has {rows} rows of {features} features: no direction is off their span"


def find(
    knowledge: Knowledge, known: np.ndarray, key: Array
) -> tuple[list[Layer], str]:
    """Return layers that stay in the span of the records, or why there are none.

    Training (A) is run twice on the known records D_-: with the first duplicated, and
    with another. Both leave the same initial weights off the span of D_-. A third run
    has a random record, which shows columns that training overlooks or overwrites.
    The reason is "" if there are layers.
    """
    fixed = knowledge.fixed
    assert fixed is not None
    if knowledge.algorithm is None:
        return [], "A isn't told"
    if len(known) < 2:
        return [], "D_- has fewer than two records"
    if why := spanned(*known.shape):
        return [], why
    start = knowledge.initialisation
    if start is not None and np.ndim(start) != 1:
        return [], "every release begins elsewhere"
    layout = knowledge.algorithm.layout(fixed)
    width = known.shape[1]
    parts = [p for p in layout if len(p.shape) == 2 and width in p.shape]
    if not parts:
        return [], "no dense layer meets the records"
    runs = adversary_runs(knowledge, jax.random.fold_in(key, 1), width=3)
    # Duplicating a copy of the first record would make no difference.
    others = (known != known[0]).any(axis=1) | (fixed.labels != fixed.labels[0])
    added = np.array([0, int(np.argmax(others)), 0])
    images, dark, probe = fixed.images[added, None], np.all(known == 0, axis=0), None
    if images[0].size == width:  # not rows of a table, which are encoded
        low, high = known.min(), known.max() if known.any() else 1.0
        probe = np.random.default_rng(0).uniform(low, high, width).astype(np.float32)
        images.reshape(3, -1)[2] = probe
    # Unknown randomness is drawn independently, so an unknown theta_0 shows.
    thetas = runs(images, fixed.labels[added, None], np.arange(3))
    layers, basis = [], Basis.of(known)
    for part, transposed in _orientations(parts, width):
        first, second, other = (_weights(part, theta, transposed) for theta in thetas)
        change = (first.astype(np.float64) - second) / basis.scale
        off, size = basis.off(change), float(np.linalg.norm(change))
        # Training changed nothing, or moved the layer off the span of its rows.
        if not size > 0 or not float(np.linalg.norm(off)) / size <= _OFF:
            continue
        free = max(1, width - len(basis))
        deviation = SPREAD * np.sqrt((off**2).sum() / (len(off) * free)) * basis.scale
        layers.append(
            Layer(
                part=part,
                start=first,
                deviation=deviation,
                transposed=transposed,
                blind=dark
                if probe is None
                else _overlooked(basis, probe, other.astype(np.float64) - first, dark),
            )
        )
    if layers:
        return layers, ""
    return [], (
        "its training leaves the span of its rows, as Adam's updates by coordinate do,"
        " or begins where nobody told: two trainings, each with another known record"
        " twice, differ off their span"
    )


def _overlooked(
    basis: Basis, record: np.ndarray, change: np.ndarray, dark: np.ndarray
) -> Bool[np.ndarray, " features"]:
    """Return columns in which the change of weights doesn't follow the added record.

    All of them, if one that isn't dark in D_- is among them: it distorts the others.
    """
    off, own = basis.off(change / basis.scale), basis.off(record[None] / basis.scale)[0]
    shown, lit = np.linalg.svd(off, full_matrices=False)[2][0], own[~dark]
    own *= shown[~dark] @ lit / (lit @ lit or 1.0)
    follows = np.abs(shown - own) <= _OFF * np.abs(own).max()
    return ~follows if follows[~dark].all() else np.ones_like(dark)


def _orientations(parts: list[Slice], width: int) -> Iterator[tuple[Slice, bool]]:
    """Yield parts with whether they are (features, units); square ones both ways."""
    for part in parts:
        for transposed, size in zip((True, False), part.shape, strict=True):
            if size == width:
                yield part, transposed


def _weights(part: Slice, theta: np.ndarray, transposed: bool) -> np.ndarray:
    weights = np.asarray(part.of(theta))
    return weights.T if transposed else weights
