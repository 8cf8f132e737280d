"""A threshold is the midpoint of two rows: is the missing row one of them?

scikit-learn sorts a node's rows by one feature, in float32, and splits between
neighbours a < b at a/2 + b/2, in float64 (`sklearn/tree/_splitter.pyx`,
node_split_best). With L the largest known value on the left and R the smallest on the
right:

    threshold = L/2 + R/2    the missing row isn't a neighbour: x <= L, or x >= R
    threshold > L/2 + R/2    x = 2 threshold - R, on the left
    threshold < L/2 + R/2    x = 2 threshold - L, on the right

The random splitter (extra trees) draws thresholds: they tell the side alone.
"""

import numpy as np

from artefacts.trees.bounds import Bounds, ContradictionError


def narrow(
    bounds: Bounds,
    feature: int,
    threshold: float,
    on_left: bool,
    largest_left: float,
    smallest_right: float,
) -> None:
    """Narrow the bounds of the only unknown row of a node by the node's threshold.

    Args:
      bounds: the missing row's bounds, narrowed in place.
      feature: the index of the feature that the node splits.
      threshold: the node's threshold, finite.
      on_left: whether the missing row went left.
      largest_left: L, the largest value of the known rows that went left; -inf: none
        did.
      smallest_right: R, the smallest value of the known rows that went right; +inf:
        none did.
    Raises: ContradictionError: no value of the row gives this threshold.
    """
    other = smallest_right if on_left else largest_left
    same = largest_left if on_left else smallest_right
    if not np.isfinite(other):
        raise ContradictionError(f"feature {feature}: a child without rows", feature)
    if np.isfinite(same) and same / 2 + other / 2 == threshold:
        if on_left:
            bounds.at_most(feature, same)
        else:
            bounds.at_least(feature, same)
        return
    try:
        value = partner(threshold, other)
    except ContradictionError as error:
        raise ContradictionError(str(error), feature) from None
    if value is None:
        # Rounding hides the partner: the side is all that is certain.
        bounds.side(feature, threshold, on_left)
        return
    outside = value > threshold if on_left else value <= threshold
    hidden = value <= same if on_left else value >= same
    if outside or (np.isfinite(same) and hidden):
        raise ContradictionError(f"feature {feature}: not the neighbour", feature)
    bounds.exactly(feature, value)


def partner(threshold: float, other: float) -> float | None:
    """The one float32 x with x/2 + other/2 = threshold; None if several.

    Raises: ContradictionError: there is none.
    """
    guess = np.float32(2.0 * threshold - other)
    near = (
        np.nextafter(guess, np.float32(-np.inf)),
        guess,
        np.nextafter(guess, np.float32(np.inf)),
    )
    fits = [float(x) for x in near if float(x) / 2 + other / 2 == threshold]
    if not fits:
        raise ContradictionError("no float32 is the neighbour")
    return fits[0] if len(fits) == 1 else None
