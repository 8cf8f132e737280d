"""Inverting the training itself: exact reconstruction without a shadow model.

attack         the attack; what makes it work, and its certificate
config         how hard to try, and the thresholds of the search
ranking        labels worth trying, and how far A bends
starts         where to begin, from public images and theta
solver         one release from one start: stages, weighting, certificate
least_squares  the problem that one stage solves
candidate      a release as the solver reads it, and an answer with its certificate
gauss_newton   least squares with a very expensive Jacobian
clouds         least squares by runs alone, for kinks; regression, cloud_search
retraining     A as the adversary runs it; derivatives, span, response, repeats give
               its Jacobian
coordinates    scaled principal components of images
levels         the few values that pixels of digital images take
noise          the part of theta that no reconstruction can explain
"""

from informed.attacks.inversion.attack import Inversion
from informed.attacks.inversion.clouds import CloudConfig
from informed.attacks.inversion.config import InversionConfig

__all__ = ["CloudConfig", "Inversion", "InversionConfig"]
