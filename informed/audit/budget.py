"""How many models a time allows."""

import dataclasses
import os

from shadow import checks

_SHADOWS, _INVERSION, _RELEASED = 0.2, 0.45, 0.1  # shares of the time
_MOST_SHADOWS, FEWEST_SHADOWS = 5000, 30
_MEMORY = 1 / 8  # of the machine's, for the weights of shadow models
_COLUMNS = 3  # Jacobians of all columns an inversion takes, about
_LABEL_COLUMNS = 61  # of the ranking of labels


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """What an audit will do.

    Attributes:
      seconds: for everything.
      targets: records that are attacked.
      shadows: models on public records.
      inversion_seconds: after which the inversion stops.
      trainings_an_inversion: about; what all targets share is in the first.
      why: what bounds it, a line each.
    """

    seconds: float
    targets: int
    shadows: int
    inversion_seconds: float
    trainings_an_inversion: int
    why: tuple[str, ...]


def plan(
    *,
    minutes: float,
    seconds_a_model: float,
    targets: int,
    public: int,
    params: int,
    features: int,
    num_classes: int,
    differentiable: bool,
) -> Budget:
    """Divide the time.

    Args:
      minutes: for everything.
      seconds_a_model: measured, with as many at once as the machine trains.
      targets: wished for; fewer where training them takes over a tenth of the time.
      public: records that shadow models can be trained on.
      params, features, num_classes: sizes.
      differentiable: whether derivatives cost little more than a training.
    Raises: FieldError: the time isn't enough for one target.
    """
    checks.positive("minutes", minutes)
    seconds, why = 60 * minutes, []
    affordable = int(_RELEASED * seconds / seconds_a_model)
    if affordable < 1:
        raise checks.FieldError(
            "minutes",
            f"Expected {{}} >= {seconds_a_model / 60 / _RELEASED:.3g}: a model takes"
            f" {seconds_a_model:.3g} s; got {minutes:g}.",
        )
    if affordable < targets:
        why.append(f"{affordable} targets instead of {targets}: time")
    memory = int(_MEMORY * _memory() / (4 * max(params, 1)))
    by_time = int(_SHADOWS * seconds / seconds_a_model)
    limits = {
        "public records": public,
        "memory": memory,
        "time": by_time,
        "enough": _MOST_SHADOWS,
    }
    least = min(limits, key=lambda name: limits[name])
    shadows = limits[least]
    if shadows < FEWEST_SHADOWS:
        why.append(f"no shadow models: only {shadows} ({least})")
        shadows = 0
    elif least in ("memory", "time"):
        why.append(f"{shadows} shadow models: {least}")
    columns = 0 if differentiable else _COLUMNS * features + 76
    return Budget(
        seconds=seconds,
        targets=min(targets, affordable),
        shadows=shadows,
        inversion_seconds=_INVERSION * seconds,
        trainings_an_inversion=200
        + columns
        + (0 if differentiable else _LABEL_COLUMNS * num_classes),
        why=tuple(why),
    )


def _memory() -> int:
    """Of the machine, bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
