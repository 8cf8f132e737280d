"""Differential privacy for training: bounds on reconstruction, and clipping with noise.

Usable alone. `rero_bound` takes a mechanism, which describes how a training was made
private, and kappa, an attack's success without the model; it bounds gamma, the success
with the model. `informed bound` and audits print such bounds; `shadow` trains with
`gradient`. An argument outside its range raises `domain.FieldError`, a ValueError.

rero         the bound on reconstruction: the entry point
sampling     a training by records, batch and epochs, and what its bound assumes
mechanisms   Gaussian noise on full batches, or with secret Poisson sampling
participation  Gaussian noise where batches are known, or of fixed size
allocation   Gaussian noise where each record is in one secret step of every epoch
composition  Gaussian noise where noise or sampling changes between steps
published    guarantees in numbers: epsilon, delta, Renyi curves, privacy losses
guarantee    the base class of all mechanisms: epsilon, delta, advantage, trade-off
bounds       the formulas of the bounds, in log space
histories    accountant histories of Opacus and jax-privacy as mechanisms
events       dp-accounting's events as mechanisms
poisson      the Poisson-subsampled Gaussian: moments and privacy losses
lattice      sums of likelihood ratios, rounded to the safe side
loss_grid    privacy losses: delta of epsilon and back
priors       the baseline kappa of a prior
guessing     the baseline kappa of real records
conditional  normal priors given some coordinates
plots        plots of bounds against noise and epsilon
calibration  the least noise for a gamma, an advantage or an epsilon
rates        measured success: exact intervals, tests for violations of a bound
domain       checks of arguments, with errors of one line
gradient     the gradient of DP-SGD: clipped per example, with noise
ghost_norms  lengths of per-example gradients, for networks that `gradient` traces
lazy         imports on first use, for `__init__` files
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
