"""What a fitted estimator holds besides its coefficients: records, and more."""

from typing import Any

import numpy as np

from artefacts import contents
from shadow import released


def keeps_records(result: Any, rows: np.ndarray) -> list[str]:
    """Arrays of an estimator that hold training records as some part of it got them.

    All attributes are walked, estimators in them, lists, dicts, trees of neighbours;
    arrays with equal contents are named once.

    Args:
      rows: (records, features), some of the training set, as they were given to `fit`.
    """
    if not released.is_estimator(result):
        return []
    name = type(result).__name__
    return [f"{name}.{held.path}" for held in contents.holdings(result, rows)]


def ships_more(result: Any) -> list[str]:
    """What a pickle of the estimator would hold besides its fitted arrays."""
    if not released.is_estimator(result):
        return []
    names = ("loss_curve_", "loss_", "validation_scores_", "_optimizer", "n_iter_")
    return sorted(
        {
            name
            for each in released.members(result)
            for name in names
            if hasattr(each, name)
        }
    )
