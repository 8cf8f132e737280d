"""The least-squares problem of one stage: whitened theta as a function of coordinates.

    |W (A(z(u)) - theta)|^2 + prior |u|^2

u are coordinates of all unknown points, z(u) their images, W whitens by the noise.
"""

import dataclasses

import numpy as np

from informed.attacks.inversion import gauss_newton
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.gauss_newton import Iterate, Linearised
from informed.attacks.inversion.noise import Independent, Projected
from informed.attacks.inversion.retraining import Retraining


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LeastSquares:
    """One stage's problem; see the module's docstring.

    Attributes:
      runs: the adversary's copy of A.
      theta: (params,), the released weights.
      space: coordinates of the unknown points.
      noise: model of the noise of theta, by which residuals are whitened.
      components: number of coordinates of each point that this stage moves.
      prior: weight of |u|^2.
    """

    runs: Retraining
    theta: np.ndarray
    space: Space
    noise: Independent | Projected
    components: int
    prior: float

    @property
    def columns(self) -> int:
        """Number of unknowns that this stage moves, over all points."""
        return len(self.space.labels) * self.components

    def residuals(self, us: np.ndarray) -> np.ndarray:
        """Whitened residuals (points, residuals) at several values of u."""
        labels = np.tile(self.space.labels, (len(us), 1))
        thetas = self.runs.thetas(self.space.images(us), labels)
        return self.noise.whiten(thetas - self.theta)

    def at(self, u: np.ndarray) -> Iterate:
        """The cost and residuals at u."""
        return gauss_newton.evaluate(self.residuals, u[None], self.prior)[0]

    def jacobian(self, u: np.ndarray) -> Linearised:
        """The whitened Jacobian at u, along the components of this stage."""
        basis = self.space.basis[: self.components]
        slopes = self.runs.slopes(self.space.images(u), self.space.labels, basis)
        return Linearised(
            self.noise.whiten(slopes.T).T, self.space.kept(self.components)
        )

    def krylov(self, u: np.ndarray, dimensions: int) -> Linearised:
        """The Jacobian at u in a Krylov space of few dimensions, by single products."""
        images, labels = self.space.images(u), self.space.labels

        def push(v: np.ndarray) -> np.ndarray:
            moved = self.space.images(u + v) - images
            return self.noise.whiten(self.runs.pushes(images, labels, moved))

        def pull(whitened: np.ndarray) -> np.ndarray:
            # Whitening by independent noise is its own transpose.
            pulled = self.runs.pulls(images, labels, self.noise.whiten(whitened))
            return (pulled.reshape(len(labels), -1) @ self.space.basis.T).ravel()

        slope = pull(self.residuals(u[None])[0])
        return gauss_newton.krylov(push, pull, slope, dimensions)
