"""Rows of a service, and public ones of the same distribution."""

import dataclasses

import numpy as np
from jaxtyping import Float
from sklearn import datasets

import shadow
from shadow.checks import FieldError
from uninformed.deletion.config import TABLES, DeletionConfig


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Rows with labels.

    Attributes:
      x: (rows, features), without a column of ones.
      y: (rows, outputs): one column of numbers, or one of each class (one-hot).
    """

    x: Float[np.ndarray, "rows features"]
    y: Float[np.ndarray, "rows outputs"]

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: np.ndarray) -> "Rows":
        """Some rows."""
        return Rows(self.x[index], self.y[index])

    def without(self, row: int) -> "Rows":
        """All but one."""
        return Rows(np.delete(self.x, row, 0), np.delete(self.y, row, 0))


@dataclasses.dataclass(frozen=True, eq=False)
class Sides:
    """Who has which rows.

    Attributes:
      service: the training set.
      public: the adversary's.
      held_out: nobody's; for accuracies and controls.
      targets: indices of service rows that are deleted.
      classes: whether labels are classes.
      shape: of an image, (height, width, channels); None: a table.
    """

    service: Rows
    public: Rows
    held_out: Rows
    targets: np.ndarray
    classes: bool
    shape: tuple[int, ...] | None


def split(config: DeletionConfig, data_dir: str | None = None) -> Sides:
    """Draw the sides.

    Tables are scaled by the public rows' mean and standard deviation, so that nothing
    of the service's is in the scale; images stay in [0, 1].

    Raises: FieldError: fewer rows than asked for.
    """
    generator = np.random.default_rng(config.seed)
    if config.data in TABLES:
        x, labels = getattr(datasets, f"load_{config.data}")(return_X_y=True)
        classes, shape = config.data != "diabetes", None
        rows = config.rows or len(x) * 2 // 5
        public = config.public or len(x) * 2 // 5
    else:
        examples = shadow.load(config.data, data_dir=data_dir)
        rows, public = config.rows or 2000, config.public or 2000
        chosen = generator.permutation(len(examples))[: rows + public + 1000]
        x = examples.images[chosen].reshape(len(chosen), -1).astype(np.float64)
        labels, classes, shape = examples.labels[chosen], True, examples.image_shape
    if rows + public > len(x) - 10:
        raise FieldError(
            "rows",
            f"Expected {{}} + public <= {len(x) - 10} of {config.data}, got {rows} +"
            f" {public}.",
        )
    order = generator.permutation(len(x))
    parts = np.split(order, [rows, rows + public])
    if shape is None:
        known = x[parts[1]]
        x = (x - known.mean(axis=0)) / np.where(known.std(axis=0) > 0, known.std(0), 1)
    if classes:
        y = np.eye(int(labels.max()) + 1)[labels]
    else:
        y = ((labels - labels[parts[1]].mean()) / labels[parts[1]].std())[:, None]
    whole = Rows(x, y)
    service, others, held_out = (whole.take(part) for part in parts)
    targets = generator.permutation(rows)[: min(config.targets, rows)]
    return Sides(service, others, held_out, targets, classes, shape)
