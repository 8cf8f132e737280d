"""Tabular data as examples: a row is an "image" of shape (1, features, 1) in [0, 1].

Rows become images because attacks and shadow models take images. A column of numbers is
scaled from its range to [0, 1]; a column of words becomes one feature per word, 1 where
it applies. Ranges and words of the columns count as public, as in a data sheet: they
are read from the whole table, the targets' rows included. In a column of words, an
empty cell is a separate word; in a column of numbers it is an error. Audits make a
`Table` of .csv files or of columns in memory.
"""

import csv
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from shadow import checks
from shadow.data import Examples

LABELS = ("label", "target", "class", "y")  # names of a column of labels
SUFFIX = ".csv"
_MOST_WORDS = 50  # in one column
MISSING = "(missing)"  # the word for an empty cell


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A column of numbers from `low` to `high`, or of `words` in feature order."""

    name: str
    low: float = 0.0
    high: float = 1.0
    words: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """The number of its features in an example."""
        return max(1, len(self.words))

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The word of each of its features; None: a number."""
        return self.words or (None,)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A table: its examples, and its columns in the order of their features.

    `label` names the column of labels, `classes` the labels in the order of their
    numbers.
    """

    examples: Examples
    columns: tuple[Column, ...]
    label: str
    classes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features of an example."""
        return tuple(
            f"{c.name}={word}" if word is not None else c.name
            for c in self.columns
            for word in c.labels
        )

    @property
    def groups(self) -> np.ndarray:
        """The position of each feature's column, (features,)."""
        return np.repeat(np.arange(len(self.columns)), [c.width for c in self.columns])

    @property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """The lowest value and the width of the range of each feature, (features,)."""
        ends = [
            (c.low, c.high) if word is None else (0.0, 1.0)
            for c in self.columns
            for word in c.labels
        ]
        low, high = np.array(ends).T
        return low, high - low

    def features(self, images: Any, numpy: Any = np) -> Any:
        """Convert (rows, 1, features, 1) in [0, 1] to (rows, features) in file units.

        `numpy` is numpy, or jax.numpy where `images` is traced.
        """
        low, width = self.ranges
        flat = numpy.reshape(images, (len(images), -1))
        return flat * numpy.asarray(width)[None] + numpy.asarray(low)[None]

    def scaled(self, features: np.ndarray) -> np.ndarray:
        """Convert (rows, features) back to (rows, 1, features, 1)."""
        low, width = self.ranges
        return ((features - low) / width)[:, None, :, None]

    def rows(self, images: Float[np.ndarray, "rows 1 features 1"]) -> list[dict]:
        """Return each row as {column: number or word}."""
        ends = np.cumsum([column.width for column in self.columns])[:-1]
        parsed = []
        for row in self.features(np.asarray(images, np.float64)):
            cells: dict[str, Any] = {}
            for column, part in zip(self.columns, np.split(row, ends), strict=True):
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


def table_of(
    cells: Mapping[str, Any], *, label: str | None = None, name: str = "table"
) -> Table:
    """Make a table from its columns.

    Args:
      cells: column -> its values, numbers or words; all of one length.
      label: as in `load_table`.
      name: the name of the table in messages.
    Raises: ValueError, as `load_table`.
    """
    cells = {str(name): cells[name] for name in cells}  # also of pandas
    lengths = sorted({len(values) for values in cells.values()})
    if len(lengths) != 1 or not lengths[0]:
        raise ValueError(
            f"Expected {name} to have rows, as many in each column; got {lengths}."
        )
    if label is None:
        known = (c for c in cells if c.lower() in LABELS)
        label = next(known, list(cells)[-1])
    checks.choice("label", label, cells)
    classes, labels = _classes(label, cells[label], name)
    described = [_column(c, values, name) for c, values in cells.items() if c != label]
    if not described:
        raise ValueError(f"Expected {name} to have columns beside {label!r}.")
    columns, parts = zip(*described, strict=True)
    features = np.concatenate(parts, axis=1).astype(np.float32)
    return Table(
        examples=Examples(
            images=features[:, None, :, None],
            labels=labels,
            num_classes=len(classes),
            name=name,
        ),
        columns=columns,
        label=label,
        classes=classes,
    )


def _csv(file: Path) -> dict[str, list[str]]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = next(reader, [])
            numbered = [(reader.line_num, row) for row in reader if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"Expected {file} to be a table with commas, in UTF-8: {error}."
        ) from error
    if len(set(header)) != len(header) or not header:
        raise ValueError(f"Expected {file} to begin with the names of its columns.")
    for number, row in numbered:
        if len(row) != len(header):
            raise ValueError(
                f"Expected {len(header)} cells in every line of {file}, found"
                f" {len(row)} in line {number}."
            )
    return {name: [row[i] for _, row in numbered] for i, name in enumerate(header)}


def _numbers(values: Any) -> np.ndarray | None:
    """Return floats, NaN for empty cells; None where a cell is a word."""
    if any(isinstance(value, str) and "_" in value for value in values):
        return None  # a code; Python would read underscores as part of a number
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
    """Raise where a cell is empty or not a number."""
    is_empty = [_is_empty(v) or str(v).strip().lower() == "nan" for v in values]
    empty = np.flatnonzero(is_empty)
    if len(empty):
        raise ValueError(
            f"Expected no empty cells in the column {column!r} of {name}, found"
            f" {len(empty)}, such as row {empty[0] + 1}. Fill them in, or drop these"
            " rows."
        )


def _column(column: str, values: Any, name: str) -> tuple[Column, np.ndarray]:
    """Make a column, and its features (rows, width) in [0, 1]."""
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
    _require_filled(column, values, name)
    if not np.isfinite(numbers).all():
        raise ValueError(f"Expected finite numbers in the column {column!r} of {name}.")
    low, high = float(numbers.min()), float(numbers.max())
    if high == low:
        high = min(low + max(1.0, abs(low)), np.finfo(float).max)
    scaled = np.clip((numbers - low) / (high - low), 0, 1)
    return Column(name=column, low=low, high=high), scaled[:, None]


def _classes(label: str, values: Any, name: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of the classes, and each row's label."""
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
