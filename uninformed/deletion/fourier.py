"""Random Fourier features, and a row from its features."""

import dataclasses

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True, eq=False)
class Fourier:
    """sqrt(2 / count) cos(x @ frequencies + phases); Rahimi and Recht 2007.

    Attributes:
      frequencies: (inputs, count).
      phases: (count,).
    """

    frequencies: Float[np.ndarray, "inputs count"]
    phases: Float[np.ndarray, " count"]

    @classmethod
    def draw(cls, inputs: int, count: int, scale: float, seed: int) -> "Fourier":
        """Of a Gaussian kernel of this length scale."""
        generator = np.random.default_rng(seed)
        return cls(
            generator.normal(size=(inputs, count)) / scale,
            generator.uniform(0, 2 * np.pi, count),
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """(rows, count)."""
        scale = np.sqrt(2.0 / len(self.phases))
        return scale * np.cos(x @ self.frequencies + self.phases)

    def invert(
        self,
        features: Float[np.ndarray, " count"],
        starts: np.ndarray,
        *,
        tries: int = 3,
    ) -> Float[np.ndarray, " inputs"]:
        """A row with these features: least squares, from the nearest of some rows.

        Args:
          features: of the row; a guess.
          starts: (rows, inputs), rows to begin at.
          tries: how many of them, the nearest first.
        """
        near = np.argsort(((self(starts) - features) ** 2).sum(axis=1))[:tries]
        found = [self._descend(features, starts[index]) for index in near]
        return min(found, key=lambda each: each[1])[0]

    def _descend(
        self, features: np.ndarray, x: np.ndarray, *, steps: int = 60
    ) -> tuple[np.ndarray, float]:
        """Levenberg-Marquardt from one row: (row, squared residual)."""
        scale = np.sqrt(2.0 / len(self.phases))
        left = self(x[None])[0] - features
        cost, damping = float(left @ left), 1e-3
        for _ in range(steps):
            waves = scale * np.sin(x @ self.frequencies + self.phases)
            slope = self.frequencies @ (waves * left)  # minus the gradient
            curved = (self.frequencies * waves**2) @ self.frequencies.T
            mean = float(np.trace(curved)) / len(x)
            step = np.linalg.solve(curved + damping * mean * np.eye(len(x)), slope)
            tried = self(x[None] + step[None])[0] - features
            if (new := float(tried @ tried)) < cost:
                done = cost - new <= 1e-12 * cost
                x, left, cost, damping = x + step, tried, new, damping / 5
                if done:
                    break
            elif (damping := damping * 5) > 1e6:
                break
        return x, cost


def median_distance(x: np.ndarray, seed: int) -> float:
    """The median distance between rows, a usual length scale."""
    some = x[np.random.default_rng(seed).permutation(len(x))[:200]]
    squares = ((some[:, None] - some[None]) ** 2).sum(axis=2)
    return float(np.sqrt(np.median(squares[squares > 0])))
