"""Kernel ridge regression in closed form, with leave-one-out predictions.

    f(x) = offset + sum_i w_i k(x, x_i),    k = (1 + d / width) ^ -1/2

with d the squared distance and width a multiple of its median: an inverse multiquadric.
`kernel` predicts images, labels and a guess's error, `second_look` weights from images,
`informed.attacks.inversion.starting_images` images to start from. The guess's error has
to be like one on a release, so each shadow model is predicted as if it had been left
out; the closed form gives all these predictions from one solve.
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Float32

from reconn import algebra

# The ridges that validation models choose from.
RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Regression:
    """A fitted regression, of outputs on features.

    Attributes:
      points: (models, features), minus `centre`.
      centre: (features,).
      width: the kernel's width, a squared distance.
      outputs: (models, outputs), the dual weights.
      offset: (outputs,), the mean of the fitted values.
    """

    points: np.ndarray
    centre: np.ndarray
    width: float
    outputs: np.ndarray
    offset: np.ndarray

    @classmethod
    def fit(
        cls, features: np.ndarray, values: np.ndarray, *, scale: float, ridge: float
    ) -> "Regression":
        """Fit float32 `features` to `values`, both (models, ...), in float64.

        The kernel's width is `scale` medians of the squared distances; `ridge` is added
        to its diagonal, which is 1.
        """
        centre, points, width, kernel, offset = gram(features, values, scale, ridge)
        outputs = algebra.solve(kernel, values - offset).astype(np.float32)
        return cls(points, centre, width, outputs, offset.astype(np.float32))

    @classmethod
    def fit_left_out(
        cls,
        features: np.ndarray,
        values: np.ndarray,
        *,
        scale: float,
        ridge: float,
        at: np.ndarray | None = None,
    ) -> tuple["Regression", Float[np.ndarray, "models outputs"]]:
        """Fit, and predict each model as if it had been left out.

        Returns: the regression; row i is the value at `at[i]` (None: at its features)
          of a regression that was fitted without model i, with the same centre and
          width.
        """
        centre, points, width, kernel, offset = gram(features, values, scale, ridge)
        count = len(values)
        # f_-i(x) = c + k K_-i^-1 (z_-i - c), with c the mean without z_i. Both products
        # with K_-i^-1 follow from K^-1 z and K^-1 1; the last column is that of ones.
        wanted = np.concatenate([values - offset, np.ones((count, 1))], axis=1)
        if at is None:
            # The residual of model i, left out, is w_i / K^-1[i, i].
            duals, diagonal = algebra.solve_with_diagonal(kernel, wanted)
            products = wanted - duals / diagonal[:, None]
        else:
            # Without model i the duals are w - K^-1[:, i] w_i / K^-1[i, i].
            inverse = algebra.inverse(kernel)
            duals, diagonal = inverse @ wanted, np.diag(inverse)
            across = similarity(squared_distances(at - centre, points), width)
            share = np.einsum("ij,ji->i", across, inverse) / diagonal
            products = across @ duals - share[:, None] * duals
        # The mean without model i, less the mean of all.
        moved = (offset - values) / max(count - 1, 1)
        left_out = offset + moved + products[:, :-1] - products[:, -1:] * moved
        outputs = duals[:, :-1].astype(np.float32)
        fitted = cls(points, centre, width, outputs, offset.astype(np.float32))
        return fitted, left_out

    def __call__(self, features: np.ndarray) -> Float[np.ndarray, "models outputs"]:
        """Return the outputs, in float64."""
        distances = squared_distances(features - self.centre, self.points)
        kernel = similarity(distances, self.width)
        return self.offset + kernel @ self.outputs.astype(np.float64)


def gram(
    features: np.ndarray, values: np.ndarray, scale: float, ridge: float = 0.0
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray, np.ndarray]:
    """Return centre, points minus it, width, k between points + ridge, and offset."""
    centre = features.mean(axis=0, dtype=np.float64).astype(np.float32)
    points = features - centre
    distances = squared_distances(points, points)
    width = scale * median_of(distances)
    kernel = similarity(distances, width)
    kernel[np.diag_indices(len(kernel))] += ridge
    return centre, points, width, kernel, values.mean(axis=0, dtype=np.float64)


def median_of(distances: Float[np.ndarray, "points points"]) -> float:
    """Return the median distance between points; 1 where all are the same."""
    upper = distances[np.triu_indices(len(distances), 1)]
    median = float(np.median(upper)) if len(upper) else 0.0
    return median or 1.0


def squared_distances(
    queries: Float32[np.ndarray, "queries features"],
    points: Float32[np.ndarray, "points features"],
) -> Float[np.ndarray, "queries points"]:
    """Return squared distances; products in float32, sums in float64."""
    distances = algebra.products(queries, points).astype(np.float64)
    distances *= -2
    distances += np.einsum("ij,ij->i", queries, queries, dtype=np.float64)[:, None]
    distances += np.einsum("ij,ij->i", points, points, dtype=np.float64)[None]
    return np.maximum(distances, 0, out=distances)


def similarity(distances: np.ndarray, width: float) -> np.ndarray:
    """Return the inverse multiquadric k; overwrites the distances."""
    distances /= width
    distances += 1
    np.sqrt(distances, out=distances)
    return np.reciprocal(distances, out=distances)


def squared_errors(
    features: np.ndarray,
    values: np.ndarray,
    unseen: np.ndarray,
    truth: np.ndarray,
    scale: float,
    *,
    onto: np.ndarray | float | None = None,
) -> Float[np.ndarray, " ridges"]:
    """Return squared errors on unseen models for every ridge, by one eigenbasis.

    Args:
      features, values: the rows that are fitted; see `Regression.fit`.
      unseen, truth: the rows on which errors are measured.
      onto: pixels that the prediction is added to. The sum is cut to [0, 1] before the
        error is taken, as in use, which removes much of the noise that a small ridge
        lets through. None: these aren't pixels, and nothing is cut.
    """
    centre, points, width, kernel, offset = gram(features, values, scale)
    spectrum, basis = np.linalg.eigh(kernel)
    across = similarity(squared_distances(unseen - centre, points), width) @ basis
    along = basis.T @ (values - offset)
    errors = []
    for ridge in RIDGES:
        predicted = offset + (across / (spectrum + ridge)) @ along
        predicted = predicted if onto is None else np.clip(onto + predicted, 0, 1)
        errors.append(np.sum(np.square(predicted - truth)))
    return np.array(errors)
