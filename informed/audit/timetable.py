"""Plan an audit's time: how many models and targets, and how long for every attack.

`auditing` gives every part a share of the user's time limit, so that no attack leaves
others none. Unused time goes to later parts. `audit_state` asks how many minutes to
advise, and `trials` which attacks audits play (`rows`). `preflight` asks how busy other
jobs keep the machine (`others_at_work`), and `auditing` uses fewer threads beside them
(`threads_beside`). Nothing is trained here.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Collection, Iterator, Sequence

import threadpoolctl

from informed.attacks import registry
from informed.attacks.attack_row import Facts, Row
from shadow import checks, devices, limits

# Shares of the time after the pre-flight for parts that aren't attacks; attacks have
# their own (`Row.share`). A kernel regression on 900 models of 25,450 weights takes 6 s
# of one core, 28 s while other jobs run.
_SHADOWS = 0.2
_NOISE = 0.3


def rows() -> list[Row]:
    """Return the attacks that audits play, in the order in which they are played."""
    return [row for row in registry.rows().values() if row.audited]


def shares() -> dict[str, float]:
    """Return the share of the time of every part of an audit, in order."""
    parts: dict[str, float] = {}
    for row in rows():
        if row.shadows:
            parts.setdefault("shadow models", _SHADOWS)
        parts[row.title] = row.share
    return parts | {"noise": _NOISE}


# Largest share of the time for training released models. A larger one would leave too
# little for the attacks.
RELEASED = 0.1
# Largest share of the time for an inversion, given if it then finishes a record.
_MOST_INVERSION = 0.75
# An inversion may take this many times the estimated time.
_MARGIN = 1.25
# Round numbers of minutes to advise for `--minutes`.
_ROUND = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440)
_INVERSION = registry.find("inversion").share
_MOST_SHADOWS, FEWEST_SHADOWS = 5000, 30
# The pre-flight reports other jobs if they use at least this share of the cores.
BUSY = 0.5
# Share of the machine's memory for the weights of shadow models.
_MEMORY = 1 / 8
# Full finite-difference Jacobians that an inversion without derivatives takes, about.
_COLUMNS = 3
# Trainings per label to rank labels without derivatives.
_LABEL_COLUMNS = 61


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """How many targets and shadow models an audit can afford, and its inversion's time.

    Attributes:
      targets: number of records to attack.
      most_shadows: largest number of shadow models; time may allow fewer.
      inversion_seconds: estimated time of the inversion; 0: it would finish no record.
      inversion_of_one: estimated seconds to invert one record, shared work included.
    """

    targets: int
    most_shadows: int
    inversion_seconds: float
    inversion_of_one: float


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
    passed: float = 0.0,
) -> Budget:
    """Return how many records, models and seconds an audit can afford.

    Args:
      minutes: time limit of the whole audit.
      seconds_a_model: measured with as many models in parallel as the machine trains.
      targets: number asked for; reduced if training them takes over a tenth of the
        time.
      public: number of records that shadow models can be trained on.
      params, features, num_classes: length of theta, of a record, number of labels.
      differentiable: whether derivatives cost little more than a training.
      passed: seconds of the time limit that are already used.
    Raises: FieldError: the time isn't enough for one target.
    """
    seconds = 60 * minutes - passed
    affordable = int(RELEASED * seconds / seconds_a_model)
    if affordable < 1:
        enough = (passed + seconds_a_model / RELEASED) / 60
        before = f"the pre-flight took {passed:.0f} s, and " if passed else ""
        raise checks.FieldError(
            "minutes",
            f"Expected {{}} >= {enough:.3g}: {before}a model takes"
            f" {seconds_a_model:.3g} s; got {minutes:g}.",
        )
    # Estimated trainings of an inversion, a record: 200, and more without derivatives.
    columns = 0 if differentiable else _COLUMNS * features + 76
    labels = 0 if differentiable else _LABEL_COLUMNS * num_classes
    count, a_record = (
        min(targets, affordable),
        (200 + columns + labels) * seconds_a_model,
    )
    memory = int(_MEMORY * devices.memory_bytes() / (4 * max(params, 1)))
    most = min(public, memory, _MOST_SHADOWS)
    return Budget(
        targets=count,
        most_shadows=most if most >= FEWEST_SHADOWS else 0,
        inversion_seconds=of_inversion(seconds, a_record, count),
        inversion_of_one=a_record,
    )


def of_inversion(seconds: float, a_record: float, records: int) -> float:
    """Return an inversion's seconds: its share, or more if that finishes records.

    Args:
      seconds: time that is left for the whole audit.
      a_record: estimated seconds per record.
      records: number of records to invert.
    Returns: seconds; 0 if it would finish no record.
    """
    if a_record > _MOST_INVERSION * seconds:
        return 0.0
    wished = max(_INVERSION * seconds, _MARGIN * a_record * records)
    return min(wished, _MOST_INVERSION * seconds)


def advised(
    a_record: float,
    records: int,
    *,
    secret: bool = False,
    before: float = 0.0,
    given: float = 0.0,
) -> int:
    """Return the minutes in which an inversion finishes all its records.

    Args:
      a_record: seconds that it needs, about.
      records: number of records to invert.
      secret: whether the key is secret: then the inversion gets its share alone.
      before: seconds of what comes before it, such as the pre-flight.
      given: minutes that weren't enough.
    """
    share = _INVERSION if secret else _MOST_INVERSION / _MARGIN
    return more_than(given, (before + a_record * records / share) / 60)


def more_than(given: float, enough: float = 0.0) -> int:
    """Return round minutes: more than those given, and at least `enough`."""
    fitting = (m for m in _ROUND if m >= enough and m > given)
    return next(fitting, 1440 * (math.floor(max(given, enough) / 1440) + 1))


class Schedule:
    """How much of the remaining time each part of an audit may take.

    A part that is skipped or ends early leaves its time to later parts. Time that is
    left at the end goes to an inversion that has finished at least one target.

    Attributes:
      clock: clock of the whole audit.
      parts: names of the parts that will run, in the order of `shares`.
      inverted: (seconds per record, records) of an inversion, which may take more than
        its share if that finishes records; None: it takes its share.
    """

    def __init__(
        self,
        clock: limits.Clock,
        parts: Sequence[str],
        inverted: tuple[float, int] | None = None,
    ) -> None:
        self.clock, self.parts, self.inverted = clock, tuple(parts), inverted

    def limit(self, part: str) -> float:
        """Return the seconds for the part that begins now; earlier parts are over."""
        seconds = self.clock.left
        if part == "inversion" and self.inverted is not None:
            most = of_inversion(seconds, *self.inverted)
            if most:
                return most
        share, to_come = shares(), self.parts[self.parts.index(part) :]
        return seconds * share[part] / sum(share[name] for name in to_come)


def schedule(
    clock: limits.Clock,
    budget: Budget,
    facts: Facts,
    *,
    skip: Collection[str],
    reconn: bool,
    noise: bool,
) -> Schedule:
    """Return the schedule of the parts of `shares` that will run.

    Args:
      clock: clock of the whole audit.
      budget: numbers of targets and models, from `plan`.
      facts: facts about the training, which decide what attacks apply.
      skip: parts to leave out.
      reconn: whether the user asked for the refining network.
      noise: whether training declares or takes a noise multiplier, for `noise_game`.
    """
    running = {"noise"} if noise else set()
    for row in rows():
        if row.why_not(facts) or (row.asked and not reconn):
            continue
        if row.name == "inversion" and not budget.inversion_seconds:
            continue
        if row.shadows and not budget.most_shadows:
            continue
        running.add(row.title)
        if row.shadows and row.title not in skip:
            running.add("shadow models")
    parts = [part for part in shares() if part in running - set(skip)]
    inverted = budget.inversion_of_one, budget.targets
    return Schedule(clock, parts, None if facts.secret else inverted)


@contextlib.contextmanager
def threads_beside(busy: float | None) -> Iterator[None]:
    """Limit NumPy's matrix products to one thread while other jobs use the cores.

    Threads of a product wait for each other: a kernel regression on 900 models took
    115 s with two and 28 s with one while other jobs ran (two cores, load 9).
    """
    one = busy is not None and busy >= BUSY / 2
    with threadpoolctl.threadpool_limits(1 if one else None):
        yield


def others_at_work() -> float | None:
    """Return the share of cores that were busy in the last minute; None: unknown.

    Call it before anything is trained, or it counts the audit's own work.
    """
    if not hasattr(os, "getloadavg"):
        return None
    return min(1.0, os.getloadavg()[0] / devices.num_cores())
