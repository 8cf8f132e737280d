"""Differential privacy for training: bounds on reconstruction, and clipping with noise.

`rero_bound` takes a mechanism, which describes how a training was made private, and
kappa, an attack's success without the model; it bounds gamma, the success with the
model. Users, `shadow` and `informed` call this package, which imports none of them. An
argument outside its range raises `domain.FieldError`, a ValueError.

rero           the bound on reconstruction: the entry point; `bounds` has formulas
mechanisms     ways to make training private; also `participation` and `allocation`,
               and `published`, guarantees in numbers
sampling       a training by records, batch and epochs, and what its bound assumes
histories      accountants' histories and events as mechanisms
priors         the baseline kappa of a prior; `guessing` measures it on records
calibration    the least noise for a gamma, an advantage or an epsilon
plots          pictures of bounds against noise and epsilon
rates          measured success: exact intervals, tests for violations of a bound
gradient       the gradient of DP-SGD; `ghost_norms` measures lengths of gradients
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from dp.allocation import RandomAllocation
    from dp.calibration import Calibration, calibrate
    from dp.guarantee import Guarantee
    from dp.guessing import Baseline, kappa_from
    from dp.histories import History, from_event
    from dp.mechanisms import Composition, Gaussian, Mechanism, PoissonGaussian
    from dp.participation import FixedSizeGaussian, RevealedGaussian
    from dp.plots import plot
    from dp.published import (
        ApproximateDP,
        Laplace,
        LossDistribution,
        PureDP,
        RenyiDP,
        ZeroConcentratedDP,
    )
    from dp.rero import ReRoBound, implied_delta, register_bound, rero_bound
    from dp.sampling import Assumption, Batches, assumption

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "dp.allocation": "RandomAllocation",
        "dp.guarantee": "Guarantee",
        "dp.guessing": "Baseline kappa_from",
        "dp.sampling": "Assumption Batches assumption",
        "dp.calibration": "Calibration calibrate",
        "dp.histories": "History from_event",
        "dp.mechanisms": "Composition Gaussian Mechanism PoissonGaussian",
        "dp.participation": "FixedSizeGaussian RevealedGaussian",
        "dp.plots": "plot",
        "dp.published": "ApproximateDP Laplace LossDistribution PureDP RenyiDP"
        " ZeroConcentratedDP",
        "dp.rero": "ReRoBound implied_delta register_bound rero_bound",
    },
)
