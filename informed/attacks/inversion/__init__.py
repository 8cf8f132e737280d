"""Inverting the training itself: exact reconstruction without a shadow model.

attack        the attack; what makes it work, and its certificate
config        how hard to try
starts        where to begin, from public images and theta
solver        one release from one start: stages, weighting, certificate
ranking       labels worth trying, and how far A bends
retraining    A as the adversary runs it, with its derivatives
coordinates   pixels, or scaled principal components
gauss_newton  least squares with a very expensive Jacobian
clouds        least squares by runs alone, for kinks
levels        digital images take few values
noise         what of theta no reconstruction can explain
label_shadows a few shadow models of one label, where outliers start from
"""

from informed.attacks.inversion.attack import TrainingInversion
from informed.attacks.inversion.clouds import CloudConfig
from informed.attacks.inversion.config import InversionConfig

__all__ = ["CloudConfig", "InversionConfig", "TrainingInversion"]
