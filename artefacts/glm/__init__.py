"""Exact reconstruction from generalised linear models.

closed_form  from parameters, link and penalty
losses       slopes of losses, and the label that a slope tells
objectives   what a linear estimator of scikit-learn minimised, solved for a row
estimators   from fitted scikit-learn estimators, as they are
"""

from artefacts.findings import ReconstructionImpossibleError
from artefacts.glm.closed_form import (
    reconstruct_glm,
    reconstruct_softmax,
    reconstruct_without_intercept,
)
from artefacts.glm.estimators import reconstruct

__all__ = [
    "ReconstructionImpossibleError",
    "reconstruct",
    "reconstruct_glm",
    "reconstruct_softmax",
    "reconstruct_without_intercept",
]
