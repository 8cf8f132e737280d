"""The questions of a pre-flight, one a method, and what was found so far."""

import dataclasses
from collections.abc import Callable

import numpy as np

from informed.attacks.closed_form import pipelines
from informed.audit import engines, instability, timing
from informed.audit.contract import NOISE
from informed.audit.findings import Finding
from informed.audit.instability import Instability
from informed.audit.probe import Probe
from informed.audit.subject import Subject
from shadow import checks, limits, parallel, released

# Seconds that one question of the pre-flight may take.
_PATIENCE = 60.0
# Two trainings count as the same below this share of the distance between the
# weights of two targets.
_SAME = 1e-3
# Of what a record changes: from it on it is another training, not another device.
_OTHER = 0.3
# How far outside of [0, 1] a target is tried: a step of an inversion may go farther.
_OUTSIDE = 0.05
# Places in the training set at which a target is tried, where the last does nothing.
_PLACES = 8
# A place counts as another place where a target there moves the weights so many times
# as far as one at the end. Orders of mini-batches alone make a difference below 1.5 on
# the examples of the documentation.
_FURTHER = 1.5


class Look:
    """What the pre-flight has found so far: one question a method."""

    def __init__(
        self, subject: Subject, progress: Callable[[str], None], clock: limits.Clock
    ) -> None:
        self.subject, self.progress, self.clock = subject, progress, clock
        self.findings: list[Finding] = []
        self.probe = Probe(subject)
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
        except checks.FieldError:  # what it returned
            raise
        except Exception as error:
            raise RuntimeError(
                f"{name} raised {checks.named(error)}{self._missing()}"
            ) from error
        self.each = self.probe.seconds
        self.parts = [
            (part.name, tuple(np.shape(part.array)))
            for part in released.parts(self.returned)
        ]
        if not self.theta.size:
            self.say(
                "stops",
                f"{type(self.returned).__name__} has no arrays of floats, and no attack"
                " here looks at anything else; it may store training records",
                "release coefficients or predictions, not the estimator",
            )
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
                f"no attack reads {', '.join(dropped[:4])}{more}",
                "look yourself whether they hold anything of a record, such as words or"
                " rows",
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
        self.say(
            "weakens",
            "the same arguments give other weights",
            "draw everything from the key: seed every generator by it, stop by steps"
            " and not by a clock, and let no sum depend on threads"
            " (torch.use_deterministic_algorithms(True))",
        )

    def _other_shape(self, what: str) -> None:
        """Say that weights can't be compared."""
        self.say(
            "stops",
            f"{what} give weights of another shape, which no attack on weights"
            " compares",
            "release a model whose arrays keep their shapes (trees and early growth"
            " don't)",
        )

    def engine(self) -> None:
        """What JAX can do with it."""
        self.progress("trying what JAX can do with it")
        engine, reason = "processes", ""
        if self.deterministic:
            engine, reason = engines.engine_of(self.subject)
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
        # Where there was no time to ask whether the key matters, it may.
        drawing = self.key_matters is not False or not self.apart
        if self.deterministic and drawing:
            self._other_places()
        if self.apart == 0:
            self.say(
                "weakens",
                "the weights don't change when the target does",
                "does train use all its arguments? Early stopping or a support that"
                " leaves it out would also do this",
            )

    def outside(self) -> None:
        """Whether training takes a target a little outside of [0, 1].

        Inversion searches there: a step may not end where a check says that records do.
        """
        if not self.deterministic or not self.affords(1):
            return
        images, labels = (each.copy() for each in self.data)
        images[-1] += np.where(images[-1] < 0.5, -_OUTSIDE, _OUTSIDE)
        what = ""
        try:
            _, found = self.probe((images, labels))
            if not np.isfinite(found).all():
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

    def _other_places(self) -> None:
        last = len(self.subject.fixed)
        count = min(_PLACES, last + 1)
        places = np.unique(np.linspace(0, last, count).round().astype(int))[:-1]
        while len(places) > 1 and not self.affords(2 * len(places)):
            places = places[::2]
        if not self.affords(2 * len(places)):
            self.say(
                "note",
                "no time to ask whether a record counts at every place in the training"
                " set: some may be left out by the seed",
                "more --minutes",
            )
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
        if not (self.deterministic and self.affords(2)):
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

    def _is_another(self, found: np.ndarray) -> bool:
        """Whether weights are of another training, by more than a device's rounding."""
        if found.shape != self.theta.shape:
            return True
        apart = float(np.linalg.norm(found - self.theta))
        rounding = _SAME * float(np.linalg.norm(found))
        return apart > max(_OTHER * self.apart, rounding)

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

    def stored(self) -> None:
        """Warn of estimators that store what no attack here looks at."""
        fitted = released.is_estimator(self.returned)
        if not fitted or pipelines.supported(self.returned):
            return
        name = type(self.returned).__name__
        if name in ("MLPClassifier", "MLPRegressor"):
            self.say(
                "note",
                f"{name} keeps the state of its optimiser beside coefs_ and"
                " intercepts_, and no attack here looks at it",
                "release coefs_ and intercepts_, not the estimator",
            )
            return
        self.say(
            "weakens",
            f"{name} may store training records or statistics"
            " of them, and no attack here looks at more than its arrays of floats",
            "release coefficients or predictions, not the estimator",
        )

    def asked(self) -> None:
        """Accuracy on public records, and whether models can be asked."""
        subject, public = self.subject, self.subject.held_out
        try:
            answers = subject.call().answers(self.returned, public.images)
            scores = np.asarray(answers)
            if scores.dtype.name == "bfloat16":  # no number to NumPy
                scores = scores.astype(np.float32)
        except checks.FieldError as error:  # there is no way to ask it
            self.say(
                "note",
                "neither accuracy nor black-box attacks: models can't be asked",
                str(error),
            )
            return
        except Exception as error:  # the user's own function
            self._unasked(
                f"predict raised {checks.named(error)}",
                "predict(released, images) -> scores (examples, classes)",
                short=f"predict raised {type(error).__name__}",
            )
            return
        classes, what, remedy = subject.fixed.num_classes, "", ""
        if scores.ndim != 2 or len(scores) != len(public):
            what = f"predict gave an array of shape {scores.shape}"
            remedy = f"expected ({len(public)}, classes)"
        elif scores.dtype.kind not in "fiub" or not np.isfinite(scores).all():
            what = "predict gave scores that aren't finite numbers"
            remedy = "give scores or probabilities, not the logarithm of zero"
        elif scores.shape[1] < classes:
            what = f"predict gave {scores.shape[1]} scores for {classes} classes"
            remedy = f"expected a column for every label from 0 to {classes - 1}"
        if what:
            self._unasked(what, remedy, short=what)
            return
        self.accuracy = float(np.mean(scores.argmax(axis=1) == public.labels))
        answering = dataclasses.replace(subject, answering=True)
        if subject.engine in ("jax", "runs"):
            try:
                answering.layout()
            except Exception as error:
                kind = type(error).__name__
                self.say("note", f"no black box: predict isn't traced ({kind})")
                what = f"predict isn't traced ({kind})"
                self.subject = dataclasses.replace(subject, unasked=what)
                return
        self.subject = answering

    def _unasked(self, what: str, remedy: str, *, short: str) -> None:
        """Say why models can't be asked; `short` quotes no message."""
        self.say("weakens", what, remedy)
        self.subject = dataclasses.replace(self.subject, unasked=short)

    def timed(self) -> None:
        """How long a model takes as it will be trained; whether processes agree."""
        self.progress("measuring the time of a model")
        runs = timing.runs_of(self.subject)
        self.at_once = runs.together
        if runs.batched:
            self.seconds, same = timing.batch(self.subject, runs)
            self.each = self.seconds * runs.together
        else:
            # No more at once than there are processes, or the time would be a sum.
            self.at_once = parallel.processes(self.subject.algorithm())
            self.each, same, theta = timing.in_processes(
                self.subject, self.at_once, self.each
            )
            self.seconds = self.each / self.at_once
            if self.deterministic and same and self._is_another(theta):
                self.say(
                    "stops",
                    "other processes give other weights than this one: a module was"
                    " changed after it was imported, or a setting in it",
                    "start a new session, or name the training as FILE.py:NAME",
                )
        if self.deterministic and not same:
            self.say(
                "weakens",
                "the same arguments give other weights in other processes",
                "look for hash(), and for sums that depend on threads",
            )
            # Models are trained in processes, so nothing can be trained again exactly.
            self.subject = dataclasses.replace(self.subject, deterministic=False)
        public = self.subject.split.shadow
        time_of = self.seconds * instability.trainings(public)
        fits = time_of < min(_PATIENCE, self.clock.left)
        if self.deterministic and same and fits:
            self.progress("changing a record a little")
            try:
                self.instability = instability.measure(runs, public)
            except Exception as error:  # the user's own function, or a model's size
                self.say(
                    "note",
                    "whether training is chaotic can't be told: with other records,"
                    f" and these moved a little, it stopped with {checks.named(error)}",
                )
            self.findings += _chaotic(self.instability)


def _chaotic(found: Instability | None) -> list[Finding]:
    if found is None or not found.chaotic:
        return []
    return [
        Finding(
            level="weakens",
            what=f"chaotic, exponent {found.words} over the training: a record that"
            " withstands is protected by instability, not by design. A hundredth of the"
            f" way to another record moves the typical weight {found.growth:.0f} times"
            " as far as in proportion",
            remedy="don't rely on it: a longer search or another release may tell;"
            " noise in training has a bound",
        )
    ]
