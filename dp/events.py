"""Bound training that an event of dp-accounting describes: events to mechanisms.

    run = dp.from_event(event, relation="add_or_remove")
    event = run.event()                      # the way back, for its accountants

A plan of jax-privacy has such an event (see `histories`). An event names no
neighbouring relation, and accountants differ in what "replace_one" doubles: here the
sensitivity of Gaussian and Laplace noise. An event's noise_multiplier is taken as the
noise's standard deviation (Laplace: scale) over the most that removing one record moves
the sum.
"""

from collections.abc import Iterator

from dp import domain
from dp.composition import Composition
from dp.guarantee import DpEvent, Guarantee
from dp.mechanisms import Gaussian, PoissonGaussian
from dp.participation import FixedSizeGaussian
from dp.published import Laplace, ZeroConcentratedDP


def from_event(event: DpEvent, *, relation: str) -> Guarantee:
    """Return the mechanism of an event.

    Raises: FieldError: no mechanism here covers the event.
    """
    parts = [_part(one, count, relation) for one, count in _steps(event, 1)]
    if len(parts) == 1:
        return parts[0]
    sampled = [_sampled(part) for part in parts]
    if not parts or None in sampled:
        raise _refused(event)
    return Composition(parts=tuple(part for part in sampled if part is not None))


def _sampled(part: Guarantee) -> PoissonGaussian | None:
    """Return the part as Poisson sampling, full batches as q = 1; None: neither."""
    if isinstance(part, Gaussian) and not isinstance(part.noise_multiplier, tuple):
        return PoissonGaussian(
            noise_multiplier=part.noise_multiplier,
            sampling_probability=1.0,
            steps=part.steps,
            relation=part.relation,
        )
    return part if isinstance(part, PoissonGaussian) else None


def _steps(event: DpEvent, times: int) -> Iterator[tuple[DpEvent, int]]:
    """Take compositions apart: (event, how often in a row)."""
    from dp_accounting import dp_event

    if isinstance(event, dp_event.SelfComposedDpEvent):
        yield from _steps(event.event, event.count * times)
    elif isinstance(event, dp_event.ComposedDpEvent):
        for one in event.events:
            yield from _steps(one, times)
    elif not isinstance(event, dp_event.NoOpDpEvent):
        yield event, times


def _part(event: DpEvent, steps: int, relation: str) -> Guarantee:
    from dp_accounting import dp_event

    if isinstance(event, dp_event.GaussianDpEvent):
        sigma = event.noise_multiplier
        return Gaussian(noise_multiplier=sigma, steps=steps, relation=relation)
    if isinstance(event, dp_event.LaplaceDpEvent) and steps == 1:
        moved = 2.0 if relation == "replace_one" else 1.0
        return Laplace(eps=moved / event.noise_multiplier, relation=relation)
    if isinstance(event, dp_event.ZCDpEvent) and not event.xi:
        return ZeroConcentratedDP(rho=steps * event.rho, relation=relation)
    inner = getattr(event, "event", None)
    if isinstance(inner, dp_event.GaussianDpEvent):
        if isinstance(event, dp_event.PoissonSampledDpEvent):
            return PoissonGaussian(
                noise_multiplier=inner.noise_multiplier,
                sampling_probability=event.sampling_probability,
                steps=steps,
                relation=relation,
            )
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
