"""The deleted row from the difference of two models.

Both models minimise a sum of losses plus decay, so with H the Hessian at theta and z
what was deleted

    H (theta_without - theta) = gradient of z's loss,

exactly for squared errors, to first order else. An uninformed adversary takes H from
public rows, scaled by the number of the service's (which is taken to be known: models
are published with it, and only the decay's share depends on it). After a few gradient
steps the difference itself is that gradient. The first layer's part of it is

    (row, 1) times (derivative by the units), of rank one,

so its first singular vector is the row, and the entry of the intercept its scale.

An adversary who knows all other rows needs no second model: they sum to minus that
gradient.
"""

import numpy as np
from jaxtyping import Float

from uninformed.deletion.data import LabelledRows
from uninformed.deletion.services import Service

# Ways of deleting whose difference of models is the gradient divided by the Hessian.
CURVED = ("retrain", "newton")
# Share of the intercept in a unit vector below which it is rounding.
_LOST = 1e-12


def gradient_of_deleted(
    service: Service,
    difference: Float[np.ndarray, " params"],
    method: str,
    public: LabelledRows,
    count: int,
) -> Float[np.ndarray, " params"]:
    """The uninformed adversary's estimate, up to its scale.

    Args:
      service: the model: its theta, architecture, loss and decay.
      difference: theta without the row minus theta.
      method: how the row was deleted.
      public: the adversary's own rows.
      count: number of rows in the service's training set.
    """
    if method not in CURVED:
        return difference
    return service.curved(difference, public, count / len(public))


def informed_gradient(
    service: Service, others: LabelledRows
) -> Float[np.ndarray, " params"]:
    """The gradient of the one row that isn't known, from theta alone."""
    return -service.slope(others)


def row_of(
    service: Service, gradient: Float[np.ndarray, " params"], public: LabelledRows
) -> Float[np.ndarray, " inputs"]:
    """The row that a gradient is of.

    Where the intercept's entry is lost in rounding, the direction alone.
    """
    # The first layer's part, of rank one: (row, 1) times the derivative by the units.
    block = service.block(gradient)
    left = np.linalg.svd(block, full_matrices=False)[0][:, 0]
    row = left[:-1] / left[-1] if abs(left[-1]) > _LOST else left[:-1]
    if service.features is None:
        return row
    # No random feature is larger than this.
    limit = np.sqrt(2.0 / len(row))
    return service.features.invert(np.clip(row, -limit, limit), public.x)
