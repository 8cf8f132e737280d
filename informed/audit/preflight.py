"""The pre-flight of an audit: test the user's training function by a few runs.

A faulty function would make every attack's answer worthless, so `auditing` asks first:
Do the same arguments give the same weights? Do another target, another order or another
key give different weights? At which position does a target count? Can JAX trace and
differentiate the function? Does it accept a record a little outside of [0, 1]? Is there
the noise that PRIVACY declares? Does predict answer? How long does a model take?
Anything that stops or weakens an audit becomes a finding with a remedy.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from informed.audit import engine, findings, noise_check, timetable
from informed.audit.contract import NOISE
from informed.audit.findings import LEVELS, Finding, Preflight
from informed.audit.subject import Subject
from shadow import checks, limits, released

# Share of an audit's time for optional tests.
SHARE = 0.2
_PATIENCE_S = 60.0  # the longest time for one test
# Two trainings count as the same below this share of the distance between the
# weights of two targets.
_SAME = 1e-3
# Two trainings that differ by more than this share of that distance differ by more
# than the rounding of another device.
_OTHER = 0.3
# A target is tried this far outside of [0, 1]. Steps of an inversion may go farther.
_OUTSIDE = 0.05
# Positions in the training set to try if a target at the last one has no effect.
_PLACES = 8
# Another position is chosen if a target there moves the weights this many times as far
# as at the end. On the examples of the documentation, the order of mini-batches alone
# makes a factor below 1.5.
_FURTHER = 1.5
_OTHER_SHAPE = "give weights of another shape, which no attack on weights compares"
_KEEP_SHAPES = "release a model whose arrays keep their shapes (trees don't)"


def check(
    subject: Subject,
    progress: Callable[[str], None] = lambda _: None,
    *,
    limit: float = float("inf"),
) -> Preflight:
    """Run the training function a few times; return findings and measurements.

    Args:
      subject: the training function and data; its engine and the target's place are
        chosen here.
      progress: called with the name of every test as it begins.
      limit: seconds that the audit has left; optional tests may take a fifth of them.
        A few trainings are run in any case.
    Raises: RuntimeError: the function raises; FieldError: it returns no arrays.
    """
    started = time.monotonic()
    busy = timetable.others_at_work()
    state = _Questions(subject, progress, limits.Clock(SHARE * limit, started))
    state.train_once()
    if not state.stopped:
        state.train_again()
    if not state.stopped:
        state.choose_engine()
        state.change_the_target()
    if not state.stopped:
        state.change_order_and_key()
        state.place_the_target()
        state.leave_the_range()
        state.change_the_noise()
        state.ask_the_model()
    if not state.stopped:
        state.measure_time(busy)
    return Preflight(
        subject=state.subject,
        returned=state.returned,
        findings=tuple(sorted(state.findings, key=lambda f: LEVELS.index(f.level))),
        params=len(state.theta),
        arrays=tuple(state.arrays),
        seconds_a_model=state.seconds_a_model or state.seconds_each,
        seconds_each=state.seconds_each,
        at_once=state.at_once,
        busy=busy,
        order_matters=state.order_matters,
        key_matters=state.key_matters,
        accuracy=state.accuracy,
    )


class Probe:
    """A training function run in this process, with one thread.

    It runs uncompiled until `compile`, because a compiled impure function would draw
    only once. `key` is that of the released models, because training with another key
    may omit other records. `call` is the user's function, of `subject`; `seconds` is
    how long the last run took.
    """

    def __init__(self, subject: Subject, noise: float | None = None) -> None:
        self.subject, self.seconds = subject, 0.0
        self.key = subject.factory("released").public_key
        self.call = subject.call(noise=noise)
        self._train = self.call.train

    def compile(self) -> None:
        """Train under `jax.jit` from now on, as batches of models are trained."""
        call = self.subject.call()
        together = dataclasses.replace(self.subject, engine="jax")
        self.key = together.factory("released").public_key

        def arrays(*arguments: Any) -> list[Any]:
            # A compiled function can't return strings.
            return [part.array for part in released.parts(call.train(*arguments))]

        train = jax.jit(arrays)
        self._train = lambda images, labels, key: train(
            jnp.asarray(images),
            jnp.asarray(labels),
            jax.random.key(key) if isinstance(key, int) else key,
        )

    def at(self, position: int | None, noise: float | None = None) -> "Probe":
        """Return an uncompiled probe with the target elsewhere, or other noise."""
        other = Probe(dataclasses.replace(self.subject, position=position), noise)
        other.key = self.key
        return other

    def __call__(
        self, data: tuple[np.ndarray, np.ndarray], key: Any = None
    ) -> tuple[Any, np.ndarray]:
        """Return what the function returns, and theta in float64.

        Args:
          data: images and labels; each run gets copies, as it may shuffle in place.
          key: a JAX key, or an int; None: the key of the released models.
        """
        key = self.key if key is None else key
        started = time.monotonic()
        images, labels = (array.copy() for array in data)
        with engine.one_thread():
            result = self._train(images, labels, key)
            jax.block_until_ready(jax.tree.leaves(result))
        self.seconds = time.monotonic() - started
        return result, engine.theta_of(result)


class _Questions:
    """The results so far (`Preflight`); each method tests a property of training."""

    def __init__(
        self, subject: Subject, progress: Callable[[str], None], clock: limits.Clock
    ) -> None:
        self.subject, self.progress, self.clock = subject, progress, clock
        self.findings: list[Finding] = []
        self.probe = Probe(subject)
        second = min(1, len(subject.split.test) - 1)
        self.data, self.other_data = (subject.training_set(i) for i in (0, second))
        if not second:
            self.other_data[0][-1] = subject.held_out.images[0]
        self.order_matters: bool | None = None
        self.key_matters: bool | None = None
        self.accuracy: float | None = None
        # Distances between the weights of two targets, and of two identical runs.
        self.apart = self.rounding = 0.0
        self.seconds_each, self.seconds_a_model, self.at_once = 0.0, 0.0, 1

    @property
    def stopped(self) -> bool:
        """Whether a finding stops the audit."""
        return any(finding.level == "stops" for finding in self.findings)

    def say(self, level: str, what: str, remedy: str = "") -> None:
        """Add a finding to the list."""
        self.findings.append(Finding(level=level, what=what, remedy=remedy))

    def affords(self, trainings: int) -> bool:
        """Return whether there is time for this many trainings in this process."""
        return trainings * self.seconds_each < min(_PATIENCE_S, self.clock.left)

    def train_once(self) -> None:
        """Train one model, and check the arrays that it returns.

        Raises: RuntimeError: the function raises.
        """
        self.progress("training one model")
        try:
            self.returned, self.theta = self.probe(self.data)
        except checks.FieldError:  # what it returned
            raise
        except Exception as error:
            keyed = self.subject.contract.takes == "key" and "key<" in repr(error)
            keyed = keyed or "PRNGKey" in str(error)
            remedy = (
                ". It gets a key of JAX's; for a generator that takes an int, call the"
                " parameter seed: train(images, labels, seed: int)"
            )
            raise RuntimeError(
                f"{self.subject.contract.name} raised {checks.named(error)}"
                + (remedy if keyed else "")
            ) from error
        self.seconds_each = self.probe.seconds
        self.arrays = [
            (part.name, tuple(np.shape(part.array)))
            for part in released.parts(self.returned)
        ]
        self.findings += findings.of_returned(self.returned)

    def train_again(self) -> None:
        """Test whether the same arguments give the same weights."""
        self.progress("training it again")
        _, again = self.probe(self.data)
        # The first training may have imported and compiled what it needs.
        self.seconds_each = self.probe.seconds
        self.deterministic = False
        if again.shape != self.theta.shape:
            self.say("stops", f"the same arguments {_OTHER_SHAPE}", _KEEP_SHAPES)
            return
        self.deterministic = np.array_equal(self.theta, again)
        self.rounding = float(np.linalg.norm(again - self.theta))
        if not self.deterministic:
            self.say(
                "weakens",
                "the same arguments give different weights",
                "draw everything from the key: seed every generator by it, stop by"
                " steps and not by a clock, and let no sum depend on threads"
                " (torch.use_deterministic_algorithms(True))",
            )

    def choose_engine(self) -> None:
        """Test whether JAX can trace and differentiate the function."""
        self.progress("trying JAX on it")
        fastest, reason = "processes", ""
        if self.deterministic:
            fastest, reason = engine.engine_of(self.subject, self.clock.left)
        self.slower = reason
        if reason:
            self.say("note", reason)
        if fastest != "processes":
            self.probe.compile()
            # Compiled sums round differently, so later runs are compared with this one.
            _, self.theta = self.probe(self.data)
        self.subject = dataclasses.replace(
            self.subject, engine=fastest, deterministic=bool(self.deterministic)
        )

    def change_the_target(self) -> None:
        """Measure how far another target moves the weights."""
        self.progress("training on another target")
        _, other = self.probe(self.other_data)
        shapes = {self.theta.shape, other.shape}
        if released.is_estimator(self.returned):
            # Two sets of support vectors may have the same size by chance.
            more = range(2, min(_PLACES, len(self.subject.split.test)))
            if self.affords(len(more)):
                sets = [self.subject.training_set(i) for i in more]
                shapes |= {self.probe(data)[1].shape for data in sets}
        if len(shapes) > 1:
            self.say("stops", f"another target {_OTHER_SHAPE}", _KEEP_SHAPES)
            return
        self.apart = float(np.linalg.norm(other - self.theta))

    def change_order_and_key(self) -> None:
        """Test whether another order, or another key, gives other weights."""
        if not (self.deterministic and self.affords(2)):
            return
        self.progress("another order, another key")
        images, labels = self.data
        shuffled = np.random.default_rng(0).permutation(len(images) - 1)
        moved = np.append(shuffled, len(images) - 1)
        thetas = [self.probe((images[moved], labels[moved]))[1]]
        takes_key = self.subject.contract.takes != "nothing"
        if takes_key:
            thetas.append(self.probe(self.data, key=1)[1])
        differ = [
            theta.shape != self.theta.shape
            or bool(np.linalg.norm(theta - self.theta) > _SAME * self.apart)
            for theta in thetas
        ]
        self.order_matters = differ[0]
        if takes_key:
            self.key_matters = differ[1]
        if self.key_matters is False:
            self.say("note", "the key changes nothing: training draws nothing from it")

    def place_the_target(self) -> None:
        """Put targets at the position where they move the weights furthest.

        A validation split, or batches sampled by a public seed, omits the records at
        some positions. Records at other positions aren't protected by that.
        """
        # If there was no time to test whether the key matters, assume that it may.
        if self.deterministic and (self.key_matters is not False or not self.apart):
            last = len(self.subject.fixed)
            places = np.linspace(0, last, min(_PLACES, last + 1)).round().astype(int)
            places = np.unique(places)[:-1]
            while len(places) > 1 and not self.affords(2 * len(places)):
                places = places[::2]
            if self.affords(2 * len(places)):
                self._move_the_target(last, places)
            else:
                self.say(
                    "note",
                    "no time to ask whether a record counts at every position in the"
                    " training set: the seed may leave some out",
                    "more --minutes",
                )
        if self.apart == 0:
            what = "the weights don't change when the target does"
            remedy = (
                "does train use all its arguments? Early stopping or a support that"
                " leaves it out would also do this"
            )
            self.say("weakens", what, remedy)

    def _move_the_target(self, last: int, places: np.ndarray) -> None:
        """Try the target at positions other than the last, and keep the best."""
        self.progress("moving the target to other positions")
        moved = dict.fromkeys(places.tolist(), 0.0) | {last: self.apart}
        for place in places:
            probe = self.probe.at(int(place))
            theta, other = probe(self.data)[1], probe(self.other_data)[1]
            if theta.shape == other.shape:
                moved[int(place)] = float(np.linalg.norm(other - theta))
        unused = sum(distance == 0 for distance in moved.values())
        best = max(moved, key=lambda place: moved[place])
        if unused and moved[best]:
            self.say(
                "weakens",
                f"at {unused} of {len(moved)} positions in the training set a"
                " record changes nothing: the seed or a validation split leaves it"
                " out. The targets stand where they count",
                "this is no protection: another seed may use those records",
            )
        if moved[best] > _FURTHER * moved[last]:
            self.subject = dataclasses.replace(self.subject, position=int(best))
            self.probe = self.probe.at(int(best))
            _, self.theta = self.probe(self.data)
            if self.subject.engine != "processes":  # derivatives may have been zero
                self.findings = [f for f in self.findings if f.what != self.slower]
                self.choose_engine()
            self.apart = moved[best]
            self.say(
                "note",
                f"targets stand at position {best} of the training set, the one of"
                f" {len(moved)} at which they move the weights furthest",
            )

    def leave_the_range(self) -> None:
        """Test whether training takes targets outside of [0, 1], as inversion does."""
        if not self.deterministic or not self.affords(1):
            return
        images, labels = (array.copy() for array in self.data)
        images[-1] += np.where(images[-1] < 0.5, -_OUTSIDE, _OUTSIDE)
        what = ""
        try:
            if not np.isfinite(self.probe((images, labels))[1]).all():
                what = "gives NaN or infinite weights"
        except Exception as error:
            what = f"raises {type(error).__name__}"
        if what:
            self.say(
                "weakens",
                f"training {what} for a record a little outside of [0, 1], where"
                " inversion has to search: that hinders the attack, and protects nobody"
                " from one who takes the check out",
                "for the audit, cut inputs or let them pass in train",
            )

    def change_the_noise(self) -> None:
        """Test whether declared noise depends on the key and the noise multiplier."""
        contract = self.subject.contract
        if not contract.private:
            return
        if self.key_matters is False or contract.takes == "nothing":
            self.say(
                "stops",
                "PRIVACY declares noise, but the key changes nothing: no noise is drawn"
                " from it",
                "draw the noise from the key, or take PRIVACY out",
            )
        if contract.noisy and self.deterministic and self.affords(2):
            noise = 10.0 * (contract.shipped_noise or 1.0)
            more = self.probe.at(self.subject.position, noise)(self.data)[1]
            same = self.probe.at(self.subject.position)(self.data)[1]
            if np.array_equal(more, same):
                self.say(
                    "stops",
                    f"PRIVACY declares noise, but {NOISE} changes nothing",
                    f"add noise of {NOISE} times clip_norm, or take PRIVACY out",
                )
        if not self.stopped:
            self._weigh_the_noise()

    def _weigh_the_noise(self) -> None:
        """Test whether models scatter as much as the declared noise says."""
        contract = self.subject.contract
        assert contract.privacy is not None
        assert contract.shipped_noise is not None
        sizes = range(noise_check.MOST, noise_check.FEWEST - 1, -1)
        count = next((k for k in sizes if self.affords(4 * k)), 0)
        if not count:
            self.say("note", "no time to test declared noise", "more --minutes")
            return
        self.progress("weighing the noise")
        models = [
            np.stack([self.probe(data, key=place)[1] for place in range(start, stop)])
            for data, start, stop in (
                (self.data, 1, 2 * count + 1),
                (self.other_data, 2 * count + 1, 4 * count + 1),
            )
        ]
        noise, steps = contract.shipped_noise, int(contract.privacy["steps"])
        measured = noise_check.scatter(*models)
        self.findings.append(noise_check.judged(measured, noise, steps))

    def ask_the_model(self) -> None:
        """Query the model on public records, for its accuracy and black-box attacks.

        Also warn about estimators that may store data that no attack here reads.
        """
        subject, public = self.subject, self.subject.held_out
        if finding := findings.of_estimator(self.returned):
            self.findings.append(finding)
        try:
            scores = np.asarray(self.probe.call.answers(self.returned, public.images))
            if scores.dtype.name == "bfloat16":  # not a NumPy float type
                scores = scores.astype(np.float32)
        except checks.FieldError as error:  # the model has no predict method
            what = "neither accuracy nor black-box attacks: models can't be asked"
            self.say("note", what, str(error))
            return
        except Exception as error:  # the user's own function
            remedy = "predict(released, images) -> scores (examples, classes)"
            self.say("weakens", f"predict raised {checks.named(error)}", remedy)
            unasked = f"predict raised {type(error).__name__}"  # quotes no message
            self.subject = dataclasses.replace(subject, unasked=unasked)
            return
        what, remedy = findings.fault_of(scores, public)
        if what:
            self.say("weakens", what, remedy)
            self.subject = dataclasses.replace(subject, unasked=what)
            return
        self.accuracy = float(np.mean(scores.argmax(axis=1) == public.labels))
        self.subject = dataclasses.replace(subject, answering=True)
        if subject.engine in ("jax", "runs"):
            try:
                self.subject.layout()
            except Exception as error:
                what = f"predict isn't traced ({type(error).__name__})"
                self.say("note", f"no black box: {what}")
                self.subject = dataclasses.replace(subject, unasked=what)

    def measure_time(self, busy: float | None) -> None:
        """Time models as they will be trained, and compare their weights with theta."""
        self.progress("measuring the time of a model")
        factory = self.subject.factory("released")
        image, label = (values[-1] for values in self.data)
        timing = engine.timed(factory, image, int(label), self.seconds_each)
        self.at_once, self.seconds_each = timing.at_once, timing.seconds_each
        self.seconds_a_model = self.seconds_each / self.at_once
        theta = timing.theta
        if theta is not None and self.deterministic and timing.same:
            # They differ by more than a device's rounding.
            rounding = max(_OTHER * self.apart, _SAME * float(np.linalg.norm(theta)))
            same = theta.shape == self.theta.shape
            if not same or float(np.linalg.norm(theta - self.theta)) > rounding:
                self.say(
                    "stops",
                    "other processes give different weights: a module was changed"
                    " after it was imported, or a setting in it",
                    "start a new session, or name the training as FILE.py:NAME",
                )
        if self.deterministic and not timing.same:
            self.say(
                "weakens",
                "the same arguments give different weights in other processes",
                "look for hash(), and for sums that depend on threads",
            )
            # Processes give different bits, so no model can be retrained exactly.
            self.subject = dataclasses.replace(self.subject, deterministic=False)
        if not self.deterministic and self.rounding > 0:
            times = self.rounding / max(self.apart, 1e-300)
            self.say(
                "note",
                f"runs with equal arguments are {times:.3g} times as far apart as"
                " models of two targets",
            )
        if busy is not None and busy >= timetable.BUSY:
            self.say(
                "note",
                f"other jobs used {100 * busy:.0f} % of the cores while times were"
                " measured: a quiet machine is faster",
            )
