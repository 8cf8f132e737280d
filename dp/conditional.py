"""What some known coordinates of a normal target leave of the others.

Rounding counts as knowledge: a covariance that is left is never too large.
"""

import numpy as np
from jaxtyping import Bool, Float

from dp import checks


def left(
    covariance: np.ndarray, told: np.ndarray, free: np.ndarray
) -> tuple[np.ndarray, float]:
    """What the known coordinates leave of the covariance of the others.

    Returns: (matrix, slack); the Schur complement is at least matrix - slack I.
    Raises: FieldError: see `priors.gaussian_given`.
    """
    units = np.sqrt(np.diagonal(covariance)[told])
    alike = covariance[np.ix_(told, told)] / np.outer(units, units)
    across = covariance[np.ix_(told, free)] / units[:, None]
    own = np.sqrt(np.diagonal(covariance)[free])
    values, vectors = np.linalg.eigh(alike)
    # An eigenvalue may be less by `off`, a product with a vector more by `more`.
    rounding = 8 * len(units) * float(np.finfo(float).eps)
    off, more = rounding * float(values.max()), rounding * np.linalg.norm(own)
    along = vectors.T @ across
    inverted = values > 2 * off
    if np.any(np.abs(along[~inverted]) > rounding * own):
        raise checks.FieldError(
            "known",
            "Expected {} without coordinates that others of them determine up to"
            " rounding (as sums of columns in single precision do): what these tell of"
            " the rest is lost in it. Leave them out, or compute the covariance of what"
            " was rounded to float32 from the float64 values.",
        )
    along, least = along[inverted], values[inverted] - off
    lengths = np.linalg.norm(along, axis=1)
    slack = np.sum((2 * lengths * more + more**2) / least)
    slack += 8 * len(own) * np.finfo(float).eps * np.sum(own**2)
    explained = (along / least[:, None]).T @ along
    return covariance[np.ix_(free, free)] - explained, float(slack)


def told(known: np.ndarray, d: int) -> Bool[np.ndarray, " d"]:
    """Which coordinates are known. Raises FieldError: neither positions nor a mask."""
    if known.dtype == bool and known.shape == (d,):
        return known
    if known.size and (known.dtype.kind not in "iu" or known.ndim != 1):
        raise checks.FieldError(
            "known",
            f"Expected {{}} to be positions, integers, or a mask of {d} coordinates,"
            f" got {known.dtype} of shape {known.shape}.",
        )
    checks.require("known", known, (known >= 0) & (known < d), f"in [0, {d})")
    told = np.zeros(d, bool)
    told[known.astype(int)] = True
    return told


def checked(covariance: Float[np.ndarray, "d d"]) -> np.ndarray:
    """As float64. Raises FieldError unless positive semidefinite, up to rounding."""
    found = checks.some("covariance", checks.finite("covariance", covariance))
    square = found.ndim == 2 and len(found) == found.shape[1]
    slack = 1e-9 * np.abs(found).max()
    if not square or np.abs(found - found.T).max() > slack:
        raise checks.FieldError(
            "covariance", f"Expected {{}} to be symmetric, got shape {found.shape}."
        )
    least = float(np.linalg.eigvalsh(found).min())
    allowed = "to have no negative eigenvalue"
    checks.require("covariance", least, least >= -slack * len(found), allowed)
    return found
