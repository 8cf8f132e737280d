"""Privacy of random allocation: each record joins one secret step of every epoch.

`sampling` and `shadow.factory` make `RandomAllocation`. Drawing batches so is also
called balls in bins. With t steps an epoch, and the target's gradients of length at
most 1, one epoch is dominated by the pair

    with:     (1 / t) sum over i of N(e_i, sigma^2 I)        without:  N(0, sigma^2 I)

in t dimensions. Proof: the releases before step s decide the target's gradient g_s,
|g_s| <= 1. So step s is a random function of coordinate s of that pair and of earlier
releases: multiply it by g_s, add normal noise of covariance sigma^2 (I - g_s g_s^T).
That turns N(1, sigma^2) into N(g_s, sigma^2 I) and N(0, sigma^2) into N(0, sigma^2 I).
So an adaptive epoch is processing of the pair, for each i and so for the mixture, and
no divergence grows. Epochs compose adaptively as dominating pairs do (Zhu et al. 2022).

Without the target, the pair's likelihood ratio is the mean of t independent lognormals
of mean 1. `lattice` computes its distribution, rounded towards more privacy loss. The
sampling is that of Feldman and Shenfeld 2025 (arXiv:2502.08202), who bound its epsilon;
they also compute its privacy loss on a grid (arXiv:2602.17284).
"""

import dataclasses
import functools
import math

import numpy as np
from jaxtyping import Float
from scipy import special

from dp import domain, lattice, loss_grid, poisson
from dp.domain import Number
from dp.loss_grid import Distribution
from dp.mechanisms import Amplified, Gaussian, require_sampled

# Noise multipliers between which losses are computed. Below, the order counts as known;
# above, the noise that is accounted for is less than the real one.
_LEAST, _MOST = 0.1, 100.0
_MOST_EPOCHS = 10**5
# Points of an octave: the lattice adds at most 1 / (1.5 * 64^2) to the variance of the
# likelihood ratio, relative to it; measured: bounds rise by less than a share of 1e-4.
_FEWEST, _MANY, _PER_DEVIATION = 2**11, 2**17, 64
_ROUND_OFF = 1e-14  # of an epoch's delta, by FFT; measured: at most 1e-15
_HIGHEST = 512  # order of Renyi divergences


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomAllocation(Amplified):
    """DP-SGD where a record joins one uniformly random step of every epoch, secretly.

    Each record draws its step anew in every epoch, independently of all other records,
    so that sizes of batches vary. The divisor of the sum has to be public, such as the
    expected size. An order cut into batches of fixed size isn't this: an adversary who
    knows where all other records are knows where the target is.

    Attributes:
      noise_multiplier: sigma, > 0. Infinite: success with the model, gamma, is kappa.
      steps: t, the number of steps of an epoch.
      epochs: the number of epochs.
      relation: "zero_out" and "add_or_remove" are the same here, since others don't
        move. Under "replace_one" no dominating pair is known; the bound is then that of
        a known order, one step an epoch.
      grid: the spacing of the grid of the privacy loss, in nats.
    """

    noise_multiplier: Number
    steps: int
    epochs: int
    relation: str
    grid: float = poisson.FINE
    _unhidden = "known order"
    _larger_divergences = False  # not known of allocation

    def __post_init__(self) -> None:
        require_sampled(self.noise_multiplier, self.steps, self.relation)
        domain.integer("epochs", self.epochs, 1)
        domain.integer("epochs * steps", self.epochs * self.steps, 1)
        domain.finite_above("grid", self.grid, 0)

    @property
    def full(self) -> Gaussian:
        """The mechanism for an adversary who knows the order: one step an epoch.

        Its bounds hold for a secret order too: the target doesn't depend on the order.
        """
        return Gaussian(
            noise_multiplier=self.noise_multiplier,
            steps=self.epochs,
            relation=self.relation,
        )

    @property
    def hidden(self) -> bool:
        """Whether the bounds count the secret order as protection."""
        counted = self.relation != "replace_one" and self.steps > 1
        return counted and _LEAST <= self.noise_multiplier < math.inf

    def losses(self) -> tuple[Distribution, int] | None:
        """Return the privacy losses and the number of epochs; None: over 1e5 epochs."""
        if self.epochs > _MOST_EPOCHS:
            return None
        sigma, grid = float(self.noise_multiplier), float(self.grid)
        return losses(sigma, self.steps, self.epochs, grid), self.epochs

    def divergences(self, log_kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return orders and Renyi divergences, the same for every baseline."""
        return renyi(float(self.noise_multiplier), self.steps, self.epochs)


@functools.lru_cache(maxsize=32)
def renyi(sigma: float, steps: int, epochs: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute Renyi divergences of training with from without, at whole orders.

    E[L^a] = a! / t^a times the coefficient of x^a in (sum over k of m_k x^k / k!)^t,
    where m_k = exp(k (k - 1) / (2 sigma^2)) is a moment of one lognormal. Exact.

    Returns: (orders from 2, divergences of all epochs).
    """
    k = np.arange(_HIGHEST + 1.0)
    factorials = special.gammaln(k + 1)
    one = k * (k - 1) / 2 / sigma / sigma - factorials
    # The series to the power of `steps`, by squaring.
    power, result, exponent = one, np.where(k > 0, -np.inf, 0.0), steps
    while exponent:
        if exponent & 1:
            result = _product(result, power)
        exponent >>= 1
        if exponent:
            power = _product(power, power)
    moments = (factorials + result - k * math.log(steps))[2:]
    slack = 1e-15 * (factorials[2:] + k[2:] * math.log(steps) + np.abs(moments))
    return k[2:], epochs * (np.maximum(moments, 0) + slack) / (k[2:] - 1)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply two series whose coefficients are given as logarithms, all positive."""
    i = np.arange(len(a))
    apart = i[:, None] - i[None]
    pairs = np.where(apart >= 0, a[None] + b[apart], -np.inf)
    return np.asarray(special.logsumexp(pairs, axis=1))


@functools.lru_cache(maxsize=32)
def losses(sigma: float, steps: int, epochs: int, grid: float) -> Distribution:
    """Compute the privacy loss distribution of all epochs, rounded up."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    sigma = min(sigma, _MOST)
    second = math.log1p(math.expm1(min(1 / sigma**2, 700.0)) / steps)  # Renyi, order 2
    wanted = _PER_DEVIATION / math.sqrt(second)
    points = 2 ** math.ceil(math.log2(np.clip(wanted, _FEWEST, _MANY)))
    ratio = lattice.total(lattice.lognormal(sigma, steps, points), steps)
    reach = max(
        math.log(2) * (len(ratio.octaves) + abs(ratio.low - math.log2(steps))),
        epochs * second + 16 * math.sqrt(epochs * second),
    )
    spacing = max(
        min(grid, math.sqrt(second) / _PER_DEVIATION), reach / loss_grid.LONGEST
    )
    first, masses = _on_grid(np.log(ratio.values / steps), ratio.octaves, spacing)
    tilted = masses * np.exp((first + np.arange(len(masses))) * spacing)
    slack = _ROUND_OFF + 8 * ratio.rounding
    remove = pld_pmf.DensePLDPmf(
        spacing, first, tilted, ratio.infinite / steps + slack, True
    )
    last = first + len(masses) - 1
    add = pld_pmf.DensePLDPmf(spacing, -last, masses[::-1], ratio.zero + slack, True)
    one = privacy_loss_distribution.PrivacyLossDistribution(remove, add)
    return loss_grid.composed(one, epochs)


def _on_grid(
    logs: Float[np.ndarray, "octaves points"],
    masses: Float[np.ndarray, "octaves points"],
    spacing: float,
) -> tuple[int, Float[np.ndarray, " losses"]]:
    """Spread ratios on the two next to them on an even grid of logarithms.

    Returns: (the first loss in units of spacing, masses under the law without).
    """
    places = np.floor(logs / spacing)
    upper = np.expm1(logs - places * spacing) / math.expm1(spacing)
    first = int(places.min())
    index = (places - first).astype(np.int64).ravel()
    size = int(index.max()) + 2
    upper = np.clip(upper, 0.0, 1.0) * masses
    result = np.bincount(index, weights=(masses - upper).ravel(), minlength=size)
    result += np.bincount(index + 1, weights=upper.ravel(), minlength=size)
    return first, result
