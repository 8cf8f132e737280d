"""The attacks of an audit, each on the same released models.

What an attack saw and knew, what it found, and what it cost; or why it wasn't tried.
A target that an attack began and didn't finish in its time counts as not found.
"""

import dataclasses
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from informed.attacks import registry
from informed.attacks.glm.estimators import SUPPORTED, reconstruct
from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.registry import Material
from informed.audit import limits, released
from informed.audit.subject import ANSWERS, WEIGHTS, Subject
from informed.threat import Knowledge, Reconstruction
from shadow.data import Examples
from shadow.models import ShadowModels
from shadow.parallel import Runs
from shadow.release import Release, publish
from shadow.training.algorithm import Draw
from shadow.views import Layers

Progress = Callable[[str], None]
_FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS = 20, 600
_PAIRS = 3

ALL_BUT_ONE = "all records but one and the training code"
SEED = "all records but one, the training code and the seed"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """One attack.

    Attributes:
      name: of it.
      about, sees, knows: in words.
      images: (attempted, ...), its guesses at the first targets; None: not tried.
      labels: (attempted,), where it names them.
      certified: (attempted,) bool, where it certifies.
      finished: (attempted,) bool.
      seconds: that it took, its shadow models included.
      trainings: of the training function, shadow models included; None: nothing was
        finished, and what was begun isn't counted.
      why_not: it wasn't tried, or wasn't finished.
    """

    name: str
    about: str
    sees: str
    knows: str
    images: np.ndarray | None = None
    labels: np.ndarray | None = None
    certified: np.ndarray | None = None
    finished: np.ndarray | None = None
    seconds: float = 0.0
    trainings: int | None = 0
    why_not: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Models:
    """Trained models that attacks share.

    Attributes:
      subject: who trained them.
      released: (targets, values), weights, and answers after them.
      shadows: the same of public records; None: there are none.
      secret: the key was told to nobody.
      seconds: that the shadow models took.
    """

    subject: Subject
    released: np.ndarray
    shadows: ShadowModels | None
    secret: bool
    seconds: float

    @property
    def targets(self) -> Examples:
        """Of the released models."""
        return self.subject.split.test.take(np.arange(len(self.released)))

    @property
    def weights(self) -> Release:
        """The weights alone, as a release of all of theta."""
        return publish(self.subject.only(WEIGHTS)(self.released))

    def knowledge(self) -> Knowledge:
        """What the adversary of Definition 1 is told."""
        factory = self.subject.factory("released", secret=self.secret)
        return Knowledge.informed(factory, public=self.subject.split.shadow)


def train(
    subject: Subject,
    *,
    targets: int,
    shadows: int,
    secret: bool = False,
    noise: float | None = None,
    progress: Progress = lambda _: None,
) -> Models:
    """Train released and shadow models."""
    settings: dict[str, Any] = {"answers": True, "secret": secret, "noise": noise}
    progress(f"training {targets} released models")
    of = subject.split.test.take(np.arange(targets))
    made = subject.factory("released", **settings).train(of)
    found, started = None, time.monotonic()
    if shadows:
        progress(f"training {shadows} shadow models")
        public = subject.split.shadow.take(np.arange(shadows))
        weights = subject.factory("shadow", **settings).train(public)
        found = ShadowModels.of(np.asarray(weights, np.float32), public)
    return Models(
        subject=subject,
        released=made,
        shadows=found,
        secret=secret,
        seconds=time.monotonic() - started,
    )


def inversion(
    models: Models,
    seconds_a_model: float,
    *,
    limit: float,
    release: Release | None = None,
) -> Trial:
    """Training inversion, until the time is over.

    Args:
      release: of these models, if it isn't all their weights as they are.
    """
    row = registry.find("inversion")
    trial = Trial(
        name="inversion",
        about=row.about,
        sees="all weights",
        knows=ALL_BUT_ONE if models.secret else SEED,
    )
    subject = models.subject
    if not subject.deterministic:
        return dataclasses.replace(
            trial,
            why_not="equal arguments give other weights; see what the pre-flight found",
        )
    affordable = int(0.1 * limit / max(seconds_a_model, 1e-9))
    neighbours = int(np.clip(affordable, _FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS))
    usual = InversionConfig()
    draws = int(np.clip(affordable, usual.draws, usual.noise_draws))
    attack = TrainingInversion(
        config=dataclasses.replace(usual, neighbours=neighbours, noise_draws=draws)
    )
    release = models.weights if release is None else release
    told = models.knowledge()
    found: list[Reconstruction] = []
    cut, started = False, time.monotonic()
    try:
        with limits.seconds(limit):
            found.extend(attack.each(release, told, key=jax.random.key(subject.seed)))
    except limits.OutOfTimeError:
        cut = True
    return _trial_of(
        trial,
        found,
        models,
        cut=cut and len(found) < len(release),
        seconds=time.monotonic() - started,
    )


def _trial_of(
    trial: Trial,
    found: list[Reconstruction],
    models: Models,
    *,
    cut: bool,
    seconds: float,
) -> Trial:
    """With what was found; the target that time cut off counts as not found."""
    attempted, total = len(found) + cut, len(models.released)
    why = ""
    if cut:
        why = (
            f"out of time at target {attempted} of {total}; the others weren't tried."
            " Give it more --minutes"
        )
    blank = np.full((int(cut), *models.targets.image_shape), np.nan, np.float32)
    finished = np.append(np.ones(len(found), bool), np.zeros(int(cut), bool))
    if not found:
        return dataclasses.replace(
            trial,
            images=blank,
            certified=np.zeros(len(blank), bool),
            finished=finished,
            seconds=seconds,
            trainings=None,
            why_not=why,
        )
    whole = Reconstruction.joined(found)
    padded: dict[str, Any] = {
        name: None
        if value is None
        else np.append(value, np.zeros(int(cut), value.dtype))
        for name, value in (("labels", whole.labels), ("certified", whole.certified))
    }
    if padded["labels"] is not None and cut:
        padded["labels"][-1] = -1
    trainings = 0 if whole.trainings is None else int(whole.trainings.sum())
    return dataclasses.replace(
        trial,
        images=np.concatenate([whole.images, blank]),
        finished=finished,
        seconds=seconds,
        trainings=trainings,
        why_not=why,
        **padded,
    )


def learned(
    models: Models, kind: str = "kernel", *, view: Layers | None = None, **words: str
) -> Trial:
    """A reconstructor trained on shadow models: "kernel" or "reconn".

    Args:
      view: of weights and answers; None: all the weights.
      words: name, sees and knows, where they aren't those of `kind`.
    """
    row = registry.find(kind)
    knows = ALL_BUT_ONE if models.secret else SEED
    fields: dict[str, Any] = {"name": kind, "sees": "all weights", "knows": knows}
    trial = Trial(about=row.about, **{**fields, **words})
    if models.shadows is None:
        return dataclasses.replace(trial, why_not="no shadow models in this time")
    view = models.subject.only(WEIGHTS) if view is None else view
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        attack = row.make(
            row.config(),
            Material(
                shadows=models.shadows,
                view=view,
                workdir=Path(folder),
                key=jax.random.key(models.subject.seed),
            ),
        )
        release = publish(np.asarray(models.released, np.float32), view)
        found = attack(release, Knowledge(), key=jax.random.key(models.subject.seed))
    return dataclasses.replace(
        trial,
        images=found.images,
        labels=found.labels,
        finished=np.ones(len(release), bool),
        seconds=models.seconds + time.monotonic() - started,
        trainings=len(models.shadows),
    )


def black_box(models: Models) -> Trial:
    """The kernel regression on answers alone."""
    words: dict[str, Any] = {
        "name": "black box",
        "sees": f"scores for {len(models.subject.held_out)} public records",
        "knows": ALL_BUT_ONE if models.secret else SEED,
    }
    if not models.subject.answering:
        trial = Trial(
            about="kernel regression on answers",
            why_not="models can't be asked: no predict(released, images)",
            **words,
        )
        return trial
    view = models.subject.only(ANSWERS)
    return learned(models, view=view, **words)


def closed_form(models: Models) -> Trial:
    """Theorem 1 on scikit-learn's linear models."""
    trial = Trial(
        name="closed form",
        about="linear equations at the optimum of a linear model (Theorem 1)",
        sees="all weights",
        knows=ALL_BUT_ONE,
    )
    subject = models.subject
    call, fixed = subject.call(), subject.fixed
    started = time.monotonic()
    images = np.concatenate([fixed.images, subject.split.test.images[:1]])
    labels = np.append(fixed.labels, subject.split.test.labels[0])
    template = call.train(images, labels, 0) if subject.engine == "processes" else None
    if not released.is_estimator(template) or type(template).__name__ not in SUPPORTED:
        return dataclasses.replace(
            trial, why_not=f"it is for estimators of type {', '.join(SUPPORTED)}"
        )
    known = np.asarray(call.inputs(fixed.images)).reshape(len(fixed), -1)
    shapes = [part.array.shape for part in released.parts(template)]
    guesses, names, done = [], [], []
    for theta in models.weights.values:
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        arrays = [
            a.reshape(s) for a, s in zip(np.split(theta, ends), shapes, strict=True)
        ]
        model = released.replaced(template, arrays)
        try:
            guess: Any = reconstruct(model, known, fixed.labels)
            guess = guess[0] if isinstance(guess, tuple) else guess
            image = scaled(subject, np.asarray(guess.x))
            guesses.append(image)
            names.append(int(guess.y) if guess.y is not None else -1)
            done.append(True)
        except (ValueError, ArithmeticError):
            guesses.append(np.full(fixed.image_shape, np.nan))
            names.append(-1)
            done.append(False)
    return dataclasses.replace(
        trial,
        images=np.stack(guesses).astype(np.float32),
        labels=np.array(names),
        finished=np.array(done),
        seconds=time.monotonic() - started,
        trainings=1,
    )


def scaled(subject: Subject, features: np.ndarray) -> np.ndarray:
    """Features in the function's units as an image of [0, 1]."""
    if subject.table is not None:
        low, width = subject.table.ranges
        features = (features.ravel() - low) / width
    return features.reshape(subject.fixed.image_shape)


def several(models: Models, *, limit: float) -> Trial:
    """Two unknown records at once, a few times."""
    subject, pairs = models.subject, min(_PAIRS, len(models.released) // 2)
    trial = Trial(
        name="two missing",
        about="inversion of two unknown records together",
        sees="all weights",
        knows="all records but two, their labels, the training code and the seed",
    )
    if models.secret:
        return dataclasses.replace(trial, why_not="the seed is secret")
    if subject.engine != "jax" or pairs < 1:
        why = "it needs derivatives through JAX" if pairs else "needs two targets"
        return dataclasses.replace(trial, why_not=why)
    targets = models.targets
    told = models.knowledge()
    runs = Runs(
        subject.algorithm(),
        (subject.fixed.images, subject.fixed.labels),
        lambda _: Draw(key=told.training_key),
        width=pairs,
    )
    rows = np.arange(2 * pairs).reshape(pairs, 2)
    images, labels = targets.images[rows], targets.labels[rows]
    started = time.monotonic()
    found: list[Reconstruction] = []
    cut = False
    try:
        with limits.seconds(limit):
            release = publish(runs(images, labels, np.zeros(pairs, int)))
            attack = TrainingInversion()
            for i in range(pairs):
                one = dataclasses.replace(release, values=release.values[i : i + 1])
                found += attack.several(
                    one, told, labels[i : i + 1], key=jax.random.key(subject.seed)
                )
    except limits.OutOfTimeError:
        cut = True
    done = 2 * len(found)
    if not found:
        why = f"not one pair in {limit:.0f} s" if cut else ""
        return dataclasses.replace(trial, why_not=why)
    whole = Reconstruction.joined(found)
    whole = _matched(whole, images[: len(found)], labels[: len(found)])
    return dataclasses.replace(
        trial,
        images=whole.images,
        certified=whole.certified,
        finished=np.ones(done, bool),
        seconds=time.monotonic() - started,
        why_not=f"out of time after {len(found)} pairs" if cut else "",
    )


def _matched(
    whole: Reconstruction, images: np.ndarray, labels: np.ndarray
) -> Reconstruction:
    """Points of one label may come in any order: put in the better one."""
    guesses = whole.images.copy()
    for pair, (truth, named) in enumerate(zip(images, labels, strict=True)):
        rows = slice(2 * pair, 2 * pair + 2)
        straight = np.mean((guesses[rows] - truth) ** 2)
        crossed = np.mean((guesses[rows][::-1] - truth) ** 2)
        if named[0] == named[1] and crossed < straight:
            guesses[rows] = guesses[rows][::-1]
    return dataclasses.replace(whole, images=guesses)
