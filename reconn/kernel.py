"""The kernel reconstructor: ridge regression on functions of theta, a label at a time.

Where shadow models are few a network learns them by heart. For one label, the target is
a smooth function of theta, and kernel ridge regression (`regression`) fits it in closed
form. The same regression on all labels at once, with labels in place of images, tells
which label a release has; every feature counts there by how far labels differ in it. A
second look (`second_look`) takes a third off the error.

Under noise theta tells little, and a regression that follows it ends farther from the
target than the mean image. How much to believe it, the ridge, is therefore chosen on
validation models, on a part of the others; and so is whether there is a second look,
and, where labels can't be told, whether to average over them instead of believing the
likeliest.

On MNIST (fixed set of 1,000) it needs a fifth of the network's shadow models for the
same error, and no optimiser. Other labels' models were of no use to it, nor was a
whitened distance.
"""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int

from reconn import regression
from reconn.regression import Regression
from reconn.second_look import LEAST, SecondLook, Surrogate
from shadow import bars, checks, files
from shadow.records import NotMadeError

# Grows when the same configuration would give something else; see `shadow.records`.
REVISION = 4
RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
_QUERIES_AT_ONCE = 2048
_TRIED = 1000  # models of a label on which ridges are tried, at most
SUMS = "sha256.json"
_JUDGED = 1000  # validation models that judge, at most
_VARIES = 1e-3  # of the largest variance; features that vary less tell no labels

Features = Float32[np.ndarray, "models features"]
TargetImages = Float32[np.ndarray, "models height width channels"]
Labels = Int[np.ndarray, " models"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """The regression. The defaults were chosen on shadow models of MNIST.

    Attributes:
      scale: the kernel's width, in medians of the squared distances.
      ridge: added to the kernel's diagonal, which is 1. None: chosen among `RIDGES` on
        validation models.
      voters: shadow models that tell the label, at most; takes 8 bytes x voters^2.
    """

    scale: float = 4.0
    ridge: float | None = None
    voters: int = 10_000

    def __post_init__(self) -> None:
        checks.positive("scale", self.scale)
        if self.ridge is not None:
            checks.positive("ridge", self.ridge)
        checks.at_least("voters", self.voters, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class KernelRegression:
    """Features in, images out; what a network is to the trainer.

    Attributes:
      config: the kernel.
      image_shape: (height, width, channels).
      of_label: label -> the regression of its images.
      label: the regression of the labels;
      telling: (features,), factors of what it sees.
      second: label -> the second look at what it has read; empty where that is no use.
      mixed: whether images are averaged over labels, by their probabilities.
    """

    config: KernelConfig
    image_shape: tuple[int, ...]
    of_label: dict[int, Regression]
    label: Regression
    telling: np.ndarray
    second: dict[int, SecondLook] = dataclasses.field(default_factory=dict)
    mixed: bool = False

    def labels(self, features: Features) -> Labels:
        """The label of each release's target, as far as theta tells."""
        return self._known[self._votes(features).argmax(axis=1)]

    @property
    def _known(self) -> np.ndarray:
        return np.array(sorted(self.of_label))

    def _votes(self, features: Features) -> np.ndarray:
        parts = [self.label(part * self.telling) for part in _parts(features)]
        return np.concatenate(parts)

    def __call__(self, features: Features) -> TargetImages:
        """One image per model, pixels in [0, 1]."""
        return self.labelled(features)[0]

    def labelled(self, features: Features) -> tuple[TargetImages, Labels]:
        """Images, and the labels that theta tells."""
        votes = self._votes(features)
        labels = self._known[votes.argmax(axis=1)]
        images = (
            self._mixture(features, votes)
            if self.mixed
            else self._chosen(features, labels)
        )
        return images.reshape(-1, *self.image_shape), labels

    def _chosen(self, features: Features, labels: Labels) -> np.ndarray:
        """Images of these labels, (models, pixels)."""
        found = np.empty((len(features), int(np.prod(self.image_shape))), np.float32)
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            answers = np.clip(self.of_label[int(label)](features[rows]), 0, 1)
            if int(label) in self.second:
                look = self.second[int(label)]
                answers = np.clip(look(features[rows], answers), 0, 1)
            found[rows] = answers
        return found

    def _mixture(self, features: Features, votes: np.ndarray) -> np.ndarray:
        """Images averaged over labels, by their positive votes; (models, pixels)."""
        shares = np.maximum(votes, 1e-9)
        shares /= shares.sum(axis=1, keepdims=True)
        found = np.zeros((len(features), int(np.prod(self.image_shape))), np.float32)
        for share, label in zip(shares.T, self._known, strict=True):
            of_this = np.full(len(features), label)
            found += share[:, None].astype(np.float32) * self._chosen(features, of_this)
        return found


def fitted_in(
    workdir: Path,
    features: Features,
    images: TargetImages,
    labels: Labels,
    config: KernelConfig,
    *,
    num_train: int,
    still_own: Callable[[], None],
    progress: bool,
) -> KernelRegression:
    """Fit, judge on the validation models, and save; or read what was saved.

    Args:
      workdir: takes kernel/ and metrics.jsonl, of one line.
      features, images, labels, config, progress: what `fit` takes.
      num_train: how many of the models are fitted; the others validate.
      still_own: called before anything is written; see `records.claim`.
    """
    folder, started = workdir / "kernel", time.monotonic()
    if (folder / SUMS).exists():
        return load(folder, config, images.shape[1:])
    seen, unseen = slice(0, num_train), slice(num_train, None)
    model = fit(
        features[seen],
        images[seen],
        labels[seen],
        config,
        validation=(features[unseen], images[unseen], labels[unseen]),
        progress=progress,
    )
    error = np.mean(np.square(model(features[unseen]) - images[unseen]), dtype=float)
    right = np.mean(model.labels(features[unseen]) == labels[unseen])
    line = {
        "validation_mse": float(error),
        "validation_labels_right": float(right),
        "seconds": round(time.monotonic() - started, 3),
    }
    still_own()
    files.write_bytes(workdir / "metrics.jsonl", (json.dumps(line) + "\n").encode())
    save(model, folder)
    return model


def fit(
    features: Features,
    images: TargetImages,
    labels: Labels,
    config: KernelConfig,
    *,
    validation: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    progress: bool = True,
) -> KernelRegression:
    """Fit the regression of each label, and that of the labels.

    Args:
      features: standardised, of shadow models in random order.
      images, labels: targets of the shadow models.
      config: the kernel.
      validation: features, images and labels of other shadow models. They choose the
        ridge, where the configuration leaves it open, and whether guesses are averaged
        over labels. None: the least ridge is taken, and nothing is averaged.
      progress: show a bar.
    """
    flat = images.reshape(len(images), -1)
    known = np.unique(labels)
    votes = (labels[:, None] == known[None]).astype(np.float32)
    voters, telling = slice(0, config.voters), _telling(features, votes)
    of_images = of_votes = RIDGES[0] if config.ridge is None else config.ridge
    if validation is not None:
        unseen = tuple(each[:_JUDGED] for each in validation)
        if config.ridge is None:
            of_images = _ridge_of_images(features, flat, labels, unseen, config)
            theirs = (unseen[2][:, None] == known[None]).astype(np.float32)
            some = slice(0, min(2 * _TRIED, config.voters))
            seen = features[some] * telling, votes[some]
            errors = _errors(*seen, unseen[0] * telling, theirs, config.scale)
            of_votes = RIDGES[int(np.argmin(errors))]
    of_label, answers = {}, {}
    for label in bars.bar(
        known.tolist(),
        desc="kernel regression",
        unit=" labels",
        show=progress,
    ):
        rows = np.flatnonzero(labels == label)
        seen = features[rows], flat[rows]
        if validation is None or len(rows) < LEAST:
            of_label[label] = Regression.fit(*seen, scale=config.scale, ridge=of_images)
            continue
        of_label[label], found = Regression.fit_left_out(
            *seen, scale=config.scale, ridge=of_images
        )
        answers[label] = np.clip(found, 0, 1)
    fitted = KernelRegression(
        config=config,
        image_shape=tuple(images.shape[1:]),
        of_label=of_label,
        label=Regression.fit(
            features[voters] * telling,
            votes[voters],
            scale=config.scale,
            ridge=of_votes,
        ),
        telling=telling,
    )
    if validation is None:
        return fitted
    second = _second_looks(fitted, features, flat, labels, answers, unseen, progress)
    fitted = _better(fitted, dataclasses.replace(fitted, second=second), unseen)
    return _better(fitted, dataclasses.replace(fitted, mixed=True), unseen)


def _telling(
    features: Features, votes: Float32[np.ndarray, "models labels"]
) -> Float32[np.ndarray, " features"]:
    """The root of the share of each feature's variance that lies between labels.

    Without it, labels are told by what most features see of the image.
    """
    counts = votes.sum(axis=0, dtype=np.float64)
    means = (votes.T @ features) / counts[:, None]
    overall = features.mean(axis=0, dtype=np.float64)
    between = counts @ (means - overall) ** 2 / len(features)
    whole = features.var(axis=0, dtype=np.float64)
    varies = whole > _VARIES * whole.max()
    share = np.where(varies, between / np.where(varies, whole, 1), 0)
    return np.sqrt(np.clip(share, 0, 1)).astype(np.float32)


def _better(
    fitted: KernelRegression,
    other: KernelRegression,
    unseen: tuple[np.ndarray, ...],
) -> KernelRegression:
    """The other, where its squared error on unseen models is smaller."""
    plain, changed = (
        float(np.sum(np.square(each(unseen[0]) - unseen[1])))
        for each in (fitted, other)
    )
    return other if changed < plain else fitted


def _second_looks(
    first: KernelRegression,
    features: Features,
    flat: np.ndarray,
    labels: Labels,
    answers: dict[int, np.ndarray],
    unseen: tuple[np.ndarray, ...],
    progress: bool,
) -> dict[int, SecondLook]:
    """Of the labels with answers that had not seen the model; one ridge for all."""
    scale, judged = first.config.scale, np.zeros(len(RIDGES))
    begun = {}
    for label in bars.bar(
        sorted(answers),
        desc="second look",
        unit=" labels",
        show=progress,
    ):
        rows = np.flatnonzero(labels == label)
        surrogate, inputs = Surrogate.fit(features[rows], flat[rows], answers[label])
        errors = flat[rows] - answers[label]
        begun[label] = surrogate, inputs, errors
        own = np.flatnonzero(unseen[2] == label)
        if len(own):
            there = np.clip(first.of_label[label](unseen[0][own]), 0, 1)
            judged += _errors(
                inputs[:_TRIED],
                errors[:_TRIED],
                surrogate(unseen[0][own], there),
                unseen[1][own].reshape(len(own), -1),
                scale,
                onto=there,
            )
    ridge = RIDGES[int(np.argmin(judged))]
    looks = {}
    for label in list(begun):
        surrogate, inputs, errors = begun.pop(label)
        error = Regression.fit(inputs, errors, scale=scale, ridge=ridge)
        looks[label] = SecondLook(surrogate=surrogate, error=error)
    return looks


def _ridge_of_images(
    features: Features,
    flat: np.ndarray,
    labels: Labels,
    unseen: tuple[np.ndarray, ...],
    config: KernelConfig,
) -> float:
    """The ridge of least error, over all labels, when these are told."""
    errors = np.zeros(len(RIDGES))
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)[:_TRIED]
        own = np.flatnonzero(unseen[2] == label)
        if len(own):
            truth = unseen[1][own].reshape(len(own), -1)
            seen = features[rows], flat[rows]
            errors += _errors(*seen, unseen[0][own], truth, config.scale, onto=0.0)
    return RIDGES[int(np.argmin(errors))]


def _errors(
    features: np.ndarray,
    values: np.ndarray,
    unseen: np.ndarray,
    truth: np.ndarray,
    scale: float,
    *,
    onto: np.ndarray | float | None = None,
) -> Float[np.ndarray, " ridges"]:
    """Squared errors on unseen models with every ridge, from one eigendecomposition.

    Args:
      features, values, unseen, truth, scale: rows that are fitted, rows that are
        judged, and the kernel's width.
      onto: pixels that what is found is added to. The sum is cut to [0, 1] before it is
        judged, as it is when it is used: it takes off much of what a small ridge lets
        through. None: these aren't pixels, and nothing is cut.
    """
    centre, points, distances, median = regression.centred(features)
    width = scale * median
    offset = values.mean(axis=0, dtype=np.float64)
    spectrum, basis = np.linalg.eigh(regression.similarity(distances, width))
    between = regression.squared_distances(unseen - centre, points)
    across = regression.similarity(between, width) @ basis
    along = basis.T @ (values - offset)
    errors = []
    for ridge in RIDGES:
        found = offset + (across / (spectrum + ridge)) @ along
        found = found if onto is None else np.clip(onto + found, 0, 1)
        errors.append(np.sum(np.square(found - truth)))
    return np.array(errors)


def save(fitted: KernelRegression, folder: Path) -> None:
    """Write one .npy file an array; last comes `SUMS`, the checksum of each."""
    for name, part in _regressions(fitted).items():
        for field in dataclasses.fields(Regression):
            values = np.asarray(getattr(part, field.name))
            files.write_array(folder / f"{name}.{field.name}.npy", values)
    factors = [
        (look.surrogate.of_theta, look.surrogate.of_answer)
        for _, look in sorted(fitted.second.items())
    ]
    files.write_array(folder / "telling.npy", fitted.telling)
    files.write_array(folder / "factors.npy", np.array(factors).reshape(-1, 2))
    files.write_array(folder / "looked_at.npy", np.array(sorted(fitted.second), int))
    files.write_array(folder / "mixed.npy", np.array(fitted.mixed))
    files.write_array(folder / "labels.npy", np.array(sorted(fitted.of_label)))
    sums = {file.name: _sha256(file) for file in sorted(folder.glob("*.npy"))}
    files.write_json(folder / SUMS, sums)


def _regressions(fitted: KernelRegression) -> dict[str, Regression]:
    """All of them, by the names of their files."""
    found = {str(label): part for label, part in fitted.of_label.items()}
    for label, look in fitted.second.items():
        found[f"{label}.surrogate"] = look.surrogate.theta
        found[f"{label}.error"] = look.error
    return found | {"label": fitted.label}


def load(
    folder: Path, config: KernelConfig, image_shape: tuple[int, ...]
) -> KernelRegression:
    """Read what `save` wrote; points are mapped.

    Raises: NotMadeError: nothing whole is there; ValueError: a file is damaged.
    """
    if not (folder / SUMS).exists():
        raise NotMadeError(f"There is no kernel regression in {folder}.", by="train")
    for name, wanted in json.loads((folder / SUMS).read_text()).items():
        if not (folder / name).exists() or _sha256(folder / name) != wanted:
            raise ValueError(
                f"{folder / name} is damaged: it isn't what training wrote. Delete"
                f" {folder} and train again."
            )

    def part(name: object) -> Regression:
        return Regression(
            **{
                field.name: _read(folder / f"{name}.{field.name}.npy")
                for field in dataclasses.fields(Regression)
            }
        )

    factors, labels = _read(folder / "factors.npy"), _read(folder / "labels.npy")
    second = {}
    for label, row in zip(_read(folder / "looked_at.npy"), factors, strict=True):
        surrogate = Surrogate(
            theta=part(f"{label}.surrogate"),
            of_theta=float(row[0]),
            of_answer=float(row[1]),
        )
        second[int(label)] = SecondLook(
            surrogate=surrogate, error=part(f"{label}.error")
        )
    return KernelRegression(
        config=config,
        image_shape=tuple(image_shape),
        of_label={int(label): part(label) for label in labels},
        label=part("label"),
        telling=_read(folder / "telling.npy"),
        second=second,
        mixed=bool(np.load(folder / "mixed.npy", allow_pickle=False)),
    )


def _parts(features: np.ndarray) -> Iterator[np.ndarray]:
    """A few thousand queries at a time."""
    for start in range(0, len(features), _QUERIES_AT_ONCE):
        yield features[start : start + _QUERIES_AT_ONCE]


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read(file: Path) -> Any:
    """Map an array; a single number is read."""
    values = np.load(file, mmap_mode="r", allow_pickle=False)
    return values if values.ndim else float(values)
