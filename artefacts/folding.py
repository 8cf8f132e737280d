"""A scaler folded into the linear model behind it: two steps made one.

The scaler's mean and the coefficients become one set of numbers, so that nothing that
is stored is a mean of the training rows any more. Predictions change by rounding.
"""

from typing import Any

import numpy as np

from artefacts.findings import Removed

_FOLDED = (
    "LogisticRegression",
    "LinearRegression",
    "Ridge",
    "RidgeClassifier",
    "LinearSVC",
    "LinearSVR",
    "Lasso",
    "ElasticNet",
    "SGDClassifier",
    "SGDRegressor",
    "PoissonRegressor",
    "GammaRegressor",
    "TweedieRegressor",
    "HuberRegressor",
)


def fold(estimator: Any) -> tuple[Any, list[Removed]]:
    """A linear model that does the scaler's work, where that is possible."""
    steps = getattr(estimator, "steps", None)
    if type(estimator).__name__ != "Pipeline" or steps is None or len(steps) != 2:
        return estimator, []
    (name, scaler), (_, model) = steps
    kinds = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
    if (
        type(scaler).__name__ not in kinds
        or type(model).__name__ not in _FOLDED
        or getattr(scaler, "clip", False)
    ):
        return estimator, []
    width = scaler.n_features_in_
    # The scaler is x -> x * scale + offset; so coef (x scale + offset) + intercept.
    offset = scaler.transform(np.zeros((1, width)))[0]
    scale = _scales(scaler)
    coef = np.asarray(model.coef_, np.float64)
    model.intercept_ = np.asarray(model.intercept_) + coef @ offset
    model.coef_ = coef * scale
    model.n_features_in_ = width
    if hasattr(scaler, "feature_names_in_"):
        model.feature_names_in_ = scaler.feature_names_in_
    return model, [
        Removed(
            field=name,
            action="folded",
            helps=None,
            why="its mean and scale are inside the coefficients, which change by"
            " rounding; the coefficients alone still tell what the model's optimum"
            " tells, if the scaling is guessed",
        )
    ]


def _scales(scaler: Any) -> np.ndarray:
    """What a scaler multiplies every feature with."""
    width = scaler.n_features_in_
    if type(scaler).__name__ == "MinMaxScaler":
        return np.asarray(scaler.scale_)
    scale = scaler.scale_
    return np.ones(width) if scale is None else 1 / np.asarray(scale)
