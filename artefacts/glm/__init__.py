"""Exact reconstruction from generalised linear models.

closed_form  from parameters, link and penalty
estimators   from fitted scikit-learn estimators, as they are
"""

from artefacts.glm.closed_form import (
    ReconstructionImpossibleError,
    gradient_norm,
    reconstruct_glm,
    reconstruct_softmax,
    reconstruct_without_intercept,
)
from artefacts.glm.estimators import reconstruct

__all__ = [
    "ReconstructionImpossibleError",
    "gradient_norm",
    "reconstruct",
    "reconstruct_glm",
    "reconstruct_softmax",
    "reconstruct_without_intercept",
]
