"""Exact reconstruction from linear models, in closed form.

theorems          Theorems 1 and 8, from parameters, link and penalty
linear            the row of a fitted estimator, from the equations of its optimum
objectives        what such an estimator minimised
refining          the row where the solver stopped early, by refits
scaler            the row that the means of a StandardScaler give away
pipelines         `reconstruct_sklearn`: whichever of these applies
affine            the attack on the toolkit's own affine victims
estimator_attack  the attack on fitted estimators, as audits play it
"""

from informed.attacks.closed_form.linear import reconstruct
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
