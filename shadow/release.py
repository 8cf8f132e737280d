"""What the developer publishes of trained models: all that an attack ever gets to see.

A release is made out of theta by a view (`shadow.views`): all weights, some layers, the
weights in fewer bits, or the models' answers to queries. Whatever the view leaves out
is not in the release, so that no attack has to hide it from itself.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from shadow import checks
from shadow.views import EVERYTHING, View

Values = Float[np.ndarray, "releases values"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """What is published of some models.

    Attributes:
      values: (releases, values), what is seen of each model. The rows are separate
        games that share D_- and A; each has a target of its own.
      view: the function of theta that the values are; public.
      deviations: standard deviations, of the same shape, of what publishing added to
        the values, such as rounding; None: nothing.
    Raises: FieldError: another shape, NaN or infinity.
    """

    values: Values
    view: View = EVERYTHING
    deviations: Values | None = None

    def __post_init__(self) -> None:
        for name in ("values", "deviations"):
            found = getattr(self, name)
            if found is None:
                continue
            if np.ndim(found) != 2:
                raise checks.FieldError(
                    name,
                    "Expected {} of a release of shape (releases, params), got"
                    f" {np.shape(found)}.",
                )
            finite = np.isfinite(found).all(axis=1)
            if not finite.all():
                raise checks.FieldError(
                    name,
                    f"Expected finite {{}}, found NaN or infinity in {np.sum(~finite)}"
                    f" of {len(found)} releases, such as number {finite.argmin()}.",
                )
        if self.deviations is not None and self.deviations.shape != self.values.shape:
            raise checks.FieldError(
                "deviations",
                f"Expected {{}} of shape {self.values.shape}, one per value, got"
                f" {self.deviations.shape}.",
            )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def weights(self) -> Values:
        """Theta of each model, (releases, params), where all of it is published.

        Raises: FieldError: it isn't.
        """
        if not self.view.whole:
            raise checks.FieldError(
                "view",
                f"Expected a release of all weights, got one of {self.view.what}; this"
                " attack is white-box.",
            )
        return self.values


def publish(
    weights: Float[np.ndarray, "models params"], view: View = EVERYTHING
) -> Release:
    """The release of some models under a view.

    Args:
      weights: theta of each model.
      view: the view of theta that is published; default: everything.
    Raises: FieldError: NaN or infinity in what is published.
    """
    return Release(values=view(weights), view=view, deviations=view.deviations(weights))
