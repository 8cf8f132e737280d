"""What can be said of a training function after a few runs of it, before an audit.

Same arguments twice: the same weights? Another target, another order, another key:
other weights? Does JAX trace and differentiate it? How long does a model take? Whatever
voids an audit, or weakens it, becomes a finding with its remedy.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from informed.audit import causes, instability, released
from informed.audit.instability import Instability
from informed.audit.subject import Subject
from shadow.factory import models_per_batch
from shadow.parallel import Runs
from shadow.training import JaxFunction
from shadow.training.algorithm import Algorithm, Draw

LEVELS = ("stops", "weakens", "note")
_SLOW = 5.0  # seconds a model, from which on fewer things are tried
_PATIENCE = 60.0  # seconds for one question
_SAME = 1e-3  # of the distance between two targets' weights


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preflight:
    """What was found; `subject` says how models are made from now on.

    Attributes:
      subject: with engine, deterministic and answering as found.
      findings: most serious first.
      params: length of theta, the weights.
      arrays: names and shapes of what is released.
      seconds_a_model: with as many at once as this machine trains.
      order_matters, key_matters: whether weights change with them; None: not tried.
      shift: distance between weights of two targets, over their length.
      instability: None: not tried.
      accuracy: of one model, on public records; None: models can't be asked.
      seconds: that all this took.
    """

    subject: Subject
    findings: tuple[Finding, ...]
    params: int
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    seconds_a_model: float
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


class _Probe:
    """A training function run by hand, in this process.

    As it is, until `compiled`: an impure function would draw once and for all.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject, self.seconds = subject, 0.0
        self._train = subject.call().train

    def compiled(self) -> None:
        """From now on by way of `jax.jit`."""
        train = jax.jit(self.subject.call().train)
        self._train = lambda images, labels, key: train(
            jnp.asarray(images), jnp.asarray(labels), jax.random.key(key)
        )

    def __call__(self, images: np.ndarray, labels: np.ndarray, key: int = 0) -> Any:
        started = time.monotonic()
        result = self._train(images, labels, key)
        jax.block_until_ready(jax.tree.leaves(result))
        self.seconds = time.monotonic() - started
        return result


def check(
    subject: Subject, progress: Callable[[str], None] = lambda _: None
) -> Preflight:
    """Run the training function a few times.

    Args:
      subject: what is audited; its engine is found out here.
      progress: called with what is done next.
    Raises: RuntimeError: the function raises; FieldError: it returns no arrays.
    """
    started, findings = time.monotonic(), []
    fixed, targets = subject.fixed, subject.split.test
    labels = np.append(fixed.labels, targets.labels[0]).astype(np.int32)

    def with_target(i: int) -> np.ndarray:
        return np.concatenate([fixed.images, targets.images[i : i + 1]])

    progress("training one model")
    probe = _Probe(subject)
    try:
        result = probe(with_target(0), labels)
    except Exception as error:
        raise RuntimeError(
            f"{subject.contract.name} raised {type(error).__name__}: {error}"
        ) from error
    theta = _theta(result)
    if not np.isfinite(theta).all():
        findings.append(
            Finding(
                level="stops",
                what=f"{np.sum(~np.isfinite(theta))} weights are NaN or infinite",
                remedy="lower the learning rate, or train for fewer steps",
            )
        )
    parts = [(p.name, tuple(np.shape(p.array))) for p in released.parts(result)]

    progress("training it again")
    again = _theta(probe(with_target(0), labels))
    plain_seconds = probe.seconds
    if again.shape != theta.shape:
        findings.append(_other_shape("the same arguments"))
        again = theta
    deterministic = np.array_equal(theta, again)
    if not deterministic:
        for cause, remedy in causes.find(
            lambda: _theta(probe(with_target(0), labels)), subject.contract
        ):
            findings.append(
                Finding(
                    level="weakens",
                    what="the same arguments give other weights: " + cause,
                    remedy=remedy,
                )
            )

    progress("trying what JAX can do with it")
    engine, reason = engine_of(subject) if deterministic else ("processes", "")
    if reason:
        findings.append(Finding(level="note", what=reason))
    if engine != "processes":
        probe.compiled()
        # Compiled sums round otherwise: later runs are held against this one.
        theta = again = _theta(probe(with_target(0), labels))
    progress("training on another target")
    second = with_target(min(1, len(targets) - 1))
    if len(targets) < 2:
        second[-1] = subject.held_out.images[0]
    other = _theta(probe(second, labels))
    if other.shape != theta.shape:
        findings.append(_other_shape("another target"))
        other = theta
    apart = float(np.linalg.norm(other - theta))
    noise = float(np.linalg.norm(again - theta))
    if apart == 0:
        findings.append(
            Finding(
                level="weakens",
                what="the weights don't change when the target does",
                remedy="does train use all its arguments? Early stopping or a support"
                " that leaves it out would also do this",
            )
        )
    findings += _kept(subject, probe, result)

    order_matters = key_matters = None
    if deterministic and plain_seconds < _PATIENCE:
        progress("another order, another key")
        shuffled = np.random.default_rng(0).permutation(len(fixed))
        moved = np.append(shuffled, len(fixed))
        found = _theta(probe(with_target(0)[moved], labels[moved]))
        order_matters = _differs(found, theta, apart)
        if subject.contract.takes != "nothing":
            found = _theta(probe(with_target(0), labels, key=1))
            key_matters = _differs(found, theta, apart)
            if not key_matters:
                findings.append(
                    Finding(
                        level="note",
                        what="the key changes nothing: training draws nothing from it",
                    )
                )

    subject = dataclasses.replace(subject, deterministic=bool(deterministic))
    subject = dataclasses.replace(subject, engine=engine)
    accuracy, subject, trouble = _asked(subject, result)
    if trouble:
        findings.append(trouble)
    seconds, unstable = plain_seconds, None
    if not any(finding.level == "stops" for finding in findings):
        progress("measuring the time of a model")
        slow = subject.engine == "processes" and plain_seconds > _SLOW
        runs = _runs(subject, width=2 if slow else None)
        if slow:
            runs(*_rows(subject, runs.together))
            seconds, same = plain_seconds / 2, True
        else:
            seconds, same = _seconds_a_model(subject, runs)
        if deterministic and not same:
            findings.append(
                Finding(
                    level="weakens",
                    what="the same arguments give other weights in other processes",
                    remedy="look for hash(), and for sums that depend on threads",
                )
            )
        public = subject.split.shadow
        affordable = seconds * instability.trainings(public) < _PATIENCE
        if deterministic and same and affordable:
            progress("changing a record a little")
            unstable = instability.measure(runs, public)
            findings += _chaotic(unstable)
    if not deterministic and noise > 0:
        findings.append(
            Finding(
                level="note",
                what=f"runs with equal arguments are {noise / max(apart, 1e-300):.3g}"
                " times as far apart as models of two targets",
            )
        )
    order = sorted(findings, key=lambda f: LEVELS.index(f.level))
    return Preflight(
        subject=subject,
        findings=tuple(order),
        params=len(theta),
        arrays=tuple(parts),
        seconds_a_model=seconds,
        order_matters=order_matters,
        key_matters=key_matters,
        shift=apart / max(float(np.linalg.norm(theta)), np.finfo(float).tiny),
        instability=unstable,
        accuracy=accuracy,
        seconds=time.monotonic() - started,
    )


def _theta(result: Any) -> np.ndarray:
    arrays = [np.ravel(np.asarray(p.array)) for p in released.parts(result)]
    return np.concatenate(arrays).astype(np.float64)


def _differs(found: np.ndarray, theta: np.ndarray, apart: float) -> bool | None:
    """Whether weights differ by more than rounding."""
    if found.shape != theta.shape:
        return True
    return bool(np.linalg.norm(found - theta) > _SAME * apart)


def _other_shape(what: str) -> Finding:
    return Finding(
        level="stops",
        what=f"{what} give weights of another shape, which no attack here compares",
        remedy="release a model whose arrays keep their shapes (trees and early growth"
        " don't)",
    )


def _kept(subject: Subject, probe: _Probe, result: Any) -> list[Finding]:
    """What an estimator holds besides its weights."""
    findings = []
    rows = subject.call().inputs(subject.fixed.images)
    kept = released.keeps_records(result, np.asarray(rows).reshape(len(rows), -1))
    if kept:
        findings.append(
            Finding(
                level="weakens",
                what="the model holds training records word for word:"
                f" {', '.join(kept)}",
                remedy="no attack is needed: don't release this object",
            )
        )
    more = released.ships_more(result)
    if more:
        findings.append(
            Finding(
                level="note",
                what=f"a pickle of it would also hold {', '.join(more)}, which attacks"
                " here don't use",
                remedy="release coefficients, not the estimator",
            )
        )
    return findings


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


def _runs(subject: Subject, *, width: int | None) -> Runs:
    """A as the factory runs it, by one key; `width` None: as many as fit."""
    algorithm, fixed = subject.algorithm(), subject.fixed
    key = algorithm.own_key(jax.random.key(0))
    return Runs(
        algorithm,
        (fixed.images, fixed.labels),
        lambda _: Draw(key=key),
        width=models_per_batch(algorithm, len(fixed)) if width is None else width,
    )


def _rows(subject: Subject, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels and runs of so many targets, again from the first at the end."""
    targets = subject.split.test
    rows = np.arange(count) % len(targets)
    images, labels = targets.images[rows][:, None], targets.labels[rows][:, None]
    return images, labels, np.zeros(count, int)


def _seconds_a_model(subject: Subject, runs: Runs) -> tuple[float, bool]:
    """Of many, as the factory makes them; and whether twice gives the same."""
    rows = _rows(subject, runs.together)
    first = runs(*rows)
    started = time.monotonic()
    again = runs(*rows)
    seconds = (time.monotonic() - started) / runs.together
    return seconds, np.array_equal(first, again)


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
