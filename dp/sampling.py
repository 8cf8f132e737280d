"""Privacy of DP-SGD from the numbers of its script: records, batch, epochs, sampling.

    import dp
    batches = dp.Batches(records=60000, batch=256, epochs=15, sampling="shuffled")
    run = batches.mechanism(noise_multiplier=1.1, relation="zero_out")
    print(dp.rero_bound(run, kappa=0.01))

How batches are drawn decides what the noise protects: gamma is 0.884 here, but 0.0211
under Poisson sampling. So `assumption` says what a bound assumes of the batches, and
which mechanism to use if yours aren't drawn so. `informed bound` and `informed
calibrate` make `Batches`, and `calibration` takes them.
"""

import dataclasses
import math

from dp import domain
from dp.allocation import RandomAllocation
from dp.domain import Number
from dp.mechanisms import Composition, Gaussian, PoissonGaussian
from dp.participation import FixedSizeGaussian, RevealedGaussian, in_a_batch
from dp.rero import rounded_up

SAMPLINGS = ("poisson", "allocation", "shuffled", "fixed")
Run = (
    Gaussian | PoissonGaussian | FixedSizeGaussian | RevealedGaussian | RandomAllocation
)
# For bounds that count no other secret. Whoever knows the noise can subtract it.
_NOISE_ALONE = "Only the noise has to be secret, with the seed that it is drawn from"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batches:
    """The way in which training draws its batches.

    Every form needs clipped gradients of single records, noise of standard deviation
    noise_multiplier * clip_norm on their sum, and a public number to divide it by (not
    the secret size of a batch).

    Attributes:
      records: N, the number of training records; public.
      batch: B, the number of records in a batch, the expected one of "poisson".
      epochs: passes over the data; each is ceil(N / B) steps.
      sampling: who takes part in a step.
        "poisson": every record with probability B / N, independently of all else, and
          in secret.
        "allocation": each epoch every record joins one random step, independently of
          all other records, and in secret. Sizes of batches vary
          around N / ceil(N / B).
        "shuffled": each epoch is a new order, or always the same one, cut into batches,
          so a record takes part in exactly one step an epoch. Only the noise has to be
          secret: the bound holds against an adversary who knows the order, and doesn't
          count what shuffling may hide. No batch may hold a record twice.
        "fixed": each step draws B records anew, without replacement, in secret.
    """

    records: int
    batch: int
    epochs: int
    sampling: str

    def __post_init__(self) -> None:
        in_a_batch(self.records, self.batch)
        domain.integer("epochs", self.epochs, 1)
        if self.sampling == "weighted":
            raise domain.FieldError(
                "sampling",
                "{} = 'weighted' has no bound from records and batch: some records are"
                " drawn more often. If every record joins a step independently and in"
                " secret, give steps and the sampling_probability of the likeliest.",
            )
        domain.choice("sampling", self.sampling, SAMPLINGS)
        domain.integer("epochs * steps an epoch", self.steps, 1)

    @property
    def steps(self) -> int:
        """Return the steps of training, the last batch of an epoch included."""
        return self.epochs * self.steps_an_epoch

    @property
    def steps_an_epoch(self) -> int:
        """Return the steps of one epoch, ceil(N / B)."""
        return -(-self.records // self.batch)

    @property
    def sampling_probability(self) -> float:
        """A record's probability to be in a step: B / N, or 1 / steps_an_epoch."""
        if self.sampling == "allocation":
            return 1 / self.steps_an_epoch
        return self.batch / self.records

    def mechanism(self, *, noise_multiplier: Number, relation: str) -> Run:
        """Return the mechanism that `dp.rero_bound` takes.

        Raises: ValueError: an argument outside its range; "shuffled" with
          "add_or_remove": removing a record moves others into other batches.
        """
        if self.sampling == "poisson":
            return PoissonGaussian(
                noise_multiplier=noise_multiplier,
                sampling_probability=self.sampling_probability,
                steps=self.steps,
                relation=relation,
            )
        if self.sampling == "allocation":
            return RandomAllocation(
                noise_multiplier=noise_multiplier,
                steps=self.steps_an_epoch,
                epochs=self.epochs,
                relation=relation,
            )
        if self.sampling == "fixed":
            return FixedSizeGaussian(
                noise_multiplier=noise_multiplier,
                records=self.records,
                batch=self.batch,
                steps=self.steps,
                relation=relation,
            )
        if relation == "add_or_remove" and self.batch < self.records:
            raise domain.FieldError(
                "relation",
                "Expected {} to be zero_out or replace_one where batches are shuffled,"
                " got 'add_or_remove': removing a record moves others into other"
                " batches. Use zero_out.",
            )
        return Gaussian(
            noise_multiplier=noise_multiplier, steps=self.epochs, relation=relation
        )

    def assumption(self, run: Run) -> "Assumption":
        """Return what the bound of `run`, made by `mechanism`, assumes of batches."""
        if self.batch == self.records or self.sampling != "shuffled":
            return assumption(run, epochs=self.epochs)
        any_step = Gaussian(
            noise_multiplier=run.noise_multiplier,
            steps=self.steps,
            relation=run.relation,
        )
        text = (
            "shuffled batches: each record is in exactly one batch an epoch,"
            f" {_times(self.epochs)} in all. {_NOISE_ALONE}, and"
            " shuffling isn't counted as protection"
        )
        condition = f"a record may be in each of the {self.steps} batches"
        return Assumption(text=text, otherwise=((condition, any_step),))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assumption:
    """The assumption on batches under which a bound holds.

    Attributes:
      text: the assumption in words.
      otherwise: pairs (a condition in words, the mechanism whose bound holds under it);
        may be empty.
    """

    text: str
    otherwise: tuple[tuple[str, Gaussian | RevealedGaussian], ...] = ()


def assumption(run: Run | Composition, *, epochs: int | None = None) -> Assumption:
    """Return what the bound of a mechanism assumes of the batches.

    Args:
      run: one of `Run`, or a `Composition`, which assumes what its parts assume.
      epochs: passes of shuffled batches over the data in `run.steps` steps. None: the
        most there can be, since an epoch has at least floor(1 / q) steps.
    """
    if isinstance(run, RandomAllocation):
        return _allocated(run)
    if isinstance(run, Composition):
        texts = "; then ".join(assumption(part).text for part in run.parts)
        condition = f"a record may be in each of the {run.steps} batches"
        return Assumption(text=texts, otherwise=((condition, run.full),))
    batches = isinstance(run, Gaussian) or hasattr(run, "sampling_probability")
    domain.require("run", run, batches, "to be a mechanism of batches")
    if isinstance(run, Gaussian) or run.sampling_probability == 1:
        alone = ""
        if run.relation == "add_or_remove":
            alone = (
                ", and removing a record leaves every other one in the batches that it"
                " was in, which isn't so where batches are cut from an order: for these"
                " use zero_out"
            )
        text = f"no record is in more than {run.steps} of the batches, as with full"
        return Assumption(text=f"{text} batches{alone}. {_NOISE_ALONE}")
    if run.relation == "replace_one" and isinstance(run, PoissonGaussian):
        text = f"no record is in more than {run.steps} of the batches: under"
        counted = "replace_one Poisson sampling isn't counted"
        return Assumption(text=f"{text} {counted}. {_NOISE_ALONE}")
    q = rounded_up(float(run.sampling_probability), 4)
    otherwise = _instead(run, epochs)
    if isinstance(run, RevealedGaussian):
        text = (
            f"each record is in each of {run.steps} batches with probability {q};"
            f" gamma is the mean over draws. {_NOISE_ALONE}"
        )
        return Assumption(text=text, otherwise=otherwise[:1])
    if isinstance(run, FixedSizeGaussian):
        text = (
            f"secret batches of fixed size: each of {run.steps} steps draws"
            f" {run.batch} of {run.records} records anew, and the adversary isn't told"
            " which, nor the noise or its seed"
        )
    else:
        text = (
            f"secret Poisson sampling: each record is in each of {run.steps} batches"
            f" with probability {q}, independently of all else, and the adversary"
            " isn't told in which, nor the noise or its seed"
        )
    return Assumption(text=text, otherwise=otherwise)


def _allocated(run: RandomAllocation) -> Assumption:
    """Return what secret allocation assumes, and what holds if it is known."""
    joins = f"joins one of {run.steps} steps of an epoch, {_times(run.epochs)} in all"
    if run.relation == "replace_one":
        counted = "under replace_one allocation isn't counted as protection"
        return Assumption(text=f"each record {joins}: {counted}. {_NOISE_ALONE}")
    text = (
        f"secret random allocation: each record {joins}, uniformly, anew in each epoch"
        " and independently of all other records, so that batches vary in size; the"
        " adversary isn't told which, nor the noise or its seed"
    )
    condition = (
        "batches are cut from a shuffled order instead, or the adversary knows who is"
        " in which batch"
    )
    known = dataclasses.replace(run.full, relation="zero_out")
    return Assumption(text=text, otherwise=((condition, known),))


def _instead(
    run: PoissonGaussian | FixedSizeGaussian | RevealedGaussian, epochs: int | None
) -> tuple[tuple[str, Gaussian | RevealedGaussian], ...]:
    """Return (condition, mechanism) pairs: batches are drawn otherwise, or known."""
    q = float(run.sampling_probability)
    if epochs is None:
        # An epoch that drops its incomplete last batch has floor(1 / q) steps. Then the
        # target takes part more often than steps * q times.
        an_epoch = math.floor(min(1 / q * (1 + 1e-12), run.steps))
        epochs = math.ceil(run.steps / an_epoch)
    relation = "replace_one" if run.relation == "replace_one" else "zero_out"
    sigma = run.noise_multiplier
    shuffled = Gaussian(noise_multiplier=sigma, steps=epochs, relation=relation)
    known = RevealedGaussian(
        noise_multiplier=sigma,
        sampling_probability=q,
        steps=run.steps,
        relation=relation,
    )
    often = (
        f"batches are shuffled, and each record is in one an epoch, {_times(epochs)}"
    )
    mean = (
        "the adversary knows who is in which batch (mean over draws; a record that was"
        " drawn more often is protected less)"
    )
    return (f"{often} in all", shuffled), (mean, known)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
