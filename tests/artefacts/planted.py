"""A planted row: everything else is known, and the row is compared with the answer."""

import warnings
from typing import Any

import numpy as np
from sklearn import datasets

from artefacts import Answer, reconstruct


def table(name, rows=None):
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x[:rows], y[:rows]


def fitted(estimator, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(x, y)


def answer(estimator, x, y, target) -> Answer:
    rest = np.arange(len(x)) != target
    return reconstruct(estimator, x[rest], None if y is None else y[rest])


def check(found: Answer, row) -> None:
    """Nothing determined is wrong, and no interval leaves the row out."""
    deviation = np.maximum(np.abs(row), 1.0)
    assert np.all(found.lower <= row)
    assert np.all(row <= found.upper)
    told = found.determined
    error = np.abs(np.asarray(found.value, float) - row)
    assert np.all(error[told] <= 1e-6 * deviation[told])


# The row that is missing from what is known.
AT = 9


def without(table: Any) -> Any:
    """A table without that row."""
    return np.delete(table, AT, axis=0)
