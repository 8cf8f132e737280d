"""Compute a linear model's missing training row, mostly from the optimum's equations.

Users call `informed.reconstruct_sklearn`; audits play `closed_form`, and runs `glm`.

theorems          Theorems 1 and 8 of Balle et al., from parameters, link and penalty
linear            the unknown row of a fitted estimator, from the optimum's equations
objectives        the training objective of such an estimator, and these equations
refining          the unknown row if the solver stopped early, by refits
scaler            the unknown row from the means of a StandardScaler
pipelines         `reconstruct_sklearn`: picks the method that applies
affine            the attack on the toolkit's own affine victims
estimator_attack  the attack on fitted estimators, as audits play it
"""

from informed.attacks.closed_form.theorems import (
    reconstruct_glm,
    reconstruct_softmax,
    reconstruct_without_intercept,
)
from informed.attacks.impossible import ReconstructionImpossibleError

__all__ = [
    "ReconstructionImpossibleError",
    "reconstruct_glm",
    "reconstruct_softmax",
    "reconstruct_without_intercept",
]
