"""Rows of a service, and public ones of the same distribution."""

import dataclasses

import numpy as np
from jaxtyping import Float
from sklearn import datasets

import shadow
from shadow.checks import FieldError
from uninformed.deletion.config import TABLES, DeletionConfig


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows with labels.

    Attributes:
      x: features of each row (rows, features), without a column of ones.
      y: labels (rows, outputs): one column of numbers, or one of each class (one-hot).
    """

    x: Float[np.ndarray, "rows features"]
    y: Float[np.ndarray, "rows outputs"]

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: np.ndarray) -> "LabelledRows":
        """The rows at these indices."""
        return LabelledRows(self.x[index], self.y[index])

    def without(self, row: int) -> "LabelledRows":
        """All rows but one."""
        return LabelledRows(np.delete(self.x, row, 0), np.delete(self.y, row, 0))


@dataclasses.dataclass(frozen=True, eq=False)
class Sides:
    """Who has which rows.

    Attributes:
      service: the service's training set.
      public: the adversary's rows.
      held_out: nobody's rows, for accuracies and controls.
      targets: indices of the service's rows that are deleted, (targets,).
      classes: whether labels are classes rather than numbers.
      shape: (height, width, channels) of an image; None: rows are of a table.
    """

    service: LabelledRows
    public: LabelledRows
    held_out: LabelledRows
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
    whole = LabelledRows(x, y)
    service, others, held_out = (whole.take(part) for part in parts)
    targets = generator.permutation(rows)[: min(config.targets, rows)]
    return Sides(service, others, held_out, targets, classes, shape)
