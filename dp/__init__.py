"""Mathematics of privacy, usable alone.

An argument outside its range raises `domain.FieldError`, a ValueError.

rero         bounds on reconstruction: the front door
sampling     a training in the words of its script, and what is assumed of it
mechanisms   how a release was made private: noise, and sampling in secret
published    guarantees in numbers: epsilon, delta, Renyi curves, privacy losses
guarantee    what each of them can be asked: epsilon, delta, advantage, trade-off
bounds       the formulas, in log space
histories    what Opacus and jax-privacy keep of a training, as a mechanism
allocation   each record in one secret step of every epoch
lattice      sums of likelihood ratios, rounded to the safe side
participation  batches that are known, or of fixed size
loss_grid    privacy losses: delta of epsilon and back
composition  steps whose noise or sampling changes
events       dp-accounting's events as mechanisms, and back
poisson      the Poisson-subsampled Gaussian: moments and privacy losses
priors       the baseline kappa of a prior
guessing     the baseline kappa of real records
plots        pictures of bounds
conditional  normal priors given some coordinates
epsilons     epsilon and delta from mu, Renyi curves and pairs of both
calibration  the least noise for a gamma, an advantage or an epsilon
rates        measured success: exact intervals, tests for violations of a bound
domain       the domains of arguments, and errors of one line
gradient     clipped per-example gradients and noise, as a part of training
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from dp.allocation import RandomAllocation
    from dp.calibration import Calibration, calibrate
    from dp.composition import Composition
    from dp.events import from_event
    from dp.guarantee import Guarantee
    from dp.guessing import Baseline, kappa_from
    from dp.histories import History
    from dp.mechanisms import Gaussian, Mechanism, PoissonGaussian
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
    from dp.rero import (
        ReRoBound,
        implied_delta,
        implied_gamma,
        register_bound,
        rero_bound,
    )
    from dp.sampling import Assumption, Batches, assumption

__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "dp.allocation": "RandomAllocation",
        "dp.composition": "Composition",
        "dp.events": "from_event",
        "dp.guarantee": "Guarantee",
        "dp.guessing": "Baseline kappa_from",
        "dp.sampling": "Assumption Batches assumption",
        "dp.calibration": "Calibration calibrate",
        "dp.histories": "History",
        "dp.mechanisms": "Gaussian Mechanism PoissonGaussian",
        "dp.participation": "FixedSizeGaussian RevealedGaussian",
        "dp.plots": "plot",
        "dp.published": "ApproximateDP Laplace LossDistribution PureDP RenyiDP"
        " ZeroConcentratedDP",
        "dp.rero": "ReRoBound implied_delta implied_gamma register_bound rero_bound",
    },
)
