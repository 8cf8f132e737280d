"""Artefacts and tables from files. Only skops files are read: a pickle runs code.

A skops file names the types it holds. What skops trusts by itself is read, and classes
that scikit-learn itself defines and computes with; anything else, functions among it,
is refused by name: a function could be one that runs code, a class one that opens a
file.
"""

import csv
import importlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from shadow import checks

# Packages of scikit-learn whose classes only compute: what estimators hold beside
# arrays (losses, trees, kernels, optimisers). Of utils its dictionary alone, and
# neither externals nor datasets.
_COMPUTING = (
    "_loss.", "calibration", "cluster.", "compose.", "covariance.",
    "cross_decomposition.",
    "decomposition.", "discriminant_analysis", "dummy", "ensemble.",
    "feature_extraction.",
    "feature_selection.", "frozen.", "gaussian_process.", "impute.",
    "isotonic", "kernel_approximation", "kernel_ridge", "linear_model.", "manifold.",
    "metrics.",
    "mixture.", "model_selection.", "multiclass", "multioutput", "naive_bayes",
    "neighbors.", "neural_network.", "pipeline", "preprocessing.", "random_projection",
    "semi_supervised.", "svm.", "tree.", "utils._bunch",
)  # fmt: skip
_PICKLES = (".pkl", ".pickle", ".joblib", ".sav", ".dill", ".cloudpickle")


def load_estimator(path: str | Path) -> Any:
    """The estimator in a skops file.

    Raises:
      FieldError: no such file; a pickle; a file that is no skops file; types that
        neither skops trusts nor scikit-learn computes with.
      ImportError: skops isn't installed.
    """
    path = Path(path)
    if path.suffix.lower() in _PICKLES:
        raise checks.FieldError(
            "model",
            f"Expected {{}} to be a skops file, got {path.name}: unpickling runs code"
            " that a file brings along. Where the model was made:"
            " `skops.io.dump(model, 'model.skops')`, or convert it there with `skops"
            " convert`.",
        )
    if not path.is_file():
        raise checks.FieldError(
            "model", f"Expected {{}} to be a file, found no {path}."
        )
    try:
        from skops import io
    except ImportError as error:
        raise ImportError(
            "Reading skops files needs skops: pip install"
            " 'informed-adversary[artefacts]'."
        ) from error
    try:
        unknown = io.get_untrusted_types(file=path)
        strangers = [each for each in unknown if not _is_harmless(each)]
        if strangers:
            raise checks.FieldError(
                "model",
                "Expected {} to hold scikit-learn's and numpy's classes, found"
                f" {', '.join(sorted(strangers))}. Attack the parts from Python:"
                " informed.reconstruct_sklearn.",
            )
        return io.load(path, trusted=unknown)
    except checks.FieldError:
        raise
    except Exception as error:
        # skops passes on what zipfile, json and numpy raise.
        raise checks.FieldError(
            "model",
            f"Expected {{}} to be a skops file, {path.name} can't be read as one:"
            f" {checks.first_line(error)}.",
        ) from error


def _is_harmless(name: str) -> bool:
    """Whether a dotted name is a class that scikit-learn computes with.

    skops calls what a file names with the file's own arguments. So a name counts where
    the class is written, not where it was imported: scikit-learn's modules import
    classes that open files, from NumPy and the standard library.
    """
    if name == "numpy.dtype":
        return True
    module, _, attribute = name.rpartition(".")
    inside = module.startswith(tuple(f"sklearn.{each}" for each in _COMPUTING))
    if not inside or ".tests" in module:
        return False
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    return (
        isinstance(found, type)
        and found.__module__ == module
        and found.__qualname__ == attribute
    )


def load_table(
    path: str | Path,
    label: str | None = None,
    *,
    field: str = "known",
    texts: Collection[str | int] = (),
    label_is_text: bool = False,
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """Known rows and labels from a CSV file with a header.

    Args:
      path: the CSV file; an empty cell is a missing value.
      label: the name of the column of labels; None: the last column; "": there is none.
      field: what errors call the file.
      texts: features whose cells stay texts, by name or by position among the features.
      label_is_text: whether labels stay texts.
    Returns: (known, features), float64, or object where cells are no numbers; True and
      False are truths, as pandas reads them; labels or None; the features' names.
    Raises: FieldError: no such file, no such column, lines of different lengths.
    """
    path = Path(path)
    if not path.is_file():
        raise checks.FieldError(field, f"Expected {{}} to be a file, found no {path}.")
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if line]
    if len(lines) < 2:
        raise checks.FieldError(
            field, f"Expected {{}} to have a header and rows, {path.name} has none."
        )
    header, body = lines[0], lines[1:]
    for number, line in enumerate(body, start=2):
        if len(line) != len(header):
            raise checks.FieldError(
                field,
                f"Expected {len(header)} cells on every line of {{}}, as in the header,"
                f" found {len(line)} on line {number}.",
            )
    wanted = header[-1] if label is None else label
    if wanted and wanted not in header:
        raise checks.FieldError(
            "label",
            f"Expected {{}} to be a column of {path.name}, got {wanted!r}."
            f"{checks.nearest(wanted, header)} Columns: {', '.join(header)}.",
        )
    at = header.index(wanted) if wanted else None
    columns = [j for j in range(len(header)) if j != at]
    names = tuple(header[j] for j in columns)
    cells = [[line[j] for line in body] for j in columns]
    kept = [name in texts or j in texts for j, name in enumerate(names)]
    each = [_column(*column) for column in zip(cells, kept, strict=True)]
    rows = _table(each, len(body))
    labels = None
    if at is not None:
        named = [line[at] for line in body]
        labels = np.array(named) if label_is_text else _numbers(named)
    return rows, labels, names


_TRUTHS = {"True": True, "False": False}


def _numbers(cells: list[str]) -> np.ndarray:
    """Truths, whole numbers, real numbers or texts, whatever they all are."""
    if set(cells) <= _TRUTHS.keys():
        return np.array([_TRUTHS[cell] for cell in cells])
    for kind in (np.int64, np.float64):
        try:
            return np.array([kind(cell) for cell in cells])
        except ValueError:
            continue
    return np.array(cells)


def _column(cells: list[str], is_text: bool) -> list[Any]:
    """The cells of one column: numbers, truths or texts; NaN where one is empty."""
    if not is_text:
        if set(cells) <= _TRUTHS.keys():
            return [_TRUTHS[cell] for cell in cells]
        try:
            return [float(cell) if cell else np.nan for cell in cells]
        except ValueError:
            pass
    return [cell if cell else np.nan for cell in cells]


def _table(columns: list[list[Any]], count: int) -> np.ndarray:
    """Rows; float64 where no column holds texts, else object."""
    table = np.empty((count, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column
    is_number = (isinstance(cell, (int, float)) for cell in table.flat)  # or a truth
    return table.astype(np.float64) if all(is_number) else table
