"""Attribute inference: the adversary knows part of the target and infers the rest.

`informed.experiment.pipeline` makes a `Known`, with a mask by `rows_of`, and attacks
get it in `threat.Knowledge`. At the known pixels the adversary sees how wrong a guess
is, and errors of neighbouring pixels correlate. So `Known.completed` corrects the
unknown pixels of learned attacks and the mean image, by a regression of errors there on
errors at known pixels. It is fitted on images that the adversary knows completely. For
the mean image this gives the prior's conditional mean, as in
`dp.priors.gaussian_given`. Inversion takes the known pixels as given.

Source: Balle et al. 2022, Section II-C.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Float32

from shadow import checks
from shadow.data import Examples

Guesses = Float[np.ndarray, "releases height width channels"]
Errors = Float[np.ndarray, "images height width channels"]
# The error of an attack that is given known pixels and doesn't use them, by its name.
UNUSED = "The attack {} makes no use of {{}} pixels; see its row."
# Ridges tried on left-out errors, in squared pixel values times their number: from
# nearly none to one that leaves the guess as it is.
_RIDGES = np.logspace(-4, 4, 9)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """Pixels, or columns, of the targets that the adversary knows.

    The mask is the same for every target; values are NaN off it.
    """

    mask: Bool[np.ndarray, "height width channels"]
    values: Float32[np.ndarray, "releases height width channels"]

    def __post_init__(self) -> None:
        if self.mask.dtype != bool or self.mask.shape != self.values.shape[1:]:
            raise checks.FieldError(
                "known",
                f"Expected {{}} with a boolean mask of shape {self.values.shape[1:]},"
                f" got {self.mask.dtype} and {self.mask.shape}.",
            )
        differ = int((np.isfinite(self.values) != self.mask[None]).sum())
        if differ:
            raise checks.FieldError(
                "known",
                "Expected {} to have finite values at the pixels of its mask, and NaN"
                f" elsewhere; {differ} differ.",
            )
        if not 0 < self.mask.sum() < self.mask.size:
            raise checks.FieldError(
                "known",
                f"Expected {{}} to be a part of the {self.mask.size} pixels, got"
                f" {int(self.mask.sum())}.",
            )

    @classmethod
    def of(cls, targets: Guesses | Examples, mask: Bool[np.ndarray, "..."]) -> "Known":
        """Return the known pixels of targets; those off the mask are dropped."""
        targets = targets.images if isinstance(targets, Examples) else targets
        values = np.where(mask[None], targets, np.nan).astype(np.float32)
        return cls(mask=mask, values=values)

    def at(self, release: int) -> "Known":
        """Return the known pixels of the target of one release."""
        return Known(mask=self.mask, values=self.values[release : release + 1])

    def put(self, guesses: Guesses) -> Guesses:
        """Return guesses with known pixels set to their values."""
        return np.where(self.mask[None], self.values, guesses).astype(guesses.dtype)

    def completed(self, guesses: Guesses, errors: Errors) -> Guesses:
        """Correct guesses at unknown pixels by their errors at known ones.

        Args:
          guesses: (releases, height, width, channels).
          errors: truth minus guess, of the same attack on images that the adversary
            knows completely.
        Returns: pixels in [0, 1]; known ones have their values.
        """
        from sklearn.linear_model import RidgeCV

        flat = errors.reshape(len(errors), -1).astype(np.float64)
        mask = self.mask.ravel()
        # No intercept: without errors at known pixels the guess stays.
        fit = RidgeCV(alphas=_RIDGES, fit_intercept=False)
        fit.fit(flat[:, mask], flat[:, ~mask])
        gaps = (self.values - guesses)[:, self.mask].astype(np.float64)
        completed = guesses.copy()
        moved = fit.predict(gaps).reshape(len(guesses), -1)
        completed[:, ~self.mask] += moved.astype(guesses.dtype)
        return self.put(np.clip(completed, 0, 1))


def rows_of(shape: tuple[int, ...], rows: int) -> Bool[np.ndarray, "..."]:
    """Return the mask of the first rows of pixels, for images of a shape.

    Raises: FieldError: not fewer rows than the image has.
    """
    checks.require("known", rows, 0 < rows < shape[0], f"in [1, {shape[0] - 1}]")
    mask = np.zeros(shape, bool)
    mask[:rows] = True
    return mask
