"""What can be said of a training function after a few runs of it, before an audit.

Same arguments twice: the same weights? Another target, another order, another key:
other weights? Does JAX trace and differentiate it? How long does a model take? Whatever
voids an audit, or weakens it, becomes a finding with its remedy.
"""

import contextlib
import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import threadpoolctl

from informed.audit import causes, instability, limits, released
from informed.audit.contract import NOISE
from informed.audit.instability import Instability
from informed.audit.subject import Subject
from shadow.factory import models_per_batch
from shadow.parallel import Runs
from shadow.training import JaxFunction, PythonFunction
from shadow.training.algorithm import Algorithm, Draw

LEVELS = ("stops", "weakens", "note")
_PATIENCE = 60.0  # seconds for one question
_SAME = 1e-3  # of the distance between two targets' weights
_PLACES = 8  # in the training set, at which a target is tried
# A place counts as another place where a target there moves the weights so many times
# as far as one at the end. Orders of mini-batches alone make a difference below 1.5 on
# the examples of the documentation.
_FURTHER = 1.5
_BUSY = 0.5  # of the cores at work for others, from which on it is said
_SHORT = 1.0  # seconds of a batch, below which three are timed
# A process's first model that takes longer than this, in terms of one here, imports.
_SLOWER = 1.2
# Of an audit's time, for questions that it can do without.
_SHARE = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about the training function.

    Attributes:
      level: "stops" (there is no audit until it is mended), "weakens" (there is one,
        which finds less or says less), "note".
      what: in a line.
      remedy: what to do, or "".
    """

    level: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.what}" + (
            f" - {self.remedy}" if self.remedy else ""
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Preflight:
    """What was found; `subject` says how models are made from now on.

    Attributes:
      subject: with engine, deterministic, comparable, position and answering as found.
      returned: what training returned for the first target; which attacks apply is
        asked of it.
      findings: most serious first.
      params: length of theta, the weights.
      arrays: names and shapes of what is released.
      seconds_a_model: how long a model takes, with as many at once as this machine
        trains: the time of all, divided by their number.
      seconds_each: how long each of them takes.
      at_once: how many are trained at once.
      busy: share of the cores that was at work for others when times were measured;
        None: the system doesn't tell.
      order_matters, key_matters: whether weights change with them; None: not tried.
      shift: distance between weights of two targets, over their length.
      instability: None: not tried.
      accuracy: of one model, on public records; None: models can't be asked.
      seconds: that all this took.
    """

    subject: Subject
    returned: Any
    findings: tuple[Finding, ...]
    params: int
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    seconds_a_model: float
    seconds_each: float
    at_once: int
    busy: float | None
    order_matters: bool | None
    key_matters: bool | None
    shift: float
    instability: Instability | None
    accuracy: float | None
    seconds: float

    @property
    def stops(self) -> tuple[Finding, ...]:
        """Findings for which there is no audit."""
        return tuple(f for f in self.findings if f.level == "stops")

    @property
    def is_estimator(self) -> bool:
        """Whether training returns one fitted estimator of scikit-learn's."""
        return released.is_estimator(self.returned)


class _Probe:
    """A training function run by hand, in this process, with one thread.

    As it is, until `compiled`: an impure function would draw once and for all.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject, self.seconds = subject, 0.0
        self._call = subject.call()
        self._train = self._call.train

    def compiled(self) -> None:
        """From now on by way of `jax.jit`."""
        call = self._call

        def arrays(*arguments: Any) -> list[Any]:
            # Strings among what is returned can't leave a compiled function.
            return [part.array for part in released.parts(call.train(*arguments))]

        train = jax.jit(arrays)
        self._train = lambda images, labels, key: train(
            jnp.asarray(images), jnp.asarray(labels), jax.random.key(key)
        )

    def at(self, position: int | None, **changed: Any) -> "_Probe":
        """The same with the target at another place, or other noise; not compiled."""
        subject = dataclasses.replace(self.subject, position=position)
        other = _Probe(subject)
        other._call = dataclasses.replace(other._call, **changed)
        other._train = other._call.train
        return other

    def __call__(
        self, data: tuple[np.ndarray, np.ndarray], key: int = 0
    ) -> tuple[Any, np.ndarray]:
        """What the function returns, and theta, float64."""
        started = time.monotonic()
        # Each run has arrays of its own: a function may shuffle them in place.
        images, labels = (each.copy() for each in data)
        with one_thread():
            result = self._train(images, labels, key)
            jax.block_until_ready(jax.tree.leaves(result))
        self.seconds = time.monotonic() - started
        return result, _theta(result)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Foreign code has one thread, as in the processes that models are trained in.

    With as many threads as cores it is slower by up to thirty times where other jobs
    run, and its sums are rounded otherwise.
    """
    torch: Any = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    with threadpoolctl.threadpool_limits(1):
        try:
            if torch is not None:
                torch.set_num_threads(1)
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)


@contextlib.contextmanager
def threads_beside(busy: float | None) -> Iterator[None]:
    """One thread for NumPy's products where other jobs run, else as many as usual.

    Products of two threads wait for each other: a kernel regression on 900 models took
    115 s with two and 28 s with one while other jobs ran (two cores, load 9).
    """
    one = busy is not None and busy >= _BUSY / 2
    with threadpoolctl.threadpool_limits(1 if one else None):
        yield


class _Look:
    """What the pre-flight has found so far: one question a method."""

    def __init__(
        self, subject: Subject, progress: Callable[[str], None], clock: limits.Clock
    ) -> None:
        self.subject, self.progress, self.clock = subject, progress, clock
        self.findings: list[Finding] = []
        self.probe = _Probe(subject)
        self.data = subject.training_set(0)
        self.order_matters: bool | None = None
        self.key_matters: bool | None = None
        self.instability: Instability | None = None
        self.accuracy: float | None = None
        self.apart = 0.0
        self.each = self.seconds = 0.0
        self.at_once = 1

    @property
    def stopped(self) -> bool:
        """Whether there is no audit anyway."""
        return any(finding.level == "stops" for finding in self.findings)

    def say(self, level: str, what: str, remedy: str = "") -> None:
        """Note a finding."""
        self.findings.append(Finding(level=level, what=what, remedy=remedy))

    def affords(self, trainings: int) -> bool:
        """Whether there is time for a question that takes so many trainings by hand."""
        return trainings * self.each < min(_PATIENCE, self.clock.left)

    def first(self) -> None:
        """Train one model.

        Raises: RuntimeError: the function raises.
        """
        self.progress("training one model")
        name = self.subject.contract.name
        try:
            self.returned, self.theta = self.probe(self.data)
        except Exception as error:
            raise RuntimeError(
                f"{name} raised {type(error).__name__}: {first_line(error)}"
                f"{self._missing()}"
            ) from error
        self.each = self.probe.seconds
        self.parts = [
            (part.name, tuple(np.shape(part.array)))
            for part in released.parts(self.returned)
        ]
        bad = int(np.sum(~np.isfinite(self.theta)))
        if bad:
            self.say(
                "stops",
                f"{bad} weights are NaN or infinite",
                "lower the learning rate, or train for fewer steps",
            )
        dropped = released.left_out(self.returned)
        if dropped:
            more = f" and {len(dropped) - 4} more" if len(dropped) > 4 else ""
            self.say(
                "weakens",
                f"no attack reads {', '.join(dropped[:4])}{more}: they hold no numbers",
                "look yourself whether they hold anything of a record, such as words",
            )

    def _missing(self) -> str:
        """Why training may have stumbled: the table's missing values."""
        table = self.subject.table
        names = [] if table is None else [c.name for c in table.columns if c.missing]
        if not names:
            return ""
        return (
            f". Values are missing in {', '.join(names[:4])}: fill them in in train, or"
            " drop these rows"
        )

    def again(self) -> None:
        """Whether the same arguments give the same weights."""
        self.progress("training it again")
        _, again = self.probe(self.data)
        # The first training may have imported and compiled what it needs.
        self.each = self.probe.seconds
        self.noise = 0.0
        if again.shape != self.theta.shape:
            self._other_shape("the same arguments")
            self.deterministic = False
            return
        self.deterministic = np.array_equal(self.theta, again)
        self.noise = float(np.linalg.norm(again - self.theta))
        if self.deterministic:
            return
        for cause, remedy in causes.find(
            lambda: self.probe(self.data)[1], self.subject.contract
        ):
            self.say(
                "weakens", "the same arguments give other weights: " + cause, remedy
            )

    def _other_shape(self, what: str) -> None:
        """Weights that can't be compared: an estimator can still be read."""
        is_estimator = released.is_estimator(self.returned)
        self.subject = dataclasses.replace(self.subject, comparable=False)
        level = "weakens" if is_estimator else "stops"
        self.say(
            level,
            f"{what} give weights of another shape, which no attack on weights compares"
            + ("; the fitted estimator is read all the same" if is_estimator else ""),
            "release a model whose arrays keep their shapes (trees and early growth"
            " don't)",
        )

    def engine(self) -> None:
        """What JAX can do with it."""
        self.progress("trying what JAX can do with it")
        engine, reason = "processes", ""
        if self.deterministic:
            engine, reason = engine_of(self.subject)
        if reason:
            self.say("note", reason)
        if engine != "processes":
            self.probe.compiled()
            # Compiled sums round otherwise: later runs are held against this one.
            _, self.theta = self.probe(self.data)
        self.subject = dataclasses.replace(
            self.subject, engine=engine, deterministic=bool(self.deterministic)
        )

    def target(self) -> None:
        """Whether the weights change when the target does."""
        self.progress("training on another target")
        _, other = self.probe(self._second())
        shapes = {self.theta.shape, other.shape}
        if released.is_estimator(self.returned):
            # Two sets of support vectors may happen to be of one size.
            some = range(2, min(_PLACES, len(self.subject.split.test)))
            if self.affords(len(some)):
                probe = self.probe
                shapes |= {probe(self.subject.training_set(i))[1].shape for i in some}
        if len(shapes) > 1:
            self._other_shape("another target")
            return
        self.apart = float(np.linalg.norm(other - self.theta))

    def _second(self) -> tuple[np.ndarray, np.ndarray]:
        """D_- with another target."""
        if len(self.subject.split.test) > 1:
            return self.subject.training_set(1)
        images, labels = self.subject.training_set(0)
        images[-1] = self.subject.held_out.images[0]
        return images, labels

    def place(self) -> None:
        """Where in the training set a target moves the weights furthest.

        A validation split, or batches sampled by a seed that everyone is told, leaves
        out the records at some places. Who is at another place isn't protected by that.
        """
        if not self.subject.comparable:
            return
        drawing = self.key_matters or not self.apart
        if self.deterministic and drawing:
            self._other_places()
        if self.apart == 0:
            self.say(
                "weakens",
                "the weights don't change when the target does",
                "does train use all its arguments? Early stopping or a support that"
                " leaves it out would also do this",
            )

    def _other_places(self) -> None:
        last = len(self.subject.fixed)
        count = min(_PLACES, last + 1)
        places = np.unique(np.linspace(0, last, count).round().astype(int))[:-1]
        while len(places) > 1 and not self.affords(2 * len(places)):
            places = places[::2]
        if not self.affords(2 * len(places)):
            return
        self.progress("moving the target to other places")
        moved, second = {last: self.apart}, self._second()
        for place in places:
            probe = self.probe.at(int(place))
            theta, other = probe(self.data)[1], probe(second)[1]
            same = theta.shape == other.shape
            moved[int(place)] = float(np.linalg.norm(other - theta)) if same else 0.0
        unused = sum(distance == 0 for distance in moved.values())
        best = max(moved, key=lambda place: moved[place])
        if unused and moved[best]:
            self.say(
                "weakens",
                f"at {unused} of {len(moved)} places in the training set a record"
                " changes nothing: it is left out by the seed, or by a validation"
                " split. Targets are put where they count",
                "records that are left out aren't protected: another seed takes them",
            )
        if moved[best] > _FURTHER * moved[last]:
            self.subject = dataclasses.replace(self.subject, position=int(best))
            self.probe = self.probe.at(int(best))
            if self.subject.engine != "processes":
                self.probe.compiled()
            _, self.theta = self.probe(self.data)
            self.apart = moved[best]
            self.say(
                "note",
                f"targets are put at place {best} of the training set, the one of"
                f" {len(moved)} at which they move the weights furthest",
            )

    def order_and_key(self) -> None:
        """Whether another order, another key, give other weights."""
        if not self.deterministic or not self.affords(2):
            return
        self.progress("another order, another key")
        images, labels = self.data
        shuffled = np.random.default_rng(0).permutation(len(images) - 1)
        moved = np.append(shuffled, len(images) - 1)
        _, found = self.probe((images[moved], labels[moved]))
        self.order_matters = self._differs(found)
        if self.subject.contract.takes == "nothing":
            return
        _, found = self.probe(self.data, key=1)
        self.key_matters = self._differs(found)
        if not self.key_matters:
            self.say("note", "the key changes nothing: training draws nothing from it")

    def _differs(self, found: np.ndarray) -> bool:
        """Whether weights differ by more than rounding."""
        if found.shape != self.theta.shape:
            return True
        return bool(np.linalg.norm(found - self.theta) > _SAME * self.apart)

    def private(self) -> None:
        """Whether there can be the noise that training declares."""
        contract = self.subject.contract
        if contract.privacy is None:
            return
        drawn = self.key_matters is not False and contract.takes != "nothing"
        if self.deterministic and not drawn:
            self.say(
                "stops",
                "PRIVACY declares noise, but the key changes nothing: no noise is drawn"
                " from it",
                "draw the noise from the key, or take PRIVACY out",
            )
        if contract.noisy and self.deterministic and self.affords(2):
            sigma = contract.default_noise
            more = self.probe.at(self.subject.position, noise=10.0 * (sigma or 1.0))
            same = self.probe.at(self.subject.position)
            if np.array_equal(more(self.data)[1], same(self.data)[1]):
                self.say(
                    "stops",
                    f"PRIVACY declares noise, but {NOISE} changes nothing",
                    f"add noise of {NOISE} times clip_norm, or take PRIVACY out",
                )

    def kept(self) -> None:
        """What an estimator holds besides its weights."""
        rows = np.asarray(self.subject.call().inputs(self.subject.fixed.images))
        kept = released.keeps_records(self.returned, rows.reshape(len(rows), -1))
        if kept:
            self.say(
                "weakens",
                f"the model holds training records word for word: {', '.join(kept)}",
                "no attack is needed: don't release this object",
            )
        more = released.ships_more(self.returned)
        if more:
            self.say(
                "note",
                f"a pickle of it would also hold {', '.join(more)}, which attacks on"
                " weights don't use",
                "release coefficients, not the estimator",
            )

    def asked(self) -> None:
        """Accuracy on public records, and whether models can be asked."""
        self.accuracy, self.subject, trouble = _asked(self.subject, self.returned)
        if trouble:
            self.findings.append(trouble)

    def timed(self) -> None:
        """How long a model takes as it will be trained; whether processes agree."""
        if not self.subject.comparable:
            self.seconds = self.each
            return
        self.progress("measuring the time of a model")
        runs = _runs(self.subject)
        self.at_once = runs.together
        if runs.batched:
            self.seconds, same = _batch(self.subject, runs)
            self.each = self.seconds * runs.together
        else:
            # No more at once than there are processes, or the time would be a sum.
            self.at_once = min(runs.together, os.cpu_count() or 1)
            self.each, same = _in_processes(self.subject, self.at_once, self.each)
            self.seconds = self.each / self.at_once
        if self.deterministic and not same:
            self.say(
                "weakens",
                "the same arguments give other weights in other processes",
                "look for hash(), and for sums that depend on threads",
            )
        public = self.subject.split.shadow
        time_of = self.seconds * instability.trainings(public)
        fits = time_of < min(_PATIENCE, self.clock.left)
        if self.deterministic and same and fits:
            self.progress("changing a record a little")
            self.instability = instability.measure(runs, public)
            self.findings += _chaotic(self.instability)


def check(
    subject: Subject,
    progress: Callable[[str], None] = lambda _: None,
    *,
    limit: float = float("inf"),
) -> Preflight:
    """Run the training function a few times.

    Args:
      subject: what is audited; its engine is found out here.
      progress: called with what is done next.
      limit: seconds of the audit; a fifth of them may go into questions that it can do
        without. A few trainings are run in any case.
    Raises: RuntimeError: the function raises; FieldError: it returns no arrays.
    """
    started = time.monotonic()
    busy = others_at_work()
    look = _Look(subject, progress, limits.Clock(_SHARE * limit, started))
    look.first()
    if not look.stopped:
        look.again()
    if not look.stopped:
        look.engine()
        look.target()
        look.order_and_key()
        look.place()
        look.private()
        look.kept()
        look.asked()
    if not look.stopped:
        look.timed()
        if not look.deterministic and look.noise > 0:
            times = look.noise / max(look.apart, 1e-300)
            look.say(
                "note",
                f"runs with equal arguments are {times:.3g} times as far apart as"
                " models of two targets",
            )
        if busy is not None and busy >= _BUSY:
            look.say(
                "note",
                f"other jobs used {100 * busy:.0f} % of the cores while times were"
                " measured: a quiet machine is faster",
            )
    length = max(float(np.linalg.norm(look.theta)), np.finfo(float).tiny)
    return Preflight(
        subject=look.subject,
        returned=look.returned,
        findings=tuple(sorted(look.findings, key=lambda f: LEVELS.index(f.level))),
        params=len(look.theta),
        arrays=tuple(look.parts),
        seconds_a_model=look.seconds or look.each,
        seconds_each=look.each,
        at_once=look.at_once,
        busy=busy,
        order_matters=look.order_matters,
        key_matters=look.key_matters,
        shift=look.apart / length,
        instability=look.instability,
        accuracy=look.accuracy,
        seconds=time.monotonic() - started,
    )


def others_at_work() -> float | None:
    """Share of the cores that worked in the last minute; None: not to be had.

    Asked before anything is trained, so that it is the work of others.
    """
    if not hasattr(os, "getloadavg"):
        return None
    return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else ""


def _theta(result: Any) -> np.ndarray:
    arrays = [np.ravel(np.asarray(p.array)) for p in released.parts(result)]
    return np.concatenate(arrays).astype(np.float64)


def engine_of(subject: Subject) -> tuple[str, str]:
    """How models can be made, and why not in a faster way."""
    fixed, targets = subject.fixed, subject.split.test
    data = jnp.asarray(fixed.images), jnp.asarray(fixed.labels)
    algorithm = dataclasses.replace(subject, engine="jax").algorithm()
    assert isinstance(algorithm, JaxFunction)
    draw = Draw(key=jax.random.key(0))

    def one(image: Any, label: Any) -> Any:
        return algorithm(data, image[None], label[None], draw)

    image, label = jnp.asarray(targets.images[0]), jnp.asarray(targets.labels[0])
    try:
        jax.eval_shape(jax.vmap(one), image[None], label[None])
    except Exception as error:  # whatever the user's function raises when traced
        first = str(error).strip().splitlines()[0][:90] if str(error) else ""
        return "processes", (
            f"JAX can't trace it ({type(error).__name__}: {first}): it is run in"
            " processes, and its derivatives are differences of trainings"
        )
    direction = jnp.asarray(
        np.random.default_rng(0).standard_normal(image.shape), image.dtype
    )
    try:
        derivative = jax.jit(
            lambda z: jax.jvp(lambda x: one(x, label), (z,), (direction,))[1]
        )(image)
    except Exception as error:
        return "runs", f"no derivative goes through it ({type(error).__name__})"
    values = np.asarray(derivative)
    if not np.isfinite(values).all():
        return "runs", (
            "its derivatives are NaN or infinite (Adam: root of a zero gradient, for"
            " one: eps_root=1e-20); differences of trainings are used instead"
        )
    if not values.any():
        return "runs", "its derivatives are zero; differences of trainings are used"
    return "jax", ""


def _asked(
    subject: Subject, result: Any
) -> tuple[float | None, Subject, Finding | None]:
    """Accuracy on public records, and whether models can be asked."""
    call = subject.call()
    try:
        scores = np.asarray(call.answers(result, subject.held_out.images))
    except ValueError as error:
        return (
            None,
            subject,
            Finding(
                level="note",
                what="neither accuracy nor black-box attacks: models can't be asked",
                remedy=str(error),
            ),
        )
    except Exception as error:  # the user's own function
        return (
            None,
            subject,
            Finding(
                level="weakens",
                what=f"predict raised {type(error).__name__}: {error}",
                remedy="predict(released, images) -> scores (examples, classes)",
            ),
        )
    count = len(subject.held_out)
    if scores.ndim != 2 or len(scores) != count:
        return (
            None,
            subject,
            Finding(
                level="weakens",
                what=f"predict gave an array of shape {scores.shape}",
                remedy=f"expected ({count}, classes)",
            ),
        )
    classes = subject.fixed.num_classes
    if scores.shape[1] < classes:
        return (
            None,
            subject,
            Finding(
                level="weakens",
                what=f"predict gave scores of {scores.shape[1]} classes, labels go to"
                f" {classes - 1}",
                remedy=f"expected a column for every label from 0 to {classes - 1}",
            ),
        )
    right = float(np.mean(scores.argmax(axis=1) == subject.held_out.labels))
    subject = dataclasses.replace(subject, answering=True)
    if subject.engine == "jax" or subject.engine == "runs":
        try:
            _shape_of(subject.algorithm(answers=True), subject)
        except Exception as error:
            subject = dataclasses.replace(subject, answering=False)
            return (
                right,
                subject,
                Finding(
                    level="note",
                    what=f"no black box: predict isn't traced ({type(error).__name__})",
                ),
            )
    return right, subject, None


def _shape_of(algorithm: Algorithm, subject: Subject) -> Any:
    return algorithm.layout(subject.fixed)


def _runs(subject: Subject) -> Runs:
    """A as the factory runs it, by one key."""
    algorithm, fixed = subject.algorithm(), subject.fixed
    key = algorithm.own_key(jax.random.key(0))
    return Runs(
        algorithm,
        (fixed.images, fixed.labels),
        lambda _: Draw(key=key),
        width=models_per_batch(algorithm, len(fixed)),
    )


def _rows(subject: Subject, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels and runs of so many models, all of the first target."""
    targets, rows = subject.split.test, np.zeros(count, int)
    return targets.images[rows][:, None], targets.labels[rows][:, None], rows


def _batch(subject: Subject, runs: Runs) -> tuple[float, bool]:
    """Seconds a model of a compiled batch; and whether twice gives the same."""
    rows = _rows(subject, runs.together)
    seconds: list[float] = []
    first, same = runs(*rows), True
    while not seconds or (len(seconds) < 3 and seconds[-1] < _SHORT):
        started = time.monotonic()
        again = runs(*rows)
        seconds.append(time.monotonic() - started)
        same = same and np.array_equal(first, again)
    return float(np.median(seconds)) / runs.together, same


def _timed(train: Callable, *arguments: Any) -> tuple[Any, np.ndarray]:
    """What training returns, and the seconds that it took in its process, last."""
    started = time.perf_counter()
    result = train(*arguments)
    return result, np.array(time.perf_counter() - started)


def _in_processes(subject: Subject, count: int, expected: float) -> tuple[float, bool]:
    """Seconds of one model while `count` are trained; and whether all are the same.

    The first of each process imports what it needs, and isn't counted unless it took no
    longer than expected.

    Args:
      expected: seconds of a model in this process.
    """
    algorithm, fixed = subject.algorithm(), subject.fixed
    key = algorithm.own_key(jax.random.key(0))
    assert isinstance(algorithm, PythonFunction)
    runs = Runs(
        dataclasses.replace(
            algorithm, train=functools.partial(_timed, algorithm.train)
        ),
        (fixed.images, fixed.labels),
        lambda _: Draw(key=key),
        width=max(count, 2),
    )
    found = [runs(*_rows(subject, max(count, 2)))]
    warm = found[0][:, -1].max() <= _SLOWER * expected
    short = 0.0 if warm else _SHORT
    while len(found) < (1 if warm else 2) or (
        len(found) < 4 and found[-1][:, -1].max() < short
    ):
        found.append(runs(*_rows(subject, max(count, 2))))
    seconds = np.concatenate([each[:, -1] for each in found[len(found) > 1 :]])
    thetas = np.concatenate(found)[:, :-1]
    return float(np.median(seconds)), bool((thetas == thetas[0]).all())


def _chaotic(found: Instability | None) -> list[Finding]:
    if found is None or not found.chaotic:
        return []
    return [
        Finding(
            level="weakens",
            what=f"chaotic, exponent {found.words} over the training: a record that"
            " withstands is protected by instability, not by design. A hundredth of the"
            f" way to another record moves the typical weight {found.growth:.0f} times"
            " as far as it is worth",
            remedy="don't rely on it: a longer search or another release may tell;"
            " noise in training has a bound",
        )
    ]
