"""Bounds on the expected error, which are another quantity than ReRo.

ReRo bounds how often any attack succeeds under a prior. What stands here bounds the
mean squared error of some attacks (unbiased ones), or is the law of one attack. None of
it bounds an attack that uses a prior: shrinking towards it is biased, and better.
"""

import numpy as np
from scipy import special

from dp import checks
from dp.checks import Number, Numbers


def unbiased_log_mse(diameters: Numbers, renyi_2: Number) -> float:
    """Log of a lower bound on the mean squared error of unbiased attacks.

    sum_i diam_i^2 / (4 d (e^eps_2 - 1)) a coordinate (Hammersley, Chapman, Robbins).

    Args:
      diameters: (d,), the range of each coordinate of the target; finite.
      renyi_2: epsilon of order 2 under "replace_one"; 4 T / sigma^2 for full batches.
        Infinite: nothing is promised, and the error may be 0 (-inf is returned).
    Raises: ValueError: an argument outside its range.
    Source: Guo et al. 2022, Theorem 1; in log space since e^eps_2 overflows.
    """
    widths = checks.finite_at_least_0("diameters", diameters).ravel()
    checks.some("diameters", widths)
    epsilon = float(checks.above("renyi_2", renyi_2, 0))
    grown = epsilon + np.log(-np.expm1(-epsilon))
    with np.errstate(divide="ignore"):
        squares = special.logsumexp(2 * np.log(widths))
    return float(squares - np.log(4 * widths.size) - grown)


def fisher_mse(information_trace: Numbers, d: int) -> np.ndarray:
    """Lower bound d / trace(I) on the mean squared error of unbiased attacks.

    Args:
      information_trace: trace of the Fisher information of theta about the target. For
        DP-GD the sum over steps of E|J_t|_F^2 / (sigma C)^2, J_t the Jacobian of the
        clipped gradient in the target; times q for Poisson sampling (convexity).
      d: the number of coordinates of the target.
    Source: Cramer and Rao, averaged over coordinates by Jensen's inequality.
    """
    trace = checks.above("information_trace", information_trace, 0)
    # Infinite information: the error may be 0.
    with np.errstate(over="ignore"):
        return np.asarray(checks.whole("d", d, 1) / trace)


def linear_layer_success(
    mse: Numbers, *, norm: Number, mu: Number, d: int
) -> np.ndarray:
    """P[error <= mse] of reading x off one linear layer's noisy gradient, no prior.

    x-hat ~ N(x, (|x| / mu)^2 I): the gradient is parallel to x and as long as clipping
    allows. What anyone can do at least, and no bound on what is possible.

    Args:
      mse: the threshold on the mean squared error per coordinate.
      norm: Euclidean length of the target x.
      mu: the parameter of Gaussian differential privacy under "zero_out".
      d: the number of coordinates of the target.
    Raises: ValueError: an argument outside its range, or infinite.
    Source: derived.
    """
    thresholds = checks.finite_at_least_0("mse", mse)
    logs = np.log(checks.finite_above("mu", mu, 0))
    logs = logs - np.log(checks.finite_above("norm", norm, 0))
    d = checks.whole("d", d, 1)
    with np.errstate(divide="ignore", over="ignore"):
        x = np.exp(np.log(thresholds) + 2 * logs + np.log(d / 2))
    return np.asarray(special.gammainc(d / 2, x))
