"""Whether a training leaves its weights in the span of its rows: tried, not looked up.

An estimator is fitted to a few random rows with its own settings. What is off their
span then tells: plain, averaged and quasi-Newton updates leave rounding; Adam, an L1
penalty, and whatever else acts on each coordinate by itself leave a good part.
"""

import warnings
from typing import Any

import numpy as np
import sklearn.base

from informed.attacks.impossible import LimitError
from informed.attacks.span.basis import Basis
from shadow import checks

# Of the weights' length: what may lie off the span. All that are sums of gradients
# stay below it; the mildest of the others that were tried, SGD with an elastic net of
# 1 % L1, leaves 2e-4.
_OFF = 1e-8
# Random rows of each class, so that cross-validation has some in every fold; more where
# these are too few.
_OF_A_CLASS, _MORE = 12, 5
# Random rows of a regression.
_ROWS = 40


def of_estimator(estimator: Any) -> str:
    """Fit a copy to random rows.

    Args:
      estimator: fitted, with `coef_`.
    Returns: "", or why its weights can't be read off the span, in a sentence.
    Raises: LimitError: it can't be fitted to random rows, so that nothing is known.
    """
    why = ""
    for times in (1, _MORE):
        try:
            return _of_fitted(estimator, times)
        except (ValueError, TypeError, ArithmeticError) as error:
            why = checks.first_line(error)
    raise LimitError(f"it can't be fitted to random rows: {why}")


def _of_fitted(estimator: Any, times: int) -> str:
    """See `of_estimator`; `times` as many rows."""
    rng = np.random.default_rng(0)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        outputs = np.shape(estimator.coef_)
        many = outputs[0] if len(outputs) == 2 else 0
        rows = times * _ROWS
        # Positive, as counts are that a Poisson regression takes.
        labels: np.ndarray = rng.uniform(1, 2, (rows, many) if many else rows)
    else:
        rows = times * _OF_A_CLASS * len(classes)
        labels = np.asarray(classes)[np.arange(rows) % len(classes)]
    known = rng.standard_normal((rows, 2 * rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = sklearn.base.clone(estimator).fit(known, labels)
    return of_weights(np.atleast_2d(fitted.coef_), known)


def of_weights(weights: np.ndarray, rows: Any, off_most: float = _OFF) -> str:
    """Whether weights lie in the span of rows, or why not.

    Args:
      weights: (outputs, features), or what they changed by.
      rows: (rows, features), all that they were trained on.
      off_most: of their length, what rounding may leave.
    """
    basis = Basis(rows)
    scaled = np.asarray(weights, np.float64) / basis.scale
    size = float(np.linalg.norm(scaled))
    if not size > 0:
        return "training moved nothing"
    share = float(np.linalg.norm(basis.off(scaled))) / size
    if share <= off_most:
        return ""
    return (
        f"its training leaves {share:.0e} of the weights off the span of all rows (of"
        " updates by coordinate, as Adam's or an L1 penalty's): nothing is read there"
    )
