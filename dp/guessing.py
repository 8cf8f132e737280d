"""The baseline kappa measured on records: how often a guess without the model is right.

For data whose prior isn't known; `priors` has kappa of known priors. Audits of noisy
training call it (`informed.audit.noise_game`).

    baseline = dp.kappa_from(images, error=mean_squared, threshold=0.0232)
    print(baseline, dp.rero_bound(run, log_kappa=baseline.log_kappas))
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Shaped

from dp import domain, rates
from dp.domain import Number
from dp.rero import rounded_up

_TRIED = 2000  # records that are tried as guesses
# Best guesses; the means of so many numbers of records nearest to each are tried too.
_MEANS, _SIZES = 5, 24


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """Success without the release, measured on records held out from the guesses.

    Attributes:
      guess: the fixed guess that is right most often.
      fixed: (rate, lower, upper limit) of that guess. A better guess may exist, so a
        bound from it holds for attackers who guess no better.
      nearest: the same of the nearest of the other records, chosen with knowledge of
        the target: no attacker who answers with one of these records does better.
      confidence: the confidence of each limit.
    """

    guess: np.ndarray
    fixed: tuple[float, float, float]
    nearest: tuple[float, float, float]
    confidence: float

    @property
    def log_kappas(self) -> Float[np.ndarray, "2"]:
        """Return logs of both upper limits, for `dp.rero_bound`: fixed, nearest.

        Neither bounds every attacker: a guess that is no record, such as the mean of a
        cluster, may be right more often. `priors.empirical` has a limit that does.
        """
        return np.log([self.fixed[2], self.nearest[2]])

    def __str__(self) -> str:
        both = (self.fixed, self.nearest)
        one, other = (
            f"{rate:.3g} (at most {rounded_up(high, 3)})" for rate, _, high in both
        )
        return (
            f"one fixed guess is right for {one}, the nearest other record for {other}"
        )


def kappa_from(
    records: Shaped[np.ndarray, "records ..."],
    *,
    error: Callable[[np.ndarray, np.ndarray], Float[np.ndarray, " records"]],
    threshold: Number,
    confidence: Number = 0.95,
) -> Baseline:
    """Measure how often a record is guessed without the release.

    Guesses are chosen on one half of the records, and counted on the other. With n
    records no limit is below about 6 / n (at 95 %). For a limit that holds for every
    guess, and a metric, see `priors.empirical`.

    Args:
      records: at least 4 independent draws from the distribution of the target given
        all else that is known, none twice. Their order doesn't count: it is drawn anew,
        as halves of sorted records differ.
      error: (a guess, records), both float64 -> the error of the guess at each record.
      threshold: the largest error that counts as success.
      confidence: the confidence of each upper limit, in [0.5, 1).
    """
    # Bytes would wrap in the user's differences.
    records = domain.finite("records", records)
    domain.integer("records", len(records), 4)
    limit = float(domain.finite("threshold", threshold))
    level = float(domain.probability("confidence", confidence))
    domain.require("confidence", level, 0.5 <= level < 1, "in [0.5, 1)")
    shuffled = records[np.random.default_rng(0).permutation(len(records))]
    half, held_out = np.array_split(shuffled, 2)

    def near(guess: np.ndarray, others: np.ndarray) -> np.ndarray:
        errors = domain.numbers("error", error(guess, others))
        if errors.shape != (len(others),):
            raise domain.FieldError(
                "error",
                f"Expected {{}} to return one number per record, ({len(others)},),"
                f" got {errors.shape}.",
            )
        domain.require("error", errors, ~np.isnan(errors), "to be no NaN")
        return errors <= limit

    tried = half[:_TRIED]
    counts = np.array([near(guess, half).sum() for guess in tried])
    best = tried[np.argsort(counts)[::-1][:_MEANS]]
    guesses = [*best, half.mean(axis=0)]
    sizes = np.unique(np.geomspace(1, len(half), _SIZES).astype(int))
    for one in best:  # means of clusters, also where no record is near another
        order = np.argsort(error(one, half))
        guesses += [half[order[:size]].mean(axis=0) for size in sizes]
    guess = max(guesses, key=lambda one: int(near(one, half).sum()))
    covered = np.zeros(len(held_out), bool)
    for other in half:
        covered |= near(other, held_out)

    def rate(right: np.ndarray) -> tuple[float, float, float]:
        many = int(right.sum())
        limits = rates.clopper_pearson(many, len(right), 2 * level - 1)
        return many / len(right), *limits

    return Baseline(
        guess=guess,
        fixed=rate(near(guess, held_out)),
        nearest=rate(covered),
        confidence=level,
    )
