"""The baseline kappa: success without the release, from a prior on the target.

Users call this and give the result to `rero_bound` as log_kappa; so does
`benchmarks/papers/balle`. kappa(eta) = sup over fixed guesses z0 of
P[error(Z, z0) <= eta]. Functions of a prior return log kappa in float64, or bounds of
it; d is the number of pixels times channels. Errors are Euclidean distances, except
where a function says otherwise; `l2_of_mse` converts. An error equal to the threshold
eta counts as success. The prior is that of the target *given everything the adversary
knows*: the fixed set, so that duplicates, or other pictures of the same person in it,
raise kappa; and known parts of the target, such as its label or some of its columns
(`given`, `gaussian_given`). An attack that knows more than kappa allows for may seem to
violate a bound that holds. Every number of a record has to be finite: a record that is
NaN is near to nothing, so it would make kappa too small.

Sources: Balle, Cherubin and Hayes 2022, Section VII; confidence bounds are derived.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy import optimize, special, stats

from dp import bounds, conditional, domain, rates
from dp.domain import Number, Numbers

Logs = bounds.Logs
_ROWS = 1024  # centres whose distances are computed at once
# Rounding of a sum or a difference of two numbers: 8 machine epsilons.
_SLACK = 8 * float(np.finfo(float).eps)


def l2_of_mse(mse: Numbers, d: int) -> np.ndarray:
    """Convert a mean squared error of d pixels to a Euclidean distance."""
    mse, d = domain.finite_at_least_0("mse", mse), domain.integer("d", d, 1)
    return np.asarray(np.sqrt(d) * np.sqrt(mse))


def ball(eta: Numbers, *, d: int, radius: Number) -> Logs:
    """Return log kappa of a prior uniform on a ball; kappa is (eta / radius)^d."""
    eta, d = domain.finite_at_least_0("eta", eta), domain.integer("d", d, 1)
    log_radius = np.log(domain.finite_above("radius", radius, 0))
    with np.errstate(divide="ignore"):
        return np.asarray(np.minimum(d * (np.log(eta) - log_radius), 0.0))


def gaussian(eta: Numbers, *, d: int, sigma: Number) -> Logs:
    """Return log kappa of a normal prior with covariance sigma^2 I.

    kappa is P(d/2, eta^2 / (2 sigma^2)), with P the regularised lower incomplete gamma
    function, computed in log space.
    """
    eta, d = domain.finite_at_least_0("eta", eta), domain.integer("d", d, 1)
    log_sigma = np.log(domain.finite_above("sigma", sigma, 0))
    with np.errstate(divide="ignore"):
        log_x = 2 * (np.log(eta) - log_sigma) - math.log(2)
    return np.asarray(np.vectorize(_log_gammainc, otypes=[float])(d / 2, log_x))


def gaussian_covariance(eta: Number, *, variances: Float[np.ndarray, " d"]) -> float:
    """Bound log kappa for a normal prior with principal variances lambda_i.

    min over t > 0 of t eta^2 - sum log(1 + 2 t lambda_i) / 2 (Chernoff).
    """
    eta = float(domain.finite_at_least_0("eta", eta))
    given = domain.some("variances", domain.finite_at_least_0("variances", variances))
    with np.errstate(divide="ignore"):
        log_squared, logs = 2 * np.log(eta), np.log(given.ravel())
    if log_squared >= special.logsumexp(logs):
        return 0.0
    if np.isneginf(log_squared):
        return -math.inf

    def exponent(log_t: float) -> float:
        # math.log(2) + log_t + logs is the logarithm of 2 t lambda.
        grown = np.logaddexp(0.0, math.log(2) + log_t + logs)
        return math.exp(log_t + log_squared) - 0.5 * float(np.sum(grown))

    # Any t is valid. The best one is below d / (2 eta^2).
    high = math.log(logs.size) - log_squared
    minimum = optimize.minimize_scalar(
        exponent, bounds=(high - 60, high), method="bounded", options={"xatol": 1e-10}
    )
    return min(0.0, float(minimum.fun))


def _log_gammainc(a: float, log_x: float) -> float:
    """Compute log P(a, x), P the regularised incomplete gamma function, from log x."""
    if math.isinf(log_x) and log_x < 0:
        return -math.inf
    if log_x >= math.log(a + 1):
        return math.log1p(-special.gammaincc(a, np.exp(min(log_x, 700.0))))
    x = math.exp(log_x)
    # x^a e^-x / Gamma(a + 1) times 1 + x/(a+1) + x^2/((a+1)(a+2)) + ...
    term = total = 1.0
    k = 1
    while term > 1e-17 * total:
        term *= x / (a + k)
        total += term
        k += 1
    return a * log_x - x - special.gammaln(a + 1) + math.log(total)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Discrete:
    """The kappa of a prior on finitely many points; natural logs.

    Attributes:
      in_support: log kappa, exact for attacks that answer with one of the points;
        otherwise a lower bound.
      anywhere: an upper bound of log kappa for any attack; None where the error is no
        metric.
    """

    in_support: float
    anywhere: float | None

    def __post_init__(self) -> None:
        domain.log_probability("in_support", self.in_support)
        if self.anywhere is not None:
            domain.log_probability("anywhere", self.anywhere)


def discrete(
    distances: Float[np.ndarray, "points points"],
    probabilities: Float[np.ndarray, " points"],
    eta: Number,
    *,
    metric: bool = True,
    given: Shaped[np.ndarray, " points"] | None = None,
) -> Discrete:
    """Return log kappa, or bounds of it, of a prior on finitely many points.

    Args:
      distances: between all points, in the unit of eta; finite, 0 from each to itself.
      probabilities: the probability of each point; they sum to 1.
      eta: the largest error that counts as success, >= 0.
      given: what the adversary knows of each point, such as its label; points with the
        same entry look alike. kappa is then that of the best guess for each entry.
      metric: whether the error obeys the triangle inequality (the mean squared error
        does not; its root does).
    Raises: ValueError: an argument outside its range, or sizes that differ.
    """
    eta = float(domain.finite_at_least_0("eta", eta))
    mass = np.ravel(_distribution(probabilities))
    distances = domain.finite_at_least_0("distances", distances)
    if distances.shape != (mass.size, mass.size) or np.diagonal(distances).any():
        raise domain.FieldError(
            "distances",
            f"Expected {{}} of all {mass.size} points from each other, with zeros on"
            f" the diagonal, got an array of shape {distances.shape}.",
        )
    near, wide = 0.0, 0.0
    for members in _groups(given, len(mass)):
        apart = distances[:, members]
        at = eta * (1 + _SLACK)  # rounding of distances may only add neighbours
        near += ((apart <= at) @ mass[members]).max()
        wide += ((apart <= 2 * at) @ mass[members]).max()
    return Discrete(
        in_support=min(0.0, math.log(near)),
        anywhere=min(0.0, math.log(wide)) if metric else None,
    )


def gaussian_given(
    eta: Number, *, covariance: Float[np.ndarray, "d d"], known: np.ndarray
) -> float:
    """Bound log kappa of a normal prior given some coordinates of the target.

    The others are normal around their conditional mean, whatever the values are, with
    the covariance's Schur complement. `gaussian_covariance` bounds its kappa. Variances
    are lessened by all that rounding may have added, so that kappa is never too small.

    Args:
      eta: Euclidean threshold; known coordinates are guessed without error.
      covariance: the covariance of all coordinates, positive semidefinite.
      known: positions of the known coordinates (k,), integers; or whether each
        coordinate is known (d,), bool.
    Raises: ValueError: covariance isn't a finite symmetric matrix without negative
      eigenvalues; a position out of range; known is neither positions nor a mask; or
      known coordinates determine each other up to rounding, and only that rounding
      relates them to the others.
    """
    eta = float(domain.finite_at_least_0("eta", eta))
    covariance = conditional.valid_covariance(covariance)
    mask = conditional.known_mask(np.asarray(known), len(covariance))
    free = ~mask
    if not free.any():
        return 0.0
    rest = covariance[np.ix_(free, free)]
    slack = 8 * len(rest) * float(np.finfo(float).eps) * float(np.trace(rest))
    # A constant column tells nothing, and has no deviation to scale by.
    mask &= np.diagonal(covariance) > 0
    if mask.any():
        rest, slack = conditional.schur_complement(covariance, mask, free)
    variances = np.maximum(np.linalg.eigvalsh(rest) - slack, 0.0)
    return gaussian_covariance(eta, variances=variances)


def _distribution(probabilities: np.ndarray) -> np.ndarray:
    """Return probabilities as float64, or raise FieldError unless they sum to 1."""
    mass = domain.at_least_0("probabilities", probabilities)
    total = float(np.sum(mass))
    domain.require("sum of probabilities", total, abs(total - 1) < 1e-9, "= 1")
    return mass


def _groups(given: np.ndarray | None, count: int) -> list[np.ndarray]:
    """Return positions of points that look alike to the adversary, by group."""
    if given is None:
        return [np.arange(count)]
    values = np.asarray(given)
    if values.shape != (count,):
        raise domain.FieldError(
            "given", f"Expected {{}} to have {count} entries, got {values.shape}."
        )
    try:
        # NaN equals no number, so points without a value would be in no group.
        kinds, which = np.unique(values, return_inverse=True, equal_nan=True)
    except TypeError as error:
        raise domain.FieldError(
            "given", f"Expected {{}} to hold numbers or texts: {error}."
        ) from error
    return [np.flatnonzero(which == kind) for kind in range(len(kinds))]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Empirical:
    """Bounds of the kappa of an unknown prior, from a sample; natural logs.

    Attributes:
      low, high: bounds of log kappa, each of which holds with the confidence asked for.
      floor: what `high` would be if no image of the sample had a neighbour. No sample
        of this size can show that kappa is smaller.
    """

    low: float
    high: float
    floor: float

    def __post_init__(self) -> None:
        for name in ("low", "high", "floor"):
            domain.log_probability(name, getattr(self, name))


def empirical(
    sample: Float[np.ndarray, "images d"], eta: Number, *, confidence: Number = 0.95
) -> Empirical:
    """Bound log kappa from independent draws of the prior, by Euclidean distance.

    The largest observed frequency is no bound: taking the maximum inflates it, and
    centres among the draws alone deflate it. Upper bound: if kappa is larger than
    1 - (delta/2)^(1/n), then with probability 1 - delta/2 some draw lies in the best
    ball, and twice its radius around that draw covers it. Lower bound: the best centre
    of one half, counted in the other.

    Args:
      sample: at least 4 draws, all finite.
      eta: the largest Euclidean distance that counts as success.
      confidence: the confidence of each bound, in [0.5, 1].
    """
    eta = float(domain.finite_at_least_0("eta", eta))
    sample = domain.finite("sample", sample)
    n = domain.integer("images in sample", len(sample), 4)
    sample = sample.reshape(n, -1)
    delta = 1 - float(domain.probability("confidence", confidence))
    domain.require("confidence", confidence, delta <= 0.5, "in [0.5, 1]")
    largest = max(float(np.abs(sample).max(initial=0.0)), eta)
    if largest >= 1e100:  # another unit of length, or squares would overflow
        sample, eta = sample / largest, eta / largest
    neighbours = _within(sample, sample, 2 * eta, at_most=True) - 1
    most = int(neighbours.max())
    half, other = sample[: n // 2], sample[n // 2 :]
    centre = half[_within(half, half, eta, at_most=False).argmax()]
    hits = int(_within(centre[None], other, eta, at_most=False)[0])
    low = rates.clopper_pearson(hits, len(other), 1 - 2 * delta)[0]
    return Empirical(
        low=math.log(low) if low else -math.inf,
        high=math.log(empirical_high(n, most, delta)),
        floor=math.log(empirical_high(n, 0, delta)),
    )


def empirical_high(n: int, most_neighbours: int, delta: Number) -> float:
    """Return an upper bound of kappa, not its log, at confidence 1 - delta.

    Of n draws each has at most `most_neighbours` other draws within 2 eta.

    Raises: ValueError: n < 2, most_neighbours not in [0, n), delta not in [0, 1].
    """
    n, c = domain.integer("n", n, 2), most_neighbours
    domain.integer("most_neighbours", c, 0)
    domain.require("most_neighbours", c, c < n, f"< n = {n}")
    delta = float(domain.probability("delta", delta))
    unseen = 1 - (delta / 2) ** (1 / n)
    if c >= n - 1:
        return 1.0
    covered = stats.beta.ppf(1 - delta / (2 * n), c + 1, n - 1 - c)
    return float(max(unseen, covered))


def _within(
    centres: Float[np.ndarray, "centres d"],
    points: Float[np.ndarray, "points d"],
    eta: Number,
    *,
    at_most: bool,
) -> Int[np.ndarray, " centres"]:
    """Count points within eta of each centre.

    Rounding may only add points (`at_most`: the count is an upper limit), or else only
    remove them.
    """
    lengths = np.sum(points**2, axis=1)
    totals = []
    for start in range(0, len(centres), _ROWS):
        some = centres[start : start + _ROWS]
        squared = np.sum(some**2, axis=1)[:, None] + lengths - 2 * some @ points.T
        slack = 1e-9 * lengths.max() * (1 if at_most else -1)  # of rounding
        totals.append(np.sum(squared <= eta**2 + slack, axis=1))
    return np.concatenate(totals)
