"""Derivatives of a training run that JAX can't differentiate, by finite differences.

`derivatives.retraining_of` returns a `Repeated` for it. Each column of the Jacobian is
one more training, with the unknown point moved a little along one direction of the
basis. The move balances curvature and rounding. Once, at the first images, we measure
r, how far the weights move if the images' last digits change, and s, how far per unit
of the image. If the curvature is about s, the best move is about sqrt(r / s). Errors
matter little: the solver judges steps by training, and updates slopes by secants.
"""

import numpy as np

from informed.attacks.inversion.retraining import Basis, Labels, Retraining, Unknowns

# Length of the move that measures the slope of theta, in pixel values.
_PROBE = 1e-2
# Bounds of the moves of finite differences, in pixel values.
_SMALLEST, _LARGEST = 1e-4, 1e-1
# Relative size of the last digits of the float32 images that A is trained on.
_LAST_DIGITS = 2.0**-23


class Repeated(Retraining):
    """A as the adversary runs it, differentiated by repeated training."""

    _move: float | None = None

    def slopes(self, images: Unknowns, labels: Labels, basis: Basis) -> np.ndarray:
        """Take forward differences: one training per column, and one more."""
        if self._move is None:
            self._move = self._balanced_move(images, labels)
        unknown, count = len(images), len(basis)
        lengths = np.linalg.norm(basis, axis=1)
        steps = self._move / np.maximum(lengths, np.finfo(float).tiny)
        moved = np.repeat(images[None].astype(np.float64), unknown * count + 1, axis=0)
        for point in range(unknown):
            rows = slice(1 + point * count, 1 + (point + 1) * count)
            along = (steps[:, None] * basis).reshape(count, *images.shape[1:])
            moved[rows, point] += along
        thetas = self.thetas(moved, np.repeat(labels[None], len(moved), axis=0))
        differences = thetas[1:] - thetas[0]
        return (differences / np.tile(steps, unknown)[:, None]).T

    def _balanced_move(self, images: Unknowns, labels: Labels) -> float:
        """Measure the length of moves that balances curvature and rounding."""
        rng = np.random.default_rng(0)
        direction = rng.standard_normal(images.shape)
        direction /= np.linalg.norm(direction)
        tried = np.repeat(images[None].astype(np.float64), 4, axis=0)
        tried[1] += _PROBE * direction
        tried[2:] *= 1 + _LAST_DIGITS * rng.standard_normal(tried[2:].shape)
        thetas = self.thetas(tried, np.repeat(labels[None], len(tried), axis=0))
        apart = np.linalg.norm(thetas[1:] - thetas[0], axis=1)
        slope = max(apart[0] / _PROBE, np.finfo(float).tiny)
        move = float(np.sqrt(apart[1:].max() / slope))
        return float(np.clip(move, _SMALLEST, _LARGEST))
