"""Learn how much gradient training leaves at its end, as a function of curvature.

At a release the gradient G, of the known records (g) and the target z, would be zero if
training had converged. In the eigenbasis of the Hessian, E[(v_i . G)^2] = f(lambda_i)
is a smooth function: steep directions converge first. It is learned from the
adversary's own models, whose z is known, and weights `stationary_attack`'s equations.
"""

import dataclasses

import numpy as np
import scipy.linalg
from jaxtyping import Float

# Smallest number of directions per mean: fewer follow f more closely, more cut noise.
_BIN = 60
# Largest number of such means.
_MOST_BINS = 60
# Smallest f relative to the largest, so that no direction gets unlimited weight.
_FLOOR = 1e-24


Models = Float[np.ndarray, "models params"]


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """The function f: log-linear between known curvatures, constant beyond."""

    curvatures: Float[np.ndarray, " k"]  # where f is known, ascending, > 0
    squares: Float[np.ndarray, " k"]  # f there: the mean square of G per direction

    def __call__(self, curvatures: np.ndarray) -> Float[np.ndarray, " params"]:
        """Interpolate f at the given curvatures."""
        at = np.log(np.maximum(curvatures, self.curvatures[0]))
        logs = np.interp(at, np.log(self.curvatures), np.log(self.squares))
        return np.exp(logs)

    @classmethod
    def learned(cls, curvatures: Models, gradients: Models) -> "Spread":
        """Learn f from own models' Hessian eigenvalues, and G in the eigenbases."""
        flat = np.abs(curvatures).ravel()
        flat = np.maximum(flat, 1e-12 * flat.max())
        order = np.argsort(flat)
        bins = max(1, min(_MOST_BINS, len(order) // _BIN))
        parts = np.array_split(order, bins)
        centres = np.array([np.exp(np.log(flat[part]).mean()) for part in parts])
        squares = np.array([(gradients.ravel()[part] ** 2).mean() for part in parts])
        squares = np.maximum(squares, _FLOOR * squares.max())
        squares = np.maximum(squares, np.finfo(float).tiny)
        # Steep directions converge first, so f falls with curvature.
        squares = np.maximum.accumulate(squares[::-1])[::-1]
        centres, kept = np.unique(centres, return_index=True)
        return cls(centres, squares[kept])


def eigenbasis(
    hessian: Float[np.ndarray, "params params"],
) -> tuple[Float[np.ndarray, " params"], Float[np.ndarray, "params params"]]:
    """Return eigenvalues, and eigenvectors in columns; may overwrite `hessian`."""
    return scipy.linalg.eigh(
        hessian, overwrite_a=True, check_finite=False, driver="evd"
    )
