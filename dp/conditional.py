"""The covariance of a normal prior given the coordinates that the adversary knows.

`priors.gaussian_given` calls this. Rounding counts as the adversary's knowledge: the
conditional covariance, less its slack, is never too large, so kappa is never too small.
"""

import numpy as np
from jaxtyping import Bool, Float

from dp import domain


def schur_complement(
    covariance: np.ndarray, known: np.ndarray, free: np.ndarray
) -> tuple[np.ndarray, float]:
    """Compute the covariance of `free` coordinates given `known` ones, both (d,) masks.

    Returns: (matrix, slack); the Schur complement is at least matrix - slack I.
    Raises: FieldError: see `priors.gaussian_given`.
    """
    units = np.sqrt(np.diagonal(covariance)[known])
    alike = covariance[np.ix_(known, known)] / np.outer(units, units)
    across = covariance[np.ix_(known, free)] / units[:, None]
    deviations = np.sqrt(np.diagonal(covariance)[free])
    values, vectors = np.linalg.eigh(alike)
    # Rounding may have made an eigenvalue too large by `off`, and a row of `along` too
    # short by `more`.
    rounding = 8 * len(units) * float(np.finfo(float).eps)
    off, more = rounding * float(values.max()), rounding * np.linalg.norm(deviations)
    along = vectors.T @ across
    inverted = values > 2 * off
    if np.any(np.abs(along[~inverted]) > rounding * deviations):
        raise domain.FieldError(
            "known",
            "Expected {} without coordinates that others of them determine up to"
            " rounding (as sums of columns in single precision do): what these tell of"
            " the rest is lost in it. Leave them out, or compute the covariance of what"
            " was rounded to float32 from the float64 values.",
        )
    along, least = along[inverted], values[inverted] - off
    lengths = np.linalg.norm(along, axis=1)
    slack = np.sum((2 * lengths * more + more**2) / least)
    slack += 8 * len(deviations) * np.finfo(float).eps * np.sum(deviations**2)
    explained = (along / least[:, None]).T @ along
    return covariance[np.ix_(free, free)] - explained, float(slack)


def known_mask(known: np.ndarray, d: int) -> Bool[np.ndarray, " d"]:
    """Return a mask of known coordinates from a mask or from positions."""
    if known.dtype == bool and known.shape == (d,):
        return known
    if known.size and (known.dtype.kind not in "iu" or known.ndim != 1):
        raise domain.FieldError(
            "known",
            f"Expected {{}} to be positions, integers, or a mask of {d} coordinates,"
            f" got {known.dtype} of shape {known.shape}.",
        )
    domain.require("known", known, (known >= 0) & (known < d), f"in [0, {d})")
    mask = np.zeros(d, bool)
    mask[known.astype(int)] = True
    return mask


def valid_covariance(covariance: Float[np.ndarray, "d d"]) -> np.ndarray:
    """Return a covariance as float64; raise unless positive semidefinite (rounded)."""
    matrix = domain.some("covariance", domain.finite("covariance", covariance))
    square = matrix.ndim == 2 and len(matrix) == matrix.shape[1]
    slack = 1e-9 * np.abs(matrix).max()
    if not square or np.abs(matrix - matrix.T).max() > slack:
        raise domain.FieldError(
            "covariance", f"Expected {{}} to be symmetric, got shape {matrix.shape}."
        )
    least = float(np.linalg.eigvalsh(matrix).min())
    allowed = "to have no negative eigenvalue"
    domain.require("covariance", least, least >= -slack * len(matrix), allowed)
    return matrix
