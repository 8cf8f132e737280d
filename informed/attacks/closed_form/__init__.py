"""Exact reconstruction from linear models, in closed form.

theorems          Theorems 1 and 8, from parameters, link and penalty
estimators        the same from fitted estimators of scikit-learn
objectives        what such an estimator minimised;  losses: their slopes
linear            the row at a solver's default tolerance;  refining: by refits
scaler            the row that the means of a StandardScaler give away
pipelines         `reconstruct_sklearn`: whichever of these applies
affine            the attack on the toolkit's own affine victims
estimator_attack  the attack on fitted estimators, as audits play it
"""

from informed.attacks.closed_form.estimators import reconstruct
from informed.attacks.closed_form.theorems import (
    reconstruct_glm,
    reconstruct_softmax,
    reconstruct_without_intercept,
)
from informed.attacks.impossible import ReconstructionImpossibleError

__all__ = [
    "ReconstructionImpossibleError",
    "reconstruct",
    "reconstruct_glm",
    "reconstruct_softmax",
    "reconstruct_without_intercept",
]
