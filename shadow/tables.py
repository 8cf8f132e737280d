"""Tables as examples: a row is an "image" of shape (1, features, 1) in [0, 1].

A column of numbers is scaled from its range to [0, 1]; a column of words becomes one
feature a word, 1 where it applies. Ranges and words of the columns are taken for public
knowledge, as a data sheet tells them: they are read from the whole table, the targets'
rows included. `Table.features` undoes the scaling, so that a training function sees the
numbers as they are in the file.

Cells may be empty. A column of numbers in which some are has a second feature, 1 where
the number is missing, and `Table.features` gives a NaN there, in one column; in a
column of words, an empty cell is a word of its own.
"""

import csv
import dataclasses
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from shadow import checks, files
from shadow.data import Examples

LABELS = ("label", "target", "class", "y")
SUFFIX = ".csv"
_MOST_WORDS = 50  # of one column
MISSING = "(missing)"
EMBEDDINGS = "embeddings"
# Of the median range of an embedding's dimensions, which share one unit: a dimension
# with less is constant but for rounding. An encoder's dead outputs are 1e-32 of it.
_NARROW = 1e-6
# What an example holds in place of a number that is missing: the middle of the range.
_IN_PLACE = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
      name: the name of the column.
      low, high: the range of its numbers.
      words: the values of the column where it holds no numbers, in the order of its
        features.
      whole: whether all its numbers are integers.
      missing: whether it is of numbers, some of which are missing.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    words: tuple[str, ...] = ()
    whole: bool = False
    missing: bool = False

    @property
    def width(self) -> int:
        """Number of its features in an example."""
        return 2 if self.missing else max(1, len(self.words))

    @property
    def labels(self) -> tuple[str | None, ...]:
        """What each of its features says; None: the number itself."""
        return (None, MISSING) if self.missing else self.words or (None,)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A table with its columns.

    Attributes:
      examples: (rows, 1, features, 1) in [0, 1], and the labels.
      columns: the columns, in the order of their features.
      label: name of the column of labels.
      classes: the names of the labels, in the order of their numbers.
    """

    examples: Examples
    columns: tuple[Column, ...]
    label: str
    classes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features of an example."""
        return tuple(
            f"{c.name}={word}" if word is not None else c.name
            for c in self.columns
            for word in c.labels
        )

    @property
    def groups(self) -> np.ndarray:
        """(features,): the position of the column that each feature is of."""
        return np.repeat(np.arange(len(self.columns)), [c.width for c in self.columns])

    @property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """(features,) twice: the lowest value, and the width of the range."""
        low = [
            0.0 if word is not None else c.low
            for c in self.columns
            for word in c.labels
        ]
        high = [
            1.0 if word is not None else c.high
            for c in self.columns
            for word in c.labels
        ]
        return np.array(low), np.array(high) - np.array(low)

    @property
    def _missing(self) -> np.ndarray:
        """(features,) bool: features that say that a number is missing."""
        return np.array(
            [c.missing and word is not None for c in self.columns for word in c.labels]
        )

    def features(self, images: Any, numpy: Any = np) -> Any:
        """(rows, 1, features, 1) in [0, 1] -> (rows, columns) in units of the file.

        Args:
          numpy: numpy, or jax.numpy where `images` is traced.
        Returns: a column a number, a column a word; NaN where a number is missing.
        """
        low, width = self.ranges
        flat = numpy.reshape(images, (len(images), -1))
        values = flat * numpy.asarray(width)[None] + numpy.asarray(low)[None]
        absent = np.flatnonzero(self._missing)
        if not len(absent):
            return values
        marks = np.zeros(len(self._missing), int)  # where each number's mark is
        marks[absent - 1] = absent
        of_numbers = numpy.where(
            numpy.asarray(marks > 0)[None] & (flat[:, marks] >= _IN_PLACE),
            numpy.nan,
            values,
        )
        return of_numbers[:, np.flatnonzero(~self._missing)]

    def scaled(self, features: np.ndarray) -> np.ndarray:
        """(rows, columns) as `features` gives them -> (rows, 1, features, 1).

        NaN stands for a number that is missing, in columns where some are.
        """
        low, width = self.ranges
        kept = np.flatnonzero(~self._missing)
        columns = np.zeros((len(features), len(low)))
        columns[:, kept] = (features - low[kept]) / width[kept]
        for mark in np.flatnonzero(self._missing):
            missing = np.isnan(columns[:, mark - 1])
            columns[:, mark] = missing
            columns[missing, mark - 1] = _IN_PLACE
        return columns[:, None, :, None]

    def rows(self, images: Float[np.ndarray, "rows 1 features 1"]) -> list[dict]:
        """Each row as {column: number or word}; NaN where a number is missing."""
        values = self.features(np.asarray(images, np.float64))
        parsed = []
        for row in values:
            cells: dict[str, Any] = {}
            start = 0
            for column in self.columns:
                part = row[start : start + max(1, len(column.words))]
                start += len(part)
                if column.words:
                    cells[column.name] = column.words[int(part.argmax())]
                else:
                    cells[column.name] = float(part[0])
            parsed.append(cells)
        return parsed


def load_table(path: str | os.PathLike, *, label: str | None = None) -> Table:
    """Read a .csv file with a header.

    Args:
      path: the path of the file.
      label: name of the column of labels; None: the one that is called label, target,
        class or y, else the last.
    Raises: ValueError: no such column, empty labels, or labels that aren't classes;
      FileNotFoundError.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {path} to load a table from.")
    return table_of(_csv(file), label=label, name=file.name)


def holds_embeddings(path: str | os.PathLike) -> bool:
    """Whether a file is an .npz with an array called embeddings."""
    file = Path(path)
    if file.suffix != ".npz" or not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as arrays:
        return f"{EMBEDDINGS}.npy" in arrays.namelist()


def load_embeddings(path: str | os.PathLike) -> Table:
    """Read an .npz file with embeddings and labels; see `embeddings_of`."""
    return embeddings_of(files.read_arrays(path), Path(path).name)


def embeddings_of(arrays: Mapping[str, np.ndarray], name: str = EMBEDDINGS) -> Table:
    """A table of arrays embeddings (records, dimensions) and labels (records,).

    A dimension without a range is taken for constant.

    Args:
      arrays: by their names.
      name: the name of the table in messages.
    Raises: ValueError: arrays that are missing, or of other shapes; what `table_of`
      raises.
    """
    for wanted in (EMBEDDINGS, "labels"):
        if wanted not in arrays:
            raise ValueError(
                f"Expected {name} to hold the arrays {EMBEDDINGS} and labels, found"
                f" {', '.join(arrays)}."
            )
    embeddings, labels = (np.asarray(arrays[key]) for key in (EMBEDDINGS, "labels"))
    if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1] or not len(labels):
        raise ValueError(
            f"Expected {EMBEDDINGS} in {name} to be (records, dimensions) and labels"
            f" (records,), got {embeddings.shape} and {labels.shape}."
        )
    cells = {f"e{i}": column for i, column in enumerate(embeddings.T)}
    narrow = _NARROW * float(np.median(np.ptp(embeddings, axis=0)))
    return table_of({**cells, "label": labels}, label="label", name=name, narrow=narrow)


def table_of(
    cells: Mapping[str, Any],
    *,
    label: str | None = None,
    name: str = "table",
    narrow: float = 0.0,
) -> Table:
    """A table from its columns.

    Args:
      cells: column -> its values, numbers or words; all of one length.
      label: the name of the column of labels; None: see `load_table`.
      name: the name of the table in messages.
      narrow: a column of numbers whose range is no wider is taken for constant.
    Raises: ValueError, as `load_table`.
    """
    if label is None:
        known = [c for c in cells if c.lower() in LABELS]
        label = known[0] if known else list(cells)[-1]
    checks.choice("label", label, cells)
    classes, labels = _classes(label, cells[label], name)
    columns, parts = [], []
    for column, values in cells.items():
        if column == label:
            continue
        described, scaled = _column(column, values, name, narrow)
        columns.append(described)
        parts.append(scaled)
    if not parts:
        raise ValueError(f"Expected {name} to have columns beside {label!r}.")
    features = np.concatenate(parts, axis=1).astype(np.float32)
    return Table(
        examples=Examples(
            images=features[:, None, :, None],
            labels=labels,
            num_classes=len(classes),
            name=name,
        ),
        columns=tuple(columns),
        label=label,
        classes=classes,
    )


def _csv(file: Path) -> dict[str, list[str]]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = next(reader, [])
            rows = [row for row in reader if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected {file} to be a table with commas, in UTF-8: {error}."
        ) from error
    if len(set(header)) != len(header) or not header:
        raise ValueError(f"Expected {file} to begin with the names of its columns.")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise ValueError(
                f"Expected {len(header)} cells in every line of {file}, found"
                f" {len(row)} in line {number}."
            )
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}


def _numbers(values: Any) -> np.ndarray | None:
    """As floats, NaN where they are empty; None where one of them is a word."""
    if any(isinstance(value, str) and "_" in value for value in values):
        return None  # a code, though Python's numbers may have underscores
    try:
        return np.array(
            [np.nan if _is_empty(value) else float(value) for value in values]
        )
    except (TypeError, ValueError):
        return None


def _is_empty(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value is None or not value.strip()
    try:
        return bool(value != value)
    except TypeError:  # pandas' NA is neither
        return True


def _require_filled(column: str, values: Any, name: str) -> None:
    empty = [
        i
        for i, value in enumerate(values)
        if _is_empty(value) or str(value).strip().lower() == "nan"
    ]
    if empty:
        raise ValueError(
            f"Expected no empty labels in {name}, found {len(empty)} in the column"
            f" {column!r}, such as row {empty[0] + 1}. Drop these rows first."
        )


def _column(
    column: str, values: Any, name: str, narrow: float
) -> tuple[Column, np.ndarray]:
    """A column, and its features (rows, width) in [0, 1].

    Raises: ValueError: no cell is filled, infinite numbers, or too many words.
    """
    numbers = _numbers(values)
    if numbers is None:
        values = [MISSING if _is_empty(value) else str(value) for value in values]
        words = tuple(sorted(set(values)))
        if len(words) > _MOST_WORDS:
            raise ValueError(
                f"Expected at most {_MOST_WORDS} different words in the column"
                f" {column!r} of {name}, found {len(words)}. Leave it out, or"
                " number it."
            )
        marks = np.array([[v == word for word in words] for v in values], float)
        return Column(name=column, words=words), marks
    missing = np.isnan(numbers)
    there = numbers[~missing]
    if not len(there):
        raise ValueError(
            f"Expected numbers in the column {column!r} of {name}, found empty cells"
            " alone. Leave it out."
        )
    if not np.isfinite(there).all():
        raise ValueError(f"Expected finite numbers in the column {column!r} of {name}.")
    low, high = float(there.min()), float(there.max())
    if high - low <= narrow:
        numbers, high = (
            np.where(missing, np.nan, low),
            min(low + max(1.0, abs(low)), np.finfo(float).max),
        )
    scaled = np.clip((numbers - low) / (high - low), 0, 1)
    whole = bool(np.all(there == np.round(there)))
    described = Column(
        name=column, low=low, high=high, whole=whole, missing=bool(missing.any())
    )
    if not missing.any():
        return described, scaled[:, None]
    scaled = np.where(missing, _IN_PLACE, scaled)
    return described, np.stack([scaled, missing], axis=1)


def _classes(label: str, values: Any, name: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the classes, and each row's number."""
    _require_filled(label, values, name)
    numbers = _numbers(values)
    texts = [value.strip() for value in values if isinstance(value, str)]
    coded = any(text[:1] == "0" and text[1:2].isdigit() for text in texts)
    if numbers is not None and not coded:  # "01" and "1" are two codes
        known = np.unique(numbers)
        if not np.array_equal(known, np.round(known)) or len(known) > _MOST_WORDS:
            raise ValueError(
                f"Expected the column {label!r} of {name} to hold classes, found"
                f" {len(known)} different numbers. Regression isn't audited; cut it"
                " into classes, or name another column: --label."
            )
        names = tuple(f"{value:.0f}" for value in known)
        return names, np.searchsorted(known, numbers)
    every = [str(value).strip() for value in values]
    words = sorted(set(every))
    return tuple(words), np.searchsorted(words, every)
