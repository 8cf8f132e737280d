"""Certify the inversion's result: it must explain the weights and follow from them.

Trained on the true target, A would miss the released weights (theta) by rounding alone.
We measure that rounding at the candidate, by training seven times with its last digits
changed. A candidate is *certified* if (1) this noise explains its residual, (2) theta
determines it closely enough in every direction, (3) it agrees with the known pixels of
the target, (4) theta has more numbers that depend on the target than the target has
unknowns, and no other target makes up for changes of known records, so that wrong ones
would leave a residual, (5) theta moves with each pixel that slopes leave in doubt, up
and down, and (6) it explains theta better than its mirror images (of small records,
also of single values), and than itself turned, or shifted by up to 8 pixels. If (2)
holds only because its pixels lie on levels, `if_levels` is set too: the certificate
then assumes that the target's do. If A is random nothing is certified, but `if_levels`
may be set. `training_inversion` and `cloud_search` call `certify` at their end.
"""

import copy
from collections.abc import Callable

import numpy as np

from informed.attacks.inversion import coordinates, gauss_newton, pixel_levels
from informed.attacks.inversion.problem import (
    NOISE_FACTOR,
    Candidate,
    Certificate,
    Problem,
    Published,
)
from informed.attacks.inversion.retraining import Retraining
from informed.attacks.inversion.weight_noise import Independent

# Weakest directions that are tried together. With one more run they fill two batches.
_TRIED_AT_ONCE = 2 * gauss_newton.AT_ONCE - 1
# Distance from a level, in pixel values, below which a pixel lies on it. Passing
# through coordinates and back in float64 leaves less.
_ON_LEVEL = 1e-9
# Safety factor on `expected_mse`, since noise is seldom independent. Chosen on the 20
# targets of the row "trained in TF32" of docs/inversion.md; confirmed on 20 fresh ones.
_MARGIN = 4.0
# Largest number of batches of directions. Those in which theta doesn't move count as
# undetermined, and the next ones are tried.
_MOST_TRIES = 8
# Theta moves along a direction if it changes by at least this share of what the slopes
# predict. A direction with correct slopes has about 1, one without effect 0 plus noise.
_LEAST_SHARE = 0.5
# Random patterns of signs by which all pixels are moved together, each also negated;
# largest number of pixels that are then moved alone.
_SIGNS, _MOST_ALONE = 2, 32
# Cost per weight that rounding to the nearest number of a published format explains;
# the largest shift of rivals, in pixels.
_FORMAT, _SHIFT = 1.5, 8
# Known records that are moved, by at least this share of what is possible and at most
# so much in each pixel; times that the target is solved for; a squared residual that
# falls to no less of the one before stays.
_MOVED, _LEAST_MOVE, _MOVE, _CORRECTIONS, _STUCK = 2, 0.5, 0.2, 6, 0.25
_SMALL, _ALONE = 64, (8, 32)  # pixels moved alone: of images, of up to so many pixels
_TINY = np.finfo(float).tiny
# A mirror image may leave the range of known values by this share of the range.
_BEYOND = 0.1
# If the probability that free pixels are so near to levels by chance is below this, the
# images are exact on condition that the target's pixels are levels.
_CHANCE = 1e-9
# If rounding at a start exceeds this share of its distance to theta, training counts as
# chaotic, and rounding alone explains nothing.
_LARGE_ROUNDING = 0.03
# Largest residual of chaotic training, as a share of that distance. At the truth, with
# the same last digits, it is zero.
_SMALL_DISTANCE = 1e-3


def certify(problem: Problem, candidate: Candidate) -> Certificate:
    """Certify a candidate if the conditions of the module hold.

    Returns: the certificate. Its images are rounded to levels if they are near, and
      known pixels of the target are put in.
    """
    if problem.runs.random:
        return _without_certificate(problem, candidate)
    published, space, config = problem.published, problem.space, problem.config
    # Copied, because some slopes are measured again below.
    slopes, noise = copy.deepcopy(candidate.slopes), candidate.noise
    assert noise is not None
    params, labels = len(published.theta), problem.space.labels
    images, on_levels = space.images(candidate.u), False
    if problem.known.levels is not None:
        near = pixel_levels.nearest(images, problem.known.levels)
        on_levels = bool(np.abs(images - near).max() < _ON_LEVEL)
        images = near if on_levels else images
    # First condition: the noise, measured again here, explains the residual.
    rounding = problem.runs.rounding(images, labels)
    noise_here = noise_of(published, rounding)
    residual = problem.runs.thetas(images[None], labels[None])[0] - published.theta
    cost = np.sum(noise_here.whiten(residual) ** 2)
    allowed = NOISE_FACTOR * params
    if published.deviations is not None:  # the format's rounding is known, unlike A's
        allowed = min(allowed, _silence(noise_here, rounding) / 2 + _FORMAT * params)

    def explains(apart: np.ndarray) -> bool:
        small = np.sum(noise_here.whiten(apart) ** 2) <= allowed
        return bool(small and apart @ apart <= candidate.limit)

    explained = explains(residual)
    all_tried = True
    if explained:
        slopes, all_tried = _with_effect(problem, images, rounding, noise, slopes)
    # Second condition: the curvature leaves no room for a larger error. Slopes are
    # rescaled to the noise here; an unexplained residual counts as noise.
    grown = np.mean(noise_here.deviations**2) / np.mean(noise.deviations**2)
    unexplained = 1.0 if explained else max(cost / params, 1.0)
    slopes.gram /= max(grown, 1.0) * unexplained
    variances = space.variances(slopes)
    if explained:
        # A certificate may not rest on the prior in directions that theta doesn't show.
        variances = variances + space.unseen(slopes, problem.known.images)
    else:
        images, variances = _given_known(problem, slopes, images, variances)
    expected = float(variances.mean())
    rests_on_levels = on_levels and _MARGIN * expected > config.exact_mse
    if on_levels:
        assert problem.known.levels is not None
        expected = pixel_levels.expected_mse(_MARGIN * variances, problem.known.levels)
    certified = bool(explained and all_tried and _MARGIN * expected <= config.exact_mse)
    if published.known is not None:
        # Third condition: the images agree with the known pixels of the target.
        apart = (published.known.values - images)[:, published.known.mask]
        certified = certified and float(np.mean(apart**2)) <= config.exact_mse
        images = published.known.put(images)
    if certified:
        spare = int(np.any(slopes.matrix, axis=1).sum()) > len(slopes.directions)
        step = np.sqrt(config.exact_mse * images.size)
        if rests_on_levels and problem.known.levels is not None:
            step = max(step, 1 / problem.known.levels)
        certified = (
            spare
            and not _made_up_for(problem, images, noise, slopes, explains)
            and _moves_with_pixels(problem, images, rounding, noise, slopes, step)
            and not _has_rival(problem, images, explains)
        )
    return Certificate(
        images=images.astype(np.float32),
        labels=labels,
        residual=float(residual @ residual),
        explained=explained,
        certified=certified,
        expected_mse=expected,
        if_levels=bool(rests_on_levels and certified),
    )


def noise_of(published: Published, rounding: float) -> Independent:
    """Combine A's squared rounding with the rounding of the published weights."""
    params = len(published.theta)
    floor = np.sqrt(rounding / params)
    # If training rounds its weights, the measured rounding may be zero.
    size = np.sqrt(np.mean(published.theta**2)) or _TINY
    deviations = np.full(params, max(floor, np.finfo(float).eps * size))
    if published.deviations is not None:
        deviations = np.hypot(deviations, published.deviations)
    return Independent(deviations)


def rounding_limit(
    published: Published, noise: Independent, value: np.ndarray
) -> float:
    """Return the squared residual above which rounding does not explain it.

    In chaotic training, rounding at a start may be as large as the distance of its
    `value` (the weights trained on it) to theta, and would explain any image. There we
    ask for almost no residual, as the truth has none.
    """
    distance = np.sum((value - published.theta) ** 2)
    rounding = NOISE_FACTOR * np.sum(noise.deviations**2)
    chaotic = not rounding <= _LARGE_ROUNDING**2 * distance
    if published.deviations is not None or not chaotic:
        return np.inf
    return float(_SMALL_DISTANCE**2 * distance)


def _with_effect(
    problem: Problem,
    images: np.ndarray,
    rounding: float,
    noise: Independent,
    slopes: gauss_newton.Slopes,
) -> tuple[gauss_newton.Slopes, bool]:
    """Retrain along the weakest directions; keep those in which theta moves.

    Rounding and Broyden's update give a direction nonzero slopes even if theta doesn't
    depend on it. So we move the images by the largest error that a certificate allows.

    Returns: the slopes, in units of the noise; whether the last of the `_MOST_TRIES`
      batches was without such directions.
    """
    space, error = problem.space, problem.config.exact_mse
    slopes = space.moving(slopes)
    silence = _silence(noise, rounding)
    for _ in range(_MOST_TRIES):
        directions, along = slopes.weakest(_TRIED_AT_ONCE)
        moves = space.moves(directions)
        scales = np.sqrt(error / np.mean(moves**2, axis=(1, 2, 3, 4)))
        tried = images + scales[:, None, None, None, None] * moves
        runs = np.concatenate([images[None], tried])
        thetas = problem.runs.thetas(runs, np.tile(space.labels, (len(runs), 1)))
        change = noise.whiten(thetas[1:] - thetas[0])
        promised = (along * scales).T
        lengths = np.maximum(np.sum(promised**2, axis=1), _TINY)
        shares = np.sum(change * promised, axis=1) / lengths
        loud = np.sum(change**2, axis=1) > silence
        # Above the noise, measured changes are better than the slopes.
        slopes.set(directions[loud], (change / scales[:, None])[loud].T)
        silent = ~loud & ~(shares > _LEAST_SHARE)
        if not silent.any():
            return slopes, True
        slopes = slopes.without(directions[silent])
        if not len(slopes.directions):
            return slopes, True
    return slopes, False


def _made_up_for(
    problem: Problem,
    images: np.ndarray,
    noise: Independent,
    slopes: gauss_newton.Slopes,
    explains: Callable[[np.ndarray], bool],
) -> bool:
    """Return whether other targets make up for changes of known records.

    They do for sums and functions of them: numbers of theta follow from each other, so
    known records that are wrong leave no residual. Records of a target's class are
    moved, where the target has room to make up for it, and the targets are solved for
    anew. Where moves have no effect, as in a validation split, more records are moved.
    Then single pixels are moved, as training may take sums of some alone; not where
    theta was rounded, which may hide a wrong pixel.

    Args:
      explains: whether the noise explains a difference from the published theta.
    """
    space, known = problem.space, problem.runs.programs.fixed
    low, high = problem.known.range
    spectrum, rotation = np.linalg.eigh(slopes.matrix.T @ slopes.matrix)

    def theta(runs: Retraining, images: np.ndarray) -> np.ndarray:
        problem.runs.runs += len(problem.runs.draw_numbers)
        thetas = runs.thetas(images[None], space.labels[None])
        return thetas[0] - problem.published.theta

    def moved(rows: np.ndarray, target: np.ndarray, where: np.ndarray) -> Retraining:
        others = known.images.copy()
        before = others[rows]
        up = np.minimum(high - before, (target - low) / len(rows))
        down = np.minimum(before - low, (high - target) / len(rows))
        move = np.random.default_rng(0).uniform(_LEAST_MOVE, 1, before.shape) * where
        move *= np.clip(np.maximum(up, down), 0, _MOVE) * np.where(up >= down, 1, -1)
        others[rows] += move.astype(others.dtype)
        return problem.runs.knowing(others)

    def made_up(runs: Retraining, apart: np.ndarray, *, alone: bool = False) -> bool:
        rival, last = images, np.inf
        for _ in range(_CORRECTIONS):
            change = noise.whiten(apart)
            cost = change @ change
            if not np.isfinite(cost):
                return True  # it can't be told
            if cost > _STUCK * last:
                return False
            last = cost
            along = rotation.T @ (slopes.matrix.T @ change)
            step = rotation @ (along / (1 + np.maximum(spectrum, 0)))
            if alone and np.sum((change - slopes.matrix @ step) ** 2) > _STUCK * cost:
                return False  # without a run: one pixel moves theta linearly
            moves = space.moves(step[None] @ slopes.directions)[0]
            rival = rival - moves / max(1.0, np.abs(moves).max() / (high - low))
            apart = theta(runs, rival)
            if explains(apart):  # perhaps as noise alone, if it was barely apart
                return bool(np.sum(noise.whiten(apart) ** 2) <= _STUCK * last)
        return True

    for label, target, black in zip(
        space.labels, images, space.black.reshape(images.shape), strict=True
    ):
        alike = np.flatnonzero(known.labels == label)
        alike = alike if len(alike) else np.arange(len(known))
        for rows in (alike[:_MOVED], alike):
            runs = moved(rows, target, ~black)
            apart = theta(runs, images)
            if not explains(apart):
                break
        else:
            return True
        if made_up(runs, apart):
            return True
        if problem.published.deviations is not None:
            continue
        free = np.random.default_rng(0).permutation(np.flatnonzero(~black))
        for pixel in free[: _ALONE[black.size <= _SMALL]]:
            where = np.arange(black.size).reshape(black.shape) == pixel
            runs = moved(rows, target, where)
            apart = theta(runs, images)
            if not explains(apart) and made_up(runs, apart, alone=True):
                return True
    return False


def _silence(noise: Independent, rounding: float) -> float:
    """Return the squared change of theta between two runs that rounding explains."""
    # Rounding per weight of one run; a difference of two runs has twice its square.
    level = np.full_like(noise.deviations, np.sqrt(rounding / len(noise.deviations)))
    return float(2 * NOISE_FACTOR * np.sum(noise.whiten(level) ** 2))


def _moves_with_pixels(
    problem: Problem,
    images: np.ndarray,
    rounding: float,
    noise: Independent,
    slopes: gauss_newton.Slopes,
    step: float,
) -> bool:
    """Return whether theta moves with doubtful pixels alone, up and down by `step`.

    Pixels that stay black or are known don't count. Slopes don't show where training
    clips a pixel, nor that it never looks at one. So all pixels are moved together at
    first, up or down by random signs. Those whose predicted effect is missing most are
    then moved alone.
    """
    space = problem.space
    error = np.sqrt(problem.config.exact_mse)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (_SIGNS, images.size))
    signs = np.concatenate([signs, -signs])

    def changes(moves: np.ndarray) -> np.ndarray:
        tried = images + np.concatenate([0 * moves[:1], moves]).reshape(
            -1, *images.shape
        )
        labels = np.tile(space.labels, (len(tried), 1))
        thetas = problem.runs.thetas(tried, labels)
        return noise.whiten(thetas[1:] - thetas[0])

    pixels = space.by_pixel(slopes.directions)
    predicted = error * (signs @ pixels.T) @ slopes.matrix.T
    missing = (predicted - changes(error * signs)) @ slopes.matrix @ pixels
    # The squared length of each pixel's slopes, up to a common factor.
    lengths = np.einsum("ij,ij->j", pixels, slopes.gram @ pixels)
    shares = np.mean(signs * missing, axis=0) / np.maximum(lengths, _TINY)
    shares[lengths <= 0] = np.inf
    settled, known = space.black, problem.published.known
    if known is not None:
        settled = settled | np.tile(known.mask.ravel(), len(space.labels))
    shares[settled] = -np.inf
    suspects = np.argsort(-shares)[: min(_MOST_ALONE, int(np.sum(~settled)))]
    alone = np.zeros((len(suspects), images.size))
    alone[np.arange(len(suspects)), suspects] = step
    moved = changes(np.concatenate([alone, -alone]))
    return bool((np.sum(moved**2, axis=1) > _silence(noise, rounding)).all())


def _has_rival(
    problem: Problem, images: np.ndarray, explains: Callable[[np.ndarray], bool]
) -> bool:
    """Return whether the candidate mirrored, turned or shifted explains theta.

    Mirror images are flipped, of negated values, or negatives, also in one column alone
    of small records; those far outside of the known images' range are no records. With
    two classes the other label is tried too. Training may augment records by turning
    them, and convolutions whose outputs are averaged don't tell shifted images apart.
    """
    labels, (low, high) = problem.space.labels, problem.known.range
    room = _BEYOND * (high - low)
    turned = [np.rot90(images, quarters, (1, 2)) for quarters in range(4)]
    negatives = (-images, low + high - images)
    mirrored = [*turned, *(np.flip(t, 1) for t in turned), *negatives]
    if images.size <= _SMALL:  # training may fold one column
        alone = np.eye(images.size, dtype=bool).reshape(-1, *images.shape)
        mirrored += [np.where(pixel, n, images) for n in negatives for pixel in alone]
    for axis in (1, 2):
        steps = {by % images.shape[axis] for by in range(-_SHIFT, _SHIFT + 1)}
        mirrored += [np.roll(images, by, axis) for by in sorted(steps)]
    apart = [
        rival
        for rival in mirrored
        if rival.shape == images.shape
        and np.mean((rival - images) ** 2) > problem.config.exact_mse
        and low - room <= rival.min() <= rival.max() <= high + room
    ]
    rivals = [(rival, labels) for rival in apart]
    if max(problem.known.labels.max(), labels.max()) == 1:
        rivals += [(rival, 1 - labels) for rival in apart]
    if not rivals:
        return False
    thetas = problem.runs.thetas(*map(np.stack, zip(*rivals, strict=True)))
    return any(map(explains, thetas - problem.published.theta))


def _given_known(
    problem: Problem,
    slopes: gauss_newton.Slopes,
    images: np.ndarray,
    variances: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Condition images and variances on the known pixels of the target."""
    known = problem.published.known
    if known is None:
        return images, variances
    gaps = (known.values - images)[:, known.mask][0]
    moved, rest = slopes.conditioned(
        problem.space.basis, known.mask.ravel(), gaps, coordinates.SMALLEST_DEVIATION**2
    )
    moved, rest = moved.reshape(images.shape), rest.reshape(images.shape)
    return known.put(images + moved), np.where(known.mask[None], 0.0, rest)


def _without_certificate(problem: Problem, candidate: Candidate) -> Certificate:
    """Estimate the error of the most probable target if A is random; no certificate."""
    published, labels = problem.published, problem.space.labels
    count = problem.known.levels
    images = problem.space.images(candidate.u)
    variances = problem.space.variances(candidate.slopes)
    images, variances = _given_known(problem, candidate.slopes, images, variances)
    if_levels = False
    if count is not None and (
        pixel_levels.suggested(images, count)
        and pixel_levels.agree(images, _MARGIN * variances, count)
    ):
        # For pixels that vary by more than a level, only theta can explain nearness.
        shown = [problem.known.of_class(int(label)) for label in labels]
        spread = np.stack([some.std(axis=0, dtype=np.float64) for some in shown])
        chance = pixel_levels.chance(images, count, spread > 1 / count)
        expected = pixel_levels.expected_mse(_MARGIN * variances, count)
        small = _MARGIN * expected <= problem.config.exact_mse
        if_levels = bool(chance < np.log(_CHANCE) and small)
        images = pixel_levels.nearest(images, count)
    residual = problem.runs.thetas(images[None], labels[None])[0] - published.theta
    return Certificate(
        images=images.astype(np.float32),
        labels=labels,
        residual=float(residual @ residual),
        # All starts count as explained, so the caller keeps the first: residuals don't
        # rank them if A is random.
        explained=True,
        certified=False,
        expected_mse=float(variances.mean()),
        if_levels=if_levels,
    )
