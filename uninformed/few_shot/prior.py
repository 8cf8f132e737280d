"""What other records of the same distribution tell of an embedding.

Encoders often end in a ReLU, so a coordinate is zero for many records and positive for
the others: each coordinate of a class is taken for zero with the share it has there,
else for normal. Between coordinates only the covariance within classes is used.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

# Least variance of a coordinate, as a share of the mean variance: none is certain.
_LEAST = 1e-4
# A coordinate that the records of a training set are all positive in with less than
# this probability tells how far they are moved together: the least of them is zero.
_RARE = 0.05
# Added to the covariance's diagonal, as a share of its mean: keeps it invertible.
_RIDGE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Prior:
    """Of the mean of a class's records in a training set.

    Attributes:
      mean: of coordinates that aren't zero.
      variance: of these.
      zero: probability that a coordinate is zero.
      sure: coordinates in which some class is zero almost surely.
      others: how the other coordinates' common shift follows theirs.
      loose: variance of the others that this leaves; zero in the sure ones.
    """

    mean: Float[np.ndarray, "classes dimensions"]
    variance: Float[np.ndarray, "classes dimensions"]
    zero: Float[np.ndarray, "classes dimensions"]
    sure: Bool[np.ndarray, " dimensions"]
    others: Float[np.ndarray, "unsure sure"]
    loose: Float[np.ndarray, " dimensions"]

    @property
    def expected(self) -> Float[np.ndarray, "classes dimensions"]:
        """Mean over all records of a class."""
        return (1 - self.zero) * self.mean


def fit(
    records: Float[np.ndarray, "records dimensions"],
    labels: Int[np.ndarray, " records"],
    *,
    classes: int,
    shots: int,
) -> Prior:
    """The prior by other records.

    Args:
      records: embeddings that the adversary has.
      labels: their classes.
      classes: number of classes.
      shots: records of a class that a training set has.
    Raises: ValueError: fewer than two records of a class.
    """
    counts = np.bincount(labels, minlength=classes)
    if len(counts) > classes or counts.min() < 2:
        raise ValueError(
            f"Expected at least two known records of each of {classes} classes, found"
            f" {counts.min()} of class {counts.argmin()}, labels up to {labels.max()}."
        )
    mean, variance, zero = [], [], []
    within = np.array(records, np.float64)
    for one in range(classes):
        chosen = labels == one
        of = within[chosen]
        positive = of != 0
        number = np.maximum(positive.sum(axis=0), 1)
        middle = (of * positive).sum(axis=0) / number
        mean.append(middle)
        variance.append((((of - middle) * positive) ** 2).sum(axis=0) / number)
        zero.append(1 - positive.mean(axis=0))
        within[chosen] = of - of.mean(axis=0)
    spread, none = np.array(variance), np.array(zero) ** shots
    # A mean of several is zero where all are; else its expectation is the class's.
    share = (1 - np.array(zero)) / np.maximum(1 - none, _LEAST)
    sure = np.prod(1 - none, axis=0) < _RARE
    covariance = within.T @ within / len(within)
    ridge = _RIDGE * np.trace(covariance) / len(covariance)
    across = covariance[np.ix_(sure, ~sure)]
    among = covariance[np.ix_(sure, sure)] + ridge * np.eye(sure.sum())
    others = np.linalg.solve(among, across).T
    loose = np.zeros(len(sure))
    left = np.diag(covariance)[~sure] - np.einsum("us,su->u", others, across)
    loose[~sure] = np.maximum(left, ridge) / shots
    return Prior(
        mean=share * np.array(mean),
        variance=np.maximum(spread, _LEAST * spread.mean()) / shots,
        zero=none,
        sure=sure,
        others=others,
        loose=loose,
    )
