"""Inverting the training itself: exact reconstruction without a shadow model.

training_inversion  the attack; what makes it work, and its certificate
inversion_config    how hard to try
problem             a release, A and coordinates; a start, a candidate, a certificate
shared_measurements what releases share; the choice between the two engines
starting_images     labels worth trying, and where to begin; label_shadows
solving             from a start to a candidate by derivatives, stage after stage
gauss_newton        least squares with a very expensive Jacobian
cloud_search        from a start to a candidate by runs alone, for kinks
clouds              least squares by clouds of runs; cloud_regression
certificate         whether a candidate explains theta, and is certainly exact
retraining          A as the adversary runs it; its Jacobian by derivatives,
                    span_derivatives, response, finite_differences
coordinates         scaled principal components of images
pixel_levels        the few values that pixels of digital images take
weight_noise        the part of theta that no reconstruction can explain
"""

from informed.attacks.inversion.inversion_config import InversionConfig
from informed.attacks.inversion.training_inversion import Inversion

__all__ = ["Inversion", "InversionConfig"]
