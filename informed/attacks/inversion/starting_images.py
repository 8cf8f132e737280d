"""Labels to try, and images to start from, when inverting a release.

`training_inversion` asks for them. By derivatives most targets are reached from the
mean image of the likeliest class, so that comes first. Outliers, which no mean image
resembles, are reached from guesses by a regression on trainings on known images, which
finds their label, too; several points from random known images. The search by clouds
(`cloud_search`) begins with such guesses.
"""

import itertools
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from informed.attacks.inversion.problem import LabelRows, Published, Start
from informed.attacks.inversion.shared_measurements import SharedMeasurements
from reconn import features
from reconn.ridge import Regression
from shadow.models import ShadowModels
from shadow.views import EVERYTHING

# Largest number of likely labels for derivatives, the best first; largest residual in
# the ranking, relative to the best label's. Clouds, if preferred, try every label.
_MOST_LABELS, _LABEL_FACTOR = 10, 2.0
# Number of labels for which a target is guessed by regression.
_MOST_VOTED = 2
# Scales of distances in kernel regressions on images and on labels; the first is large
# so that outliers get smooth values. Their ridge, as a few models of a label are noisy.
_SCALE, _LABEL_SCALE, _RIDGE = 16.0, 4.0, 1e-2
# Bound on standardised weights, in standard deviations.
_CLIP = 10.0
# Damping of the linearised least squares that rank labels, relative to the residual.
_DAMPING = 1e-5
# Lowest starting value of a certainly lit (nonzero) pixel. With Adam the weights jump
# between a black and a lit pixel, so the search must begin on the right side.
_LIT = 0.1
# Standard deviations by which several points of one label are separated at the start.
_APART = 0.1
# What `SharedMeasurements.black_and_lit` returns.
Dark = tuple[Bool[np.ndarray, " pixels"], Bool[np.ndarray, " pixels"]]


def likely_labels(
    shared: SharedMeasurements, theta: np.ndarray
) -> tuple[Int[np.ndarray, " labels"], float]:
    """Return the most likely labels, best first.

    They are ordered by the residual of the map linearised at each class's mean image;
    if clouds are preferred, by the nearest theta of a known image of the class.

    Returns: labels; cost (a squared residual or distance) of the second label over that
      of the first, >= 1.
    """
    prefer_clouds, classes = shared.prefer_clouds, range(shared.num_classes)
    if prefer_clouds:
        rest = [float(_nearest(shared.shadows(y), theta, 1)[0][0]) for y in classes]
    else:
        rest = [_linear_residual(shared, theta, y) for y in classes]
    costs = np.array(rest)
    order = np.argsort(costs)
    least = costs[order[0]]
    # By derivatives a cost of zero means a copy of a class's only known record. Then
    # only that label is tried.
    unlike = np.where(costs == 0, 1.0, np.inf)
    quotients = (costs / least if least > 0 else unlike)[order]
    margin = float(quotients[1]) if len(order) > 1 else np.inf
    likely = order[quotients <= _LABEL_FACTOR][:_MOST_LABELS]
    return order if prefer_clouds else likely, margin


def _linear_residual(
    shared: SharedMeasurements, theta: np.ndarray, label: int
) -> float:
    """Return the cost after a damped Gauss-Newton step from a class's mean image.

    r^T r - sum_i (v_i . J^T r)^2 / (lambda_i + damping r^T r)
    """
    value, jacobian = shared.at_mean(label)
    residual = (value - theta)[shared.informative]
    matrix = jacobian[shared.informative].T
    spectrum, rotation = np.linalg.eigh(matrix @ matrix.T)
    along = rotation.T @ (matrix @ residual)
    squared = residual @ residual
    if not squared:
        return 0.0
    damped = np.maximum(spectrum, 0) + _DAMPING * squared
    # Rounding may make this negative; NaN from diverged training stays.
    return float(np.maximum(squared - np.sum(along**2 / damped), 0.0))


def starts(
    shared: SharedMeasurements, published: Published, labels: LabelRows, dark: Dark
) -> Iterator[Start]:
    """Yield starts for derivatives: the likeliest label's mean image, then regression.

    Starts with free columns, for targets with a value that no known record has, follow
    the first guesses for the likeliest label, and come last for the others. They do so
    for all labels of a rounded release, since a wide prior then explains too much.
    """
    free, (black, lit) = labels[:0], dark
    varies = bool(np.any(shared.known.constant & ~black))
    if varies and not shared.runs.random and labels.shape[1] == 1:
        free = labels[: shared.config.starts]
    early = 1 if published.deviations is None else 0
    yield _start(shared, lit, labels[0], patient=False)
    one = labels.shape[1] == 1
    guesses = _regressed(shared, published.theta, labels[:, 0]) if one else iter(())
    for label, image in itertools.islice(guesses, min(len(labels), _MOST_VOTED)):
        yield _start(shared, lit, [label], image[None], patient=True)
    for row in free[:early]:
        yield _start(shared, lit, row, patient=True, free=True)
    for label, image in guesses:
        yield _start(shared, lit, [label], image[None], patient=True)
    if not one:
        for number in range(1, 1 + shared.config.starts):
            for row in labels:
                yield _start(shared, lit, row, patient=True, number=number)
    for row in free[early:]:
        yield _start(shared, lit, row, patient=True, free=True)


def near_starts(
    shared: SharedMeasurements, published: Published, labels: LabelRows, dark: Dark
) -> Iterator[Start]:
    """Yield starts for clouds by regression, the likeliest label first; known ones."""
    if labels.shape[1] > 1:
        yield from starts(shared, published, labels, dark)
        return
    theta, (_, lit) = published.theta, dark
    guesses = ((y, guess(shared.shadows(y), theta)) for y in labels[:, 0].tolist())
    known = _public(shared, theta, labels[:, 0])
    for label, image in itertools.chain(guesses, known):
        yield _start(shared, lit, [label], image[None], patient=True)


def _start(
    shared: SharedMeasurements,
    lit: Bool[np.ndarray, " pixels"],
    labels: Sequence[int] | np.ndarray,
    images: np.ndarray | None = None,
    *,
    patient: bool,
    number: int = 0,
    free: bool = False,
) -> Start:
    """Return a start at given or mean images, with certainly lit pixels lit.

    With images of None and a number above 0: at random known images of the labels.
    """
    labels = np.asarray(labels)
    if images is None and not number:
        images = np.stack([shared.known.mean(int(label)) for label in labels])
    elif images is None:
        some = [shared.known.of_class(int(label)) for label in labels]
        images = np.stack([_rng(shared, number).choice(s) for s in some])
    assert images is not None
    jacobian = None
    if len(labels) > 1:
        # Separate points of one label, or they would stay equal.
        u = shared.known.coordinates.of(images)
        few = u[:, : min(shared.config.stages, default=u.shape[1])]
        few += _APART * _rng(shared, number).standard_normal(few.shape)
        images = shared.known.coordinates.images(u)
    elif not (free or lit.any()):
        label = int(labels[0])
        if label in shared.at_means:
            at_mean = np.array_equal(images[0], shared.known.mean(label))
            jacobian = shared.at_means[label][1] if at_mean else None
    flat = images.reshape(len(labels), -1).astype(np.float64)
    begin = np.where(lit[None], np.maximum(flat, _LIT), flat)
    return Start(
        labels=labels,
        images=begin.reshape(images.shape),
        patient=patient,
        jacobian=jacobian,
        free=free,
    )


def _rng(shared: SharedMeasurements, number: int) -> np.random.Generator:
    """Return the random generator of one start."""
    key = jax.random.fold_in(shared.start_key, number)
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def _regressed(
    shared: SharedMeasurements, theta: np.ndarray, labels: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield guesses by regression on theta, with labels, the likeliest label first.

    First from few models of every label, then from all models of the likeliest ones.
    Known images of these, of nearest theta, are the last.
    """
    if len(labels) > 1 and shared.num_classes <= _MOST_LABELS:
        labels = np.arange(shared.num_classes)
    few = [shared.shadows(int(label), few=True) for label in labels]
    order = by_vote(few, theta)[:_MOST_VOTED]
    for i in order:
        yield int(labels[i]), guess(few[i], theta)
    for i in order:
        models = shared.shadows(int(labels[i]))
        if models is not few[i]:
            yield int(labels[i]), guess(models, theta)
    yield from _public(shared, theta, labels[order])


def _public(
    shared: SharedMeasurements, theta: np.ndarray, labels: np.ndarray
) -> list[tuple[int, np.ndarray]]:
    """Return (label, known image) pairs, nearest theta first, fewer for many labels."""
    count, pairs = max(shared.config.starts - len(labels), 0), []
    for label in labels.tolist():
        apart, images = _nearest(shared.shadows(label), theta, count)
        pairs += [(d, label, z) for d, z in zip(apart, images, strict=True)]
    pairs.sort(key=lambda pair: pair[0])
    return [(label, image) for _, label, image in pairs[:count]]


def guess(
    models: ShadowModels, theta: np.ndarray
) -> Float[np.ndarray, "height width channels"]:
    """Return a kernel regression's prediction of the image from weights theta."""
    if not np.ptp(models.images, axis=0).any():  # copies of one image
        return models.images[0].astype(np.float64)
    image = _regressed_on(models, models.images.reshape(len(models), -1), theta, _SCALE)
    return np.clip(image, 0, 1).reshape(models.image_shape)


def by_vote(several: Sequence[ShadowModels], theta: np.ndarray) -> np.ndarray:
    """Order shadow models of several labels by a regression on labels, best first."""
    if len(several) == 1:
        return np.zeros(1, int)
    counts = [len(models) for models in several]
    labels = np.repeat(np.arange(len(several), dtype=np.int32), counts)
    weights = np.concatenate([models.weights for models in several])
    images = np.concatenate([models.images for models in several])
    models = ShadowModels(weights=weights, images=images, labels=labels)
    votes = np.eye(len(several))[labels]
    return np.argsort(-_regressed_on(models, votes, theta, _LABEL_SCALE))


def _regressed_on(
    models: ShadowModels, targets: np.ndarray, theta: np.ndarray, scale: float
) -> np.ndarray:
    """Return the row of targets that weights theta suggest, by kernel regression."""
    standardise = features.fit(models, EVERYTHING, num_models=len(models), clip=_CLIP)
    weights = standardise(models.weights)
    regression = Regression.fit(weights, targets, scale=scale, ridge=_RIDGE)
    return regression(standardise(theta[None].astype(np.float32)))[0]


def _nearest(
    models: ShadowModels, theta: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the models of nearest theta: squared distances and images."""
    apart = models.weights - theta.astype(np.float32)[None]
    distances = np.einsum("ij,ij->i", apart, apart)
    rows = np.argsort(distances)[:count]
    return distances[rows], models.images[rows].astype(np.float64)
