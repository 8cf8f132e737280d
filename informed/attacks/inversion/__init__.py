"""The inversion attack: search for the record with which training gives the weights.

Runs and audits play it as `inversion`. Symbols: A is the training algorithm, D_- the
known training images, z the unknown ones, theta = A(D_- + z) the released weights,
theta_0 the initial ones, u coordinates of z.

training_inversion  the attack; why it works, and how it certifies results
inversion_config    settings
problem             data types: release, start, problem, candidate, certificate
shared_measurements what releases share; the choice between the two engines
starting_images     which labels to try, and where to start
solving             from a start to a candidate by derivatives, stage after stage
gauss_newton        least squares with a very expensive Jacobian
cloud_search        from a start to a candidate by random images, e.g. for ReLU
clouds              least squares by clouds of training runs (with cloud_regression)
certificate         whether a candidate explains theta, and is certainly exact
retraining          A as the adversary runs it; its Jacobian by derivatives,
                    span_derivatives, response, finite_differences
known_images        statistics of D_- and public images
coordinates         scaled principal components of images
pixel_levels        the few values that pixels of digital images take
weight_noise        the part of theta that no reconstruction can explain
"""

from informed.attacks.inversion.inversion_config import InversionConfig
from informed.attacks.inversion.training_inversion import Inversion

__all__ = ["Inversion", "InversionConfig"]
