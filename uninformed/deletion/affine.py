"""Ridge and softmax regression, to their optimum; on any features.

theta minimises the sum of losses over rows plus decay / 2 |theta|^2. All weights decay,
the intercept's included. Features end with a column of ones.
"""

import dataclasses

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from jaxtyping import Float

Weights = Float[np.ndarray, "features outputs"]


@dataclasses.dataclass(frozen=True)
class Affine:
    """A loss on outputs that are linear in theta.

    Attributes:
      classes: softmax cross-entropy; else half the squared error.
      decay: lambda.
    """

    classes: bool
    decay: float

    def errors(self, theta: Weights, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(rows, outputs), the loss's derivative by the outputs."""
        outputs = f @ theta
        return (softmax(outputs) if self.classes else outputs) - y

    def loss(self, theta: Weights, f: np.ndarray, y: np.ndarray) -> float:
        """With the decay."""
        outputs = f @ theta
        if self.classes:
            top = outputs.max(axis=1, keepdims=True)
            total = np.log(np.exp(outputs - top).sum(axis=1)) + top[:, 0]
            fit = float((total - (outputs * y).sum(axis=1)).sum())
        else:
            fit = 0.5 * float(((outputs - y) ** 2).sum())
        return fit + 0.5 * self.decay * float((theta**2).sum())

    def gradient(self, theta: Weights, f: np.ndarray, y: np.ndarray) -> Weights:
        """Sum over rows, without the decay."""
        return f.T @ self.errors(theta, f, y)

    def curved(self, theta: Weights, f: np.ndarray, v: Weights) -> Weights:
        """The Hessian of the rows' losses, without the decay, times v."""
        pushed = f @ v
        if self.classes:
            shares = softmax(f @ theta)
            pushed = shares * (pushed - (shares * pushed).sum(axis=1, keepdims=True))
        return f.T @ pushed

    def newton(
        self, theta: Weights, f: np.ndarray, y: np.ndarray, *, steps: int = 50
    ) -> Weights:
        """Newton's steps until the gradient is at rounding, or that many."""
        size = 1e-11 * (1.0 + np.abs(f).sum() / len(f))
        for _ in range(steps):
            slope = self.gradient(theta, f, y) + self.decay * theta
            if np.abs(slope).max() <= size:
                break
            step = self._solve(theta, f, -slope)
            before, scale = self.loss(theta, f, y), 1.0
            while steps > 1 and scale > 1e-6:
                if self.loss(theta + scale * step, f, y) <= before + 1e-12 * abs(
                    before
                ):
                    break
                scale /= 2
            theta = theta + scale * step
        return theta

    def _solve(self, theta: Weights, f: np.ndarray, right: Weights) -> Weights:
        """(Hessian + decay)^-1 right."""
        features, outputs = theta.shape
        if not self.classes:
            system = f.T @ f + self.decay * np.eye(features)
            return scipy.linalg.cho_solve(scipy.linalg.cho_factor(system), right)

        def product(v: np.ndarray) -> np.ndarray:
            v = v.reshape(features, outputs)
            return (self.curved(theta, f, v) + self.decay * v).ravel()

        size = features * outputs
        operator = scipy.sparse.linalg.LinearOperator(
            (size, size), matvec=product, dtype=np.float64
        )
        found, _ = scipy.sparse.linalg.cg(
            operator, right.ravel(), rtol=1e-9, maxiter=4 * min(size, 250)
        )
        return found.reshape(features, outputs)

    def fit(self, f: np.ndarray, y: np.ndarray) -> Weights:
        """The optimum."""
        start = np.zeros((f.shape[1], y.shape[1]))
        return self.newton(start, f, y)


def softmax(outputs: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    shares = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def with_ones(x: np.ndarray) -> np.ndarray:
    """Rows with a last column of ones."""
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
