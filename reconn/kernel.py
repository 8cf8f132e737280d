"""Reconstruct images from released weights theta by kernel ridge regression, per label.

It takes the place of the network of Balle et al. 2022, which overfits where shadow
models are few. `trainer` calls `Kernel.learn`, `refined` calls `learned`, and
`reconstructor` calls `load`. A run that has a folder keeps the regressions in `kernel`
there, and left-out predictions in `left_out` beside it, and reads them if continued.

For one label, the target is a smooth function of theta, and kernel ridge regression
(`ridge`) fits it in closed form. Another regression, over all labels, predicts the
label of a release, with features weighted by between-label variance. A second look
(`second_look`), a regression of the first guess's error, takes a third off that error
on MNIST with 14,400 models.

Under noise theta carries little information, and a regression that fits it closely ends
farther from the target than the mean image. So validation models choose the ridges
(`Kernel.ridge` can set all but a second look's), whether there is a second look, and
whether to average over labels instead of taking the likeliest, which helps where labels
can't be predicted.
"""

import dataclasses
import hashlib
import json
import math
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Float32

from reconn.method import JUDGED, Features, Labels, Method, Run, TargetImages
from reconn.ridge import RIDGES, Regression, squared_errors
from reconn.second_look import LEAST, Surrogate
from shadow import bars, checks, files, views
from shadow.records import NotMadeError

Flat = Float32[np.ndarray, "models pixels"]
Votes = Float[np.ndarray, "models labels"]  # outputs of the label regression
# Incremented when the same configuration gives other results; see `shadow.records`.
REVISION = 5
SUMS = "sha256.json"  # written last, so it marks a complete folder
_QUERIES_AT_ONCE = 2048  # models per call of the label regression; bounds memory
_TRIED = 1000  # models of a label, and half of all labels, to try ridges on, at most
_LEFT_OUT = ("votes", "first", "second")  # fields of `LeftOut` with a file each
_VARIES = 1e-3  # of the largest variance; features below it don't predict labels


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kernel(Method):
    """Settings of the kernel reconstructor; defaults chosen on shadow models of MNIST.

    Attributes:
      scale: the kernel's width, in medians of the squared distances.
      ridge: added to the kernel's diagonal, which is 1; not of the second look. None:
        chosen among `RIDGES` on validation models, as the second look's always is.
      voters: models that the label regression uses, at most, in 8 voters^2 bytes.
    """

    kind = "kernel"
    revisions: ClassVar = {"kernel": REVISION, "view": views.REVISION}
    scale: float = 4.0
    ridge: float | None = None
    voters: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("scale", self.scale)
        if self.ridge is not None:
            checks.positive("ridge", self.ridge)

    def learn(self, run: Run) -> "KernelRegression":
        """Return the regression, fitted or read; its error goes to metrics.jsonl."""
        started = time.monotonic()
        model, _ = learned(self, run)
        metrics = run.workdir / "metrics.jsonl"
        if metrics.exists():  # of the run that is continued
            return model
        unseen = slice(run.num_train, None)
        guesses, named = model.labelled(run.features[unseen])
        errors = np.square(guesses - run.images[unseen])
        line = {
            "validation_mse": float(np.mean(errors, dtype=float)),
            "validation_labels_right": float(np.mean(named == run.labels[unseen])),
            "seconds": round(time.monotonic() - started, 3),
        }
        run.still_ours()
        files.write_bytes(metrics, f"{json.dumps(line)}\n".encode())
        return model


@dataclasses.dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out predictions of a kernel regression for its training models.

    Attributes:
      first, second: images by the regression of their true label, at both looks; the
        same where a label has no second one. A second look leaves a model out of its
        own regressions, but not out of the other models' first looks. Its error is
        larger than on a release: 0.0033 against 0.0025 on MNIST.
    """

    votes: Votes
    first: Flat
    second: Flat
    labels: Labels

    def take(self, rows: np.ndarray) -> "LeftOut":
        """Return the predictions for some of the models."""
        return LeftOut(*(getattr(self, f.name)[rows] for f in dataclasses.fields(self)))


@dataclasses.dataclass(frozen=True, eq=False)
class KernelRegression:
    """A fitted kernel reconstructor: features of theta in, images and labels out.

    Attributes:
      of_label: label -> the regression of its images.
      label: the regression of the labels.
      label_relevance: (features,), factors of the features that `label` takes.
      second: label -> the surrogate of its second look, and the regression of the
        first look's error; empty where second looks didn't help.
      mixed: whether images are averaged over labels, by their positive votes.
    """

    image_shape: tuple[int, ...]
    of_label: dict[int, Regression]
    label: Regression
    label_relevance: np.ndarray
    second: dict[int, tuple[Surrogate, Regression]] = dataclasses.field(
        default_factory=dict
    )
    mixed: bool = False

    def __call__(self, features: Features) -> TargetImages:
        """Return one image per model, pixels in [0, 1]."""
        return self.labelled(features)[0]

    def labelled(self, features: Features) -> tuple[TargetImages, Labels]:
        """Return images, and the likeliest labels."""
        votes = self.votes(features)
        labels = np.array(sorted(self.of_label))[votes.argmax(axis=1)]
        return self.images(features, votes), labels

    def votes(self, features: Features) -> Votes:
        """Return one vote per label, in their order; the largest is the likeliest."""
        parts = [
            self.label(features[i : i + _QUERIES_AT_ONCE] * self.label_relevance)
            for i in range(0, max(1, len(features)), _QUERIES_AT_ONCE)
        ]
        return np.concatenate(parts)

    def looks(
        self, features: Features, votes: Votes, left_out: LeftOut | None = None
    ) -> tuple[TargetImages, TargetImages]:
        """Return the images of the last look, and those of the first; see `images`."""
        only_first = dataclasses.replace(self, second={})
        first = only_first.images(features, votes, left_out)
        return self.images(features, votes, left_out) if self.second else first, first

    def images(
        self, features: Features, votes: Votes, left_out: LeftOut | None = None
    ) -> TargetImages:
        """Return images of the likeliest labels, or averaged over labels.

        Of training models, `left_out` has the images of their true label.
        """

        def of(rows: np.ndarray, label: int) -> np.ndarray:
            if left_out is None:
                return self._of_label(features[rows], label)
            images = (left_out.second if self.second else left_out.first)[rows]
            other = left_out.labels[rows] != label
            images[other] = self._of_label(features[rows[other]], label)
            return images

        likeliest = votes.argmax(axis=1)
        images = np.zeros((len(features), math.prod(self.image_shape)), np.float32)
        # Images averaged over labels, by their positive votes.
        shares = np.maximum(votes, 1e-9)
        shares = (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
        for i, label in enumerate(sorted(self.of_label)):
            if self.mixed:
                images += shares[:, [i]] * of(np.arange(len(features)), label)
            else:
                rows = np.flatnonzero(likeliest == i)
                images[rows] = of(rows, label)
        return images.reshape(-1, *self.image_shape)

    def _of_label(self, features: Features, label: int) -> Flat:
        guesses = np.clip(self.of_label[label](features), 0, 1)
        if label in self.second:
            surrogate, error = self.second[label]
            guesses = np.clip(guesses + error(surrogate(features, guesses)), 0, 1)
        return guesses.astype(np.float32)


def fit(
    features: Features,
    images: TargetImages,
    labels: Labels,
    kernel: Kernel,
    *,
    validation: tuple[np.ndarray, ...],
    leave_out: bool = False,
    progress: bool = True,
) -> tuple[KernelRegression, LeftOut | None]:
    """Fit the regression of each label, and that of the labels.

    Args:
      features: standardised, of shadow models in random order.
      images, labels: targets of the shadow models.
      validation: features, images and labels of other shadow models. They choose the
        ridge, where the settings leave it open, and whether there is a second look and
        guesses are averaged over labels.
      leave_out: also predict every training model as if it had been left out.
    Returns: the regression; with `leave_out` those predictions, else None.
    """
    flat, scale = images.reshape(len(images), -1), kernel.scale
    classes = np.unique(labels)
    votes = (labels[:, None] == classes[None]).astype(np.float32)
    voters = slice(0, kernel.voters)
    label_relevance = _label_relevance(features, votes)
    unseen = tuple(values[:JUDGED] for values in validation)
    if kernel.ridge is not None:
        of_images = of_votes = kernel.ridge
    else:
        errors = np.zeros(len(RIDGES))  # over all labels, which are known here
        for label in classes:
            rows = np.flatnonzero(labels == label)[:_TRIED]
            same = np.flatnonzero(unseen[2] == label)
            if len(same):
                truth = unseen[1][same].reshape(len(same), -1)
                points = features[rows], flat[rows]
                errors += squared_errors(
                    *points, unseen[0][same], truth, scale, onto=0.0
                )
        of_images = RIDGES[int(np.argmin(errors))]
        truth = (unseen[2][:, None] == classes[None]).astype(np.float32)
        tried = slice(0, min(2 * _TRIED, kernel.voters))
        points = features[tried] * label_relevance, votes[tried]
        errors = squared_errors(*points, unseen[0] * label_relevance, truth, scale)
        of_votes = RIDGES[int(np.argmin(errors))]
    of_label, first_looks, fitted, judged = {}, {}, {}, np.zeros(len(RIDGES))
    for label in bars.bar(
        classes.tolist(), desc="kernel regression", unit=" labels", show=progress
    ):
        rows = np.flatnonzero(labels == label)
        points = features[rows], flat[rows]
        if len(rows) < LEAST and not leave_out:
            of_label[label] = Regression.fit(*points, scale=scale, ridge=of_images)
            continue
        of_label[label], unbiased = Regression.fit_left_out(
            *points, scale=scale, ridge=of_images
        )
        if len(rows) == 1:  # left out, it has no regression: other labels' mean
            unbiased = np.delete(flat, rows, axis=0).mean(axis=0, keepdims=True)
        first_looks[label] = guesses = np.clip(unbiased, 0, 1)
        if len(rows) < LEAST:
            continue
        surrogate, inputs = Surrogate.fit(*points, guesses)
        errors = flat[rows] - guesses
        fitted[label] = surrogate, inputs, errors
        same = np.flatnonzero(unseen[2] == label)
        if len(same):
            onto = np.clip(of_label[label](unseen[0][same]), 0, 1)
            judged += squared_errors(
                inputs[:_TRIED],
                errors[:_TRIED],
                surrogate(unseen[0][same], onto),
                unseen[1][same].reshape(len(same), -1),
                scale,
                onto=onto,
            )
    second: dict[int, tuple[Surrogate, Regression]] = {}
    second_looks = dict(first_looks)
    of_errors = RIDGES[int(np.argmin(judged))]
    for label in list(fitted):
        surrogate, inputs, errors = fitted.pop(label)  # which frees its memory
        if leave_out:
            error, shift = Regression.fit_left_out(
                inputs, errors, scale=scale, ridge=of_errors
            )
            second_looks[label] = np.clip(first_looks[label] + shift, 0, 1)
        else:
            error = Regression.fit(inputs, errors, scale=scale, ridge=of_errors)
        second[label] = surrogate, error
    points = features[voters] * label_relevance, votes[voters]
    if leave_out:
        of_labels, of_voters = Regression.fit_left_out(
            *points, scale=scale, ridge=of_votes
        )
    else:
        of_labels = Regression.fit(*points, scale=scale, ridge=of_votes)
    best = KernelRegression(
        image_shape=tuple(images.shape[1:]),
        of_label=of_label,
        label=of_labels,
        label_relevance=label_relevance,
    )
    left_out = None
    if leave_out:
        looks = np.empty_like(flat), np.empty_like(flat)
        for label in first_looks:
            looks[0][labels == label] = first_looks[label]
            looks[1][labels == label] = second_looks[label]
        others = best.votes(features[kernel.voters :])
        all_votes = np.concatenate([of_voters, others])
        left_out = LeftOut(all_votes, *looks, labels)
    for change in ({"second": second}, {"mixed": True}):
        other = dataclasses.replace(best, **change)
        plain, changed = (
            float(np.sum(np.square(model(unseen[0]) - unseen[1])))
            for model in (best, other)
        )
        best = other if changed < plain else best
    return best, left_out


def _label_relevance(
    features: Features, votes: Float32[np.ndarray, "models labels"]
) -> Float32[np.ndarray, " features"]:
    """Return the root of the share of each feature's variance that is between labels.

    Unweighted, the many features that vary with the image swamp those of the label.
    """
    counts = votes.sum(axis=0, dtype=np.float64)
    means = (votes.T @ features) / counts[:, None]
    overall = features.mean(axis=0, dtype=np.float64)
    between = counts @ (means - overall) ** 2 / len(features)
    total = features.var(axis=0, dtype=np.float64)
    varies = total > _VARIES * total.max()
    share = np.where(varies, between / np.where(varies, total, 1), 0)
    return np.sqrt(np.clip(share, 0, 1)).astype(np.float32)


def learned(
    kernel: Kernel, run: Run, *, leave_out: bool = False
) -> "tuple[KernelRegression, LeftOut | None]":
    """Return what `fit` gives, or what an earlier call kept in the work folder."""
    folder, beside = run.workdir / "kernel", run.workdir / "left_out"
    arrays = run.features, run.images, run.labels
    features, images, labels = (values[: run.num_train] for values in arrays)
    done = not leave_out or (beside / f"{_LEFT_OUT[-1]}.npy").exists()
    if done and (folder / SUMS).exists():
        left_out = None
        if leave_out:
            votes, first, second = (_read(beside / f"{n}.npy") for n in _LEFT_OUT)
            left_out = LeftOut(votes, first, second, labels)
        return load(folder, run.images.shape[1:]), left_out
    model, left_out = fit(
        features,
        images,
        labels,
        kernel,
        validation=tuple(values[run.num_train :] for values in arrays),
        leave_out=leave_out,
        progress=run.progress,
    )
    run.still_ours()
    if run.kept:
        save(model, folder)
        for name in _LEFT_OUT if left_out else ():
            files.write_array(beside / f"{name}.npy", getattr(left_out, name))
    return model, left_out


def save(fitted: KernelRegression, folder: Path) -> None:
    """Write one .npy file per array, and last `SUMS`, their checksums."""
    regressions = {str(label): part for label, part in fitted.of_label.items()}
    regressions["label"] = fitted.label
    factors = []
    for label, (surrogate, error) in sorted(fitted.second.items()):
        regressions[f"{label}.surrogate"] = surrogate.theta
        regressions[f"{label}.error"] = error
        factors.append((surrogate.of_theta, surrogate.of_answer))
    for name, part in regressions.items():
        for field in dataclasses.fields(Regression):
            values = np.asarray(getattr(part, field.name))
            files.write_array(folder / f"{name}.{field.name}.npy", values)
    files.write_array(folder / "label_relevance.npy", fitted.label_relevance)
    files.write_array(folder / "factors.npy", np.array(factors).reshape(-1, 2))
    files.write_array(folder / "looked_at.npy", np.array(sorted(fitted.second), int))
    files.write_array(folder / "mixed.npy", np.array(fitted.mixed))
    files.write_array(folder / "labels.npy", np.array(sorted(fitted.of_label)))
    sums = {file.name: _sha256(file) for file in sorted(folder.glob("*.npy"))}
    files.write_json(folder / SUMS, sums)


def load(folder: Path, image_shape: tuple[int, ...]) -> KernelRegression:
    """Read what `save` wrote; points are memory-mapped.

    Raises: NotMadeError: it isn't there or not complete; ValueError: a file is damaged.
    """
    if not (folder / SUMS).exists():
        raise NotMadeError(f"There is no kernel regression in {folder}.", by="train")
    for name, wanted in json.loads((folder / SUMS).read_text()).items():
        if not (folder / name).exists() or _sha256(folder / name) != wanted:
            raise ValueError(
                f"{folder / name} is damaged: it isn't what training wrote. Delete"
                f" {folder} and train again."
            )

    def regression(name: object) -> Regression:
        names = [field.name for field in dataclasses.fields(Regression)]
        return Regression(*(_read(folder / f"{name}.{field}.npy") for field in names))

    second = {}
    looked_at, factors = _read(folder / "looked_at.npy"), _read(folder / "factors.npy")
    for label, (of_theta, of_answer) in zip(looked_at, factors.tolist(), strict=True):
        theta, error = regression(f"{label}.surrogate"), regression(f"{label}.error")
        surrogate = Surrogate(theta=theta, of_theta=of_theta, of_answer=of_answer)
        second[int(label)] = surrogate, error
    return KernelRegression(
        image_shape=tuple(image_shape),
        of_label={int(n): regression(n) for n in _read(folder / "labels.npy")},
        label=regression("label"),
        label_relevance=_read(folder / "label_relevance.npy"),
        second=second,
        mixed=bool(np.load(folder / "mixed.npy", allow_pickle=False)),
    )


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read(file: Path) -> Any:
    """Memory-map an array, or read a single number."""
    values = np.load(file, mmap_mode="r", allow_pickle=False)
    return values if values.ndim else float(values)
