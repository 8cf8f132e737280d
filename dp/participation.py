"""DP-SGD as mechanisms where batches are known to the adversary, or of fixed size.

Bounds for Poisson sampling (`mechanisms`) don't hold here. Where the batches are known,
a record is protected by the noise of the steps that it takes part in. `sampling` and
`histories` make these mechanisms.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

from dp import bounds, domain, poisson
from dp.domain import Number
from dp.guarantee import Bounds, Guarantee
from dp.mechanisms import Gaussian, PoissonGaussian, require_sampled
from dp.published import RenyiDP

_FAR = 40  # standard deviations; counts beyond have a probability below 1e-100
_LONGEST = 10**7  # steps; beyond, a record counts as if it took part in all of them
_ORDERS = (*range(2, 65), 80, 96, 128, 192, 256)  # of Renyi divergences
# Noise multipliers for which dp-accounting's divergences neither overflow nor vanish.
_LEAST, _MOST = 0.05, 1e6


@functools.lru_cache(maxsize=8)
def counts(
    probability: float, steps: int
) -> tuple[Float[np.ndarray, " counts"], Float[np.ndarray, " counts"]]:
    """Return (counts, log probabilities) of the steps that a record takes part in.

    The distribution is binomial. Counts far from the mean are grouped, and the largest
    of a group stands for all of it, which is pessimistic.
    """
    if probability == 1 or steps > _LONGEST:
        return np.array([float(steps)]), np.zeros(1)
    k = np.arange(steps + 1.0)
    ways = special.gammaln(steps + 1) - special.gammaln(k + 1)
    ways -= special.gammaln(steps - k + 1)
    logs = ways + k * np.log(probability) + (steps - k) * np.log1p(-probability)
    logs -= special.logsumexp(logs)
    mean = steps * probability
    far = _FAR * (1 + math.sqrt(mean * (1 - probability)))
    low, high = max(0, math.floor(mean - far)), min(steps, math.ceil(mean + far))
    beyond = high + 2 ** np.arange(math.floor(math.log2(steps - high + 1)) + 1)
    starts = np.unique([0, *range(low, high + 1), *beyond[beyond <= steps]])
    ends = np.append(starts[1:], steps + 1)
    return k[ends - 1], np.logaddexp.reduceat(logs, starts)


@np.errstate(over="ignore")
def _mean_delta(epsilon: float, mus: np.ndarray, logs: np.ndarray) -> float:
    mus, weights = mus[mus > 0], np.exp(logs[mus > 0])
    first = special.ndtr(mus / 2 - epsilon / mus)
    second = np.exp(epsilon + special.log_ndtr(-mus / 2 - epsilon / mus))
    return float(weights @ np.maximum(first - second, 0.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RevealedGaussian(Guarantee):
    """DP-SGD whose adversary knows which record takes part in which step.

    The bound is the mean over draws of the batches. For a record that turned out to
    take part in k steps it is that of `Gaussian` with k steps, which may be larger.

    Attributes:
      noise_multiplier: sigma, > 0. Infinite: gamma is kappa.
      sampling_probability: q, the probability of a record to be in a step, in (0, 1];
        steps are independent.
      steps: T, the number of steps.
      relation: "replace_one" doubles the sensitivity.
    """

    noise_multiplier: Number
    sampling_probability: Number
    steps: int
    relation: str

    def __post_init__(self) -> None:
        require_sampled(self.noise_multiplier, self.steps, self.relation)
        domain.one("sampling_probability", self.sampling_probability)
        domain.share("sampling_probability", self.sampling_probability)

    @property
    def _taken(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mu of the steps that a record takes part in, and log probabilities."""
        one = Gaussian(
            noise_multiplier=self.noise_multiplier, steps=1, relation=self.relation
        )
        taken, logs = counts(float(self.sampling_probability), self.steps)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(taken > 0, one.mu * np.sqrt(taken), 0.0), logs

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the bound by a record's steps, and those of full batches.

        By own steps, gamma = E Phi(Phi^-1(kappa) + mu sqrt(K)), K binomial, since the
        target doesn't depend on the sampling.
        """
        full = Gaussian(
            noise_multiplier=self.noise_multiplier,
            steps=self.steps,
            relation=self.relation,
        ).bounds(log_kappa)
        mus, logs = self._taken
        flat = [
            special.logsumexp(logs + bounds.gaussian(k, mus)) for k in log_kappa.flat
        ]
        own = np.clip(np.reshape(flat, log_kappa.shape), log_kappa, 0.0)
        return {"own steps": own} | {
            f"{name}, full batch": value for name, value in full.items()
        }

    def epsilon(self, delta: Number) -> float:
        """Return epsilon of (epsilon, delta)-differential privacy, under the relation.

        It is where the mean delta over a record's steps falls to `delta`. For adding or
        removing a record it is infinite at every delta below the probability that the
        record is in a batch at all: an adversary who knows the batches sees whether it
        is there. At a larger delta it is 0.
        """
        delta = float(domain.between("delta", delta, 0, 1))
        if self.relation == "add_or_remove" and self.sampling_probability < 1:
            return math.inf if delta < self._ever else 0.0
        mus, logs = self._taken

        def excess(epsilon: float) -> float:
            return _mean_delta(epsilon, mus, logs) - delta

        if excess(0.0) <= 0:
            return 0.0
        # For each mu, delta(eps) <= Phi(mu / 2 - eps / mu), which grows with mu.
        with np.errstate(over="ignore"):
            high = float(np.multiply(mus.max(), mus.max() / 2 - special.ndtri(delta)))
        if not np.isfinite(high):
            return math.inf
        from scipy import optimize  # takes a quarter of a second; bounds don't need it

        root = optimize.brentq(excess, 0.0, 1.0 + high, xtol=1e-12, rtol=1e-9)
        return float(min(high, root * (1 + 1e-8) + 1e-11))

    def delta(self, epsilon: Number) -> float:
        """Return delta at epsilon, under the relation; see `epsilon`."""
        epsilon = domain.one_epsilon(epsilon)
        if self.relation == "add_or_remove" and self.sampling_probability < 1:
            return self._ever
        mus, logs = self._taken
        mean = _mean_delta(epsilon, mus, logs)
        return min(1.0, mean * (1 + 1e-9) + 1e-16) if mus.any() else 0.0

    # A test may be bolder where the record is in more batches, unlike a guess.
    _tests = Guarantee._tests_by_delta

    @property
    def _ever(self) -> float:
        """The probability that a record is in some batch."""
        return -math.expm1(self.steps * math.log1p(-self.sampling_probability))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FixedSizeGaussian(Guarantee):
    """DP-SGD with batches of fixed size, drawn anew in each step, secretly.

    With probability q = B / N the target is in the batch, in the place of another
    record; training without the target draws that other record. Given all the rest, the
    two sums of gradients are at most 2 C apart. So the pair of Poisson sampling with
    half the noise dominates (derived), under "add_or_remove", whose reference is
    training on the other records with batches of the same size. Under "replace_one"
    (and "zero_out", a special case of it) epsilon is by the Renyi divergences of Wang,
    Balle and Kasiviswanathan 2019, as dp-accounting has them, at half the noise.

    All bounds that hold where the batches are known hold here too.

    Attributes:
      noise_multiplier: sigma, > 0. Infinite: gamma is kappa.
      records, batch: N and B, both public; 1 <= B <= N.
      steps: T, the number of steps.
      relation: the neighbouring relation.
      grid: the spacing of the grid of the privacy loss, in nats.
    """

    noise_multiplier: Number
    records: int
    batch: int
    steps: int
    relation: str
    grid: float = poisson.FINE

    def __post_init__(self) -> None:
        require_sampled(self.noise_multiplier, self.steps, self.relation)
        in_a_batch(self.records, self.batch)
        domain.finite_above("grid", self.grid, 0)

    @property
    def sampling_probability(self) -> float:
        """Return the probability of a record to be in a step: B / N."""
        return self.batch / self.records

    @property
    def known(self) -> RevealedGaussian:
        """Return the mechanism for an adversary who knows the batches."""
        return RevealedGaussian(
            noise_multiplier=self.noise_multiplier,
            sampling_probability=self.sampling_probability,
            steps=self.steps,
            relation=self.relation,
        )

    @property
    def removal(self) -> PoissonGaussian:
        """Return Poisson sampling that protects no better, compared with removal."""
        half = max(float(self.noise_multiplier) / 2, float(np.finfo(float).tiny))
        return PoissonGaussian(
            noise_multiplier=half,
            sampling_probability=self.sampling_probability,
            steps=self.steps,
            relation="add_or_remove",
            grid=self.grid,
        )

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the bounds of known batches, and those that count the secrecy."""
        valid = self.known.bounds(log_kappa)
        if self.batch < self.records and self.relation != "replace_one":
            secret = self.removal.bounds(log_kappa)
            return valid | {n: v for n, v in secret.items() if "full batch" not in n}
        accountant = self._accountant()
        if accountant is None:
            return valid
        curve = RenyiDP(
            orders=tuple(accountant.orders.tolist()),
            epsilons=tuple(accountant.rdp.tolist()),
            relation=self.relation,
        )
        return valid | curve.bounds(log_kappa)

    def epsilon(self, delta: Number) -> float:
        """Return the least certified epsilon at delta, under the relation."""
        if self._removed:
            return self.removal.epsilon(delta)
        known, accountant = self.known.epsilon(delta), self._accountant()
        if accountant is None:
            return known
        return min(known, float(accountant.get_epsilon(delta)))

    def delta(self, epsilon: Number) -> float:
        """Return the least certified delta at epsilon, under the relation."""
        epsilon = domain.one_epsilon(epsilon)
        if self._removed:
            return self.removal.delta(epsilon)
        known = self.known.delta(epsilon)
        accountant = self._accountant() if known else None
        if accountant is None:
            return known
        return min(known, float(accountant.get_delta(epsilon)))

    def _tests(self, log_rates: np.ndarray) -> Bounds:
        if self._removed:
            return self.removal.bounds(log_rates)
        return self._tests_by_delta(log_rates)

    @property
    def _removed(self) -> bool:
        """Whether the guarantee is of removing a record from a secret batch."""
        return self.relation == "add_or_remove" and self.batch < self.records

    def _accountant(self) -> Any:
        """Return an RdpAccountant of replacing a record; None: it can't tell more."""
        half = min(float(self.noise_multiplier) / 2, _MOST)
        if half < _LEAST or self.batch == self.records:
            return None
        return _replacing(dataclasses.replace(self, noise_multiplier=half))


@functools.lru_cache(maxsize=8)
def _replacing(run: FixedSizeGaussian) -> Any:
    import dp_accounting  # takes a second, and full and known batches don't need it

    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    accountant = dp_accounting.rdp.RdpAccountant(_ORDERS, relation)
    step = dp_accounting.GaussianDpEvent(float(run.noise_multiplier))
    drawn = dp_accounting.SampledWithoutReplacementDpEvent(run.records, run.batch, step)
    return accountant.compose(drawn, run.steps)


def in_a_batch(records: int, batch: int) -> None:
    """Raise FieldError unless 1 <= batch <= records, both whole; for `sampling` too."""
    domain.integer("records", records, 1)
    domain.integer("batch", batch, 1)
    domain.require("batch", batch, batch <= records, f"<= records = {records}")
