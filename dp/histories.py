"""Bound training with Opacus or jax-privacy, from what its accountant kept.

    history = dp.History.of(json.load(open("history.json")))
    print(dp.rero_bound(history.mechanism("zero_out"), kappa=0.01))     # see `rero`

Two formats are read (of Opacus 1.6 and jax-privacy 2.0):

Opacus        `accountant.state_dict()`: "history", a list of (noise multiplier, sample
              rate, steps), and "mechanism", the name of its accountant
jax-privacy   `dataclasses.asdict` of `accounting.analysis.DpParams`, with
              "num_updates", the steps that were made, beside its fields

`dp.from_event(plan.dp_event, relation="add_or_remove")` reads events of dp-accounting,
such as an execution plan of jax-privacy has. An event names no neighbouring relation,
and accountants differ in what "replace_one" doubles: here the sensitivity of Gaussian
and Laplace noise. An event's noise_multiplier is taken as the noise's standard
deviation (Laplace: scale) over the most that removing one record moves the sum.

`informed bound --from` and users call this. No history proves that batches were drawn
as the library assumes, so the command prints every bound with its assumption. Settings
that changed are composed under Poisson sampling; with batches of fixed size the worst
count for all steps.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dp import domain
from dp.guarantee import Guarantee
from dp.mechanisms import Composition, Gaussian, PoissonGaussian
from dp.participation import FixedSizeGaussian
from dp.published import Laplace, ZeroConcentratedDP
from dp.sampling import Run

DpEvent = Any  # dp_accounting's, whose import takes a second
_ACCOUNTANTS = ("rdp", "prv", "gdp")  # of Opacus
# Fields of jax-privacy's DpParams that extend DP-SGD -> the values that don't.
_MORE: dict[str, tuple[int | None, ...]] = {
    "examples_per_user": (None, 1),
    "cycle_length": (None, 1),
    "truncated_batch_size": (None,),
}
# All fields that are read: an unknown one may change how much noise was added.
_OPACUS = ("history", "mechanism")
_DP_PARAMS = (
    "noise_multipliers", "num_samples", "delta", "batch_size", "num_updates",
    "batch_size_scale_schedule", "batch_sizes", "is_finite_guarantee",
    "sampling_method", *_MORE,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """The noise, sampling and steps of a private training, from its history.

    Attributes:
      noise_multiplier: sigma, the least of all steps.
      steps: T, the number of steps.
      sampling_probability: q of a record in a step, the largest; None: batches of
        fixed size.
      records: N, the number of training records; None: not kept.
      batch: B, the records in a batch, where its size is fixed, the largest.
      source: the library, "Opacus" or "jax-privacy".
      changed: whether settings changed in the course of training.
      runs: (noise multiplier, sampling probability, steps), in their order, where
        batches are by Poisson sampling and settings changed.
    """

    noise_multiplier: float
    steps: int
    sampling_probability: float | None
    records: int | None = None
    batch: int | None = None
    source: str
    changed: bool = False
    runs: tuple[tuple[float, float, int], ...] = ()

    def __post_init__(self) -> None:
        # The mechanism refuses values that are out of range.
        self.mechanism("zero_out")

    @classmethod
    def of(cls, values: Any) -> "History":
        """Read a history of Opacus or jax-privacy, as loaded from JSON.

        Raises: FieldError: a field is missing, unknown or out of range; no bound here
          covers such a training.
        """
        if not isinstance(values, Mapping):
            raise domain.FieldError(
                "history",
                f"Expected {{}} to be an object, got {type(values).__name__}.",
            )
        if "history" in values:
            return _opacus(values)
        if "noise_multipliers" in values:
            return _jax_privacy(values)
        raise domain.FieldError(
            "history",
            "Expected {} to be what Opacus keeps (fields history, mechanism)"
            " or jax-privacy's DpParams (noise_multipliers, num_samples, batch_size,"
            " num_updates, ...); it has"
            f" {', '.join(map(str, values)) or 'no field'}.",
        )

    def mechanism(self, relation: str) -> Run | Composition:
        """Return the mechanism that `dp.rero_bound` takes.

        Args:
          relation: the neighbouring relation; "zero_out" is always valid for
            reconstruction.
        """
        if not self.runs:
            return self.worst(relation)
        return Composition(parts=tuple(_sampled(*run, relation) for run in self.runs))

    def worst(self, relation: str) -> Run:
        """Return the mechanism of the worst settings; `informed bound` describes it."""
        sigma, steps = self.noise_multiplier, self.steps
        if self.sampling_probability is None:
            everybody = self.batch == self.records
            if self.changed and everybody and relation == "add_or_remove":
                # Removing a record from a full batch moves the sum by C; from a smaller
                # one, where another record fills its slot, by up to 2 C.
                sigma /= 2
                return Gaussian(noise_multiplier=sigma, steps=steps, relation=relation)
            if self.records is None or self.batch is None:
                raise domain.FieldError(
                    "sampling_probability",
                    "Expected {}, or records and batch of batches of a fixed size.",
                )
            return FixedSizeGaussian(
                noise_multiplier=sigma,
                records=self.records,
                batch=self.batch,
                steps=steps,
                relation=relation,
            )
        if self.sampling_probability == 1:
            return Gaussian(noise_multiplier=sigma, steps=steps, relation=relation)
        return _sampled(sigma, self.sampling_probability, steps, relation)


def _sampled(sigma: float, q: float, steps: int, relation: str) -> PoissonGaussian:
    return PoissonGaussian(
        noise_multiplier=sigma, sampling_probability=q, steps=steps, relation=relation
    )


def _opacus(values: Mapping[str, Any]) -> History:
    _known(values, _OPACUS)
    name = values.get("mechanism")
    allowed = f"of Opacus to be one of {', '.join(_ACCOUNTANTS)}"
    domain.require("mechanism", name, name in _ACCOUNTANTS, allowed)
    history = values["history"]
    if not (isinstance(history, list) and history) or not all(
        isinstance(entry, list | tuple) and len(entry) == 3 for entry in history
    ):
        raise domain.FieldError(
            "history",
            "Expected {} to be a list of (noise multiplier, sample rate, steps) with at"
            f" least one step of training, got {history!r:.80}.",
        )
    sigmas, rates = (
        [_number("history", entry[i]) for entry in history] for i in (0, 1)
    )
    steps = [_count("history", entry[2]) for entry in history]
    noisy = np.array(sigmas) > 0
    domain.require("history", sigmas, noisy, "to have noise in each step")
    domain.share("history", rates)
    changed = len(set(zip(sigmas, rates, strict=True))) > 1
    return History(
        noise_multiplier=min(sigmas),
        steps=sum(steps),
        sampling_probability=max(rates),
        source="Opacus",
        changed=changed,
        runs=tuple(zip(sigmas, rates, steps, strict=True)) if changed else (),
    )


def _jax_privacy(values: Mapping[str, Any]) -> History:
    _known(values, _DP_PARAMS)
    for name in ("num_samples", "batch_size", "num_updates"):
        if values.get(name) is None:
            raise domain.FieldError(
                name,
                "Expected {} beside noise_multipliers: DpParams of jax-privacy as a"
                " dictionary, with num_updates, the steps that were made.",
            )
    for name, plain in _MORE.items():
        if values.get(name) not in plain:
            raise domain.FieldError(
                name,
                f"{{}} is {values[name]!r}: no bound here is for such a training.",
            )
    if not values.get("is_finite_guarantee", True):
        raise domain.FieldError(
            "is_finite_guarantee", "{} is false: such a training guarantees nothing."
        )
    noise = _over_steps("noise_multipliers", values["noise_multipliers"])
    sigmas = [sigma for _, sigma in noise]
    noisy = np.array(sigmas) > 0
    domain.require("noise_multipliers", sigmas, noisy, "> 0 in each step")
    schedules = [_over_steps("batch_size", values["batch_size"])]
    sizes = values.get("batch_sizes")
    if values.get("batch_size_scale_schedule") or sizes is not None:
        # DpParams computes these (step, size) pairs itself. The larger size counts.
        schedules.append(_over_steps("batch_sizes", sizes))
    sizes = [size for schedule in schedules for _, size in schedule]
    records = _count("num_samples", values["num_samples"])
    batch = _count("batch_size", max(sizes))
    domain.require("batch_size", batch, batch <= records, f"at most {records} records")
    # JSON can't hold this enumeration, so it is easily left out; its default, POISSON,
    # protects far more.
    if "sampling_method" not in values:
        raise domain.FieldError(
            "sampling_method",
            "Expected {}, by its name (POISSON or FIXED_BATCH_SIZE), got none: how"
            " batches are drawn decides what noise protects.",
        )
    method = str(values["sampling_method"]).rpartition(".")[2].upper()
    known = method in ("POISSON", "FIXED_BATCH_SIZE")
    domain.require(
        "sampling_method", method, known, "to be POISSON or FIXED_BATCH_SIZE"
    )
    poisson, steps = method == "POISSON", _count("num_updates", values["num_updates"])
    changed = len(set(sigmas)) > 1 or len(set(sizes)) > 1
    starts = sorted({start for one in (noise, *schedules) for start, _ in one})
    starts = [start for start in starts if start < steps]
    runs = tuple(
        (
            _at(noise, start),
            max(_at(one, start) for one in schedules) / records,
            int(end - start),
        )
        for start, end in zip(starts, [*starts[1:], steps], strict=True)
    )
    return History(
        noise_multiplier=min(sigmas),
        steps=steps,
        sampling_probability=batch / records if poisson else None,
        records=records,
        batch=batch,
        source="jax-privacy",
        changed=changed,
        runs=runs if poisson and changed else (),
    )


def _at(schedule: list[tuple[int, float]], step: int) -> float:
    """Return the value that holds at a step."""
    return [value for start, value in schedule if start <= step][-1]


def _known(values: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    """Raise FieldError where a field is unknown."""
    for name in values:
        if name not in fields:
            raise domain.FieldError(
                str(name),
                "{} is a field that isn't known here, and may change what the noise"
                f" protects. Known: {', '.join(fields)}.",
            )


def _over_steps(field: str, value: Any) -> list[tuple[int, float]]:
    """Return (step, number) pairs of a schedule, from step 0; one number: always."""
    if not isinstance(value, list | tuple) or not value:
        return [(0, _number(field, value))]
    if not all(isinstance(one, list | tuple) and len(one) == 2 for one in value):
        raise domain.FieldError(
            field, f"Expected {{}} to be (step, value) pairs, got {value!r:.80}."
        )
    steps = [_number(field, step) for step, _ in value]
    domain.require(field, steps[0], steps[0] == 0, "to begin at step 0")
    whole = np.equal(np.round(steps), steps) & (np.diff(steps, prepend=-1) > 0)
    domain.require(field, steps, whole, "to have whole steps in their order")
    return [(int(step), _number(field, number)) for step, number in value]


def _number(field: str, value: Any) -> float:
    if getattr(value, "shape", None) == ():  # a number of NumPy's or JAX's
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise domain.FieldError(
            field, f"Expected {{}} to be made of numbers, got {value!r:.80}."
        )
    return float(domain.finite(field, value))


def _count(field: str, value: Any) -> int:
    number = _number(field, value)
    whole = number >= 1 and number == int(number)
    domain.require(field, value, whole, "a whole number >= 1")
    return int(number)


def from_event(event: DpEvent, *, relation: str) -> Guarantee:
    """Return the mechanism of an event.

    Raises: FieldError: no mechanism here covers the event.
    """
    parts = [_part(one, count, relation) for one, count in _events(event, 1)]
    if len(parts) == 1:
        return parts[0]
    sampled = [_as_sampled(part) for part in parts]
    if not parts or None in sampled:
        raise _refused(event)
    return Composition(parts=tuple(part for part in sampled if part is not None))


def _as_sampled(part: Guarantee) -> PoissonGaussian | None:
    """Return the part as Poisson sampling, full batches as q = 1; None: neither."""
    if isinstance(part, Gaussian) and not isinstance(part.noise_multiplier, tuple):
        return _sampled(part.noise_multiplier, 1.0, part.steps, part.relation)
    return part if isinstance(part, PoissonGaussian) else None


def _events(event: DpEvent, times: int) -> Iterator[tuple[DpEvent, int]]:
    """Take compositions apart: (event, how often in a row)."""
    from dp_accounting import dp_event

    if isinstance(event, dp_event.SelfComposedDpEvent):
        yield from _events(event.event, event.count * times)
    elif isinstance(event, dp_event.ComposedDpEvent):
        for one in event.events:
            yield from _events(one, times)
    elif not isinstance(event, dp_event.NoOpDpEvent):
        yield event, times


def _part(event: DpEvent, steps: int, relation: str) -> Guarantee:
    from dp_accounting import dp_event

    if isinstance(event, dp_event.GaussianDpEvent):
        sigma = event.noise_multiplier
        return Gaussian(noise_multiplier=sigma, steps=steps, relation=relation)
    if isinstance(event, dp_event.LaplaceDpEvent) and steps == 1:
        moved = 2.0 if relation == "replace_one" else 1.0
        domain.finite_above("noise_multiplier", event.noise_multiplier, 0)
        return Laplace(eps=moved / event.noise_multiplier, relation=relation)
    if isinstance(event, dp_event.ZCDpEvent) and not event.xi:
        return ZeroConcentratedDP(rho=steps * event.rho, relation=relation)
    inner = getattr(event, "event", None)
    if isinstance(inner, dp_event.GaussianDpEvent):
        if isinstance(event, dp_event.PoissonSampledDpEvent):
            q = event.sampling_probability
            return _sampled(inner.noise_multiplier, q, steps, relation)
        if isinstance(event, dp_event.SampledWithoutReplacementDpEvent):
            return FixedSizeGaussian(
                noise_multiplier=inner.noise_multiplier,
                records=event.source_dataset_size,
                batch=event.sample_size,
                steps=steps,
                relation=relation,
            )
    raise _refused(event)


def _refused(event: object) -> domain.FieldError:
    return domain.FieldError(
        "event",
        "Expected {} of Gaussian steps (full, Poisson-sampled or without replacement),"
        f" one Laplace or rho of zero-concentrated privacy, got {event!r:.90}. Compose"
        " its privacy losses yourself: dp.LossDistribution takes them.",
    )
