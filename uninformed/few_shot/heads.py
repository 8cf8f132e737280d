"""A linear head by full-batch gradient descent, and the coefficients it gives records.

With records X (records, dimensions) the trained weights are (1 - rate decay)^steps W_0
+ A X, and the biases A 1: A (classes, records) depends on the records by their inner
products alone, but for W_0's share in the logits, which is small where W_0 is.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from shadow import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the head is trained; the adversary knows all of it.

    Attributes:
      classes: number of classes, and of the head's outputs.
      shots: records of each class.
      steps: of plain gradient descent on the mean cross-entropy of all records.
      learning_rate: of these steps.
      weight_decay: of weights and biases, as torch.optim.SGD has it.
      init_std: standard deviation of the initial weights, which nobody is told;
        biases begin at zero.
    """

    classes: int = 10
    shots: int = 1
    steps: int = 32
    learning_rate: float = 0.01
    weight_decay: float = 1e-5
    init_std: float = 2e-3

    def __post_init__(self) -> None:
        checks.at_least("classes", self.classes, 2)
        checks.at_least("shots", self.shots, 1)
        checks.at_least("steps", self.steps, 1)
        checks.positive("learning_rate", self.learning_rate)
        checks.at_least("weight_decay", self.weight_decay, 0)
        checks.positive("init_std", self.init_std)

    @property
    def kept(self) -> float:
        """What a step's decay leaves of the weights."""
        return 1 - self.learning_rate * self.weight_decay

    @property
    def noise(self) -> float:
        """Standard deviation of what training leaves of the initial weights."""
        return self.init_std * self.kept**self.steps


class Head(NamedTuple):
    """A released head: logits of an embedding x are `weights @ x + biases`."""

    weights: Float[np.ndarray, "classes dimensions"]
    biases: Float[np.ndarray, " classes"]


def train(
    records: Float[np.ndarray, "records dimensions"],
    labels: Int[np.ndarray, " records"],
    recipe: Recipe,
    rng: np.random.Generator,
) -> Head:
    """The head that a recipe makes of records, from weights that `rng` draws."""
    start = rng.normal(0, recipe.init_std, (recipe.classes, records.shape[1]))
    given, _ = coefficients(
        records @ records.T, labels, recipe, offset=records @ start.T
    )
    weights = recipe.kept**recipe.steps * start + given @ records
    return Head(weights, given.sum(axis=1))


def coefficients(
    products: Float[np.ndarray, "records records"],
    labels: Int[np.ndarray, " records"],
    recipe: Recipe,
    *,
    offset: Float[np.ndarray, "records classes"] | float = 0.0,
    along: Float[np.ndarray, "directions records records"] | None = None,
) -> tuple[
    Float[np.ndarray, "classes records"],
    Float[np.ndarray, "directions classes records"] | None,
]:
    """What training adds to the weights for each record.

    Args:
      products: inner products of the records.
      labels: their classes.
      recipe: of the training.
      offset: logits by the initial weights.
      along: directions in which the products move.
    Returns: the coefficients, and their derivatives along each direction.
    """
    rate, wanted = recipe.learning_rate / len(labels), np.eye(recipe.classes)[labels]
    given = np.zeros((recipe.classes, len(labels)))
    slopes = None if along is None else np.zeros((len(along), *given.shape))
    for step in range(recipe.steps):
        logits = (given @ products).T + given.sum(axis=1)
        logits = logits + recipe.kept**step * offset
        told = np.exp(logits - logits.max(axis=1, keepdims=True))
        told /= told.sum(axis=1, keepdims=True)
        if slopes is not None and along is not None:
            moved = (slopes @ products + given @ along).swapaxes(1, 2)
            moved = moved + slopes.sum(axis=2)[:, None, :]
            moved = told * (moved - (told * moved).sum(axis=2, keepdims=True))
            slopes = recipe.kept * slopes - rate * moved.swapaxes(1, 2)
        given = recipe.kept * given - rate * (told - wanted).T
    return given, slopes
