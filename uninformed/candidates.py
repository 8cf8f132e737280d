"""Evaluate attacks on weights alone: match their candidates with the training images.

A KKT attack returns more candidates than there are training points, in no order, and no
attack can say which are right. Only an evaluation can match candidates with training
points and count them. `kkt.scoring` and `landscape` call it.

Candidates are matched by normalised cross-correlation (NCC), stretched to [0, 1], and
compared with the images by SSIM. Some candidate resembles any image, so every count
stands beside a control: the same count for as many images that were never trained on.
`verdict` says in a sentence what that control shows; docs/kkt.md defines the names.

Source: Haim et al. 2022, Section 5.2 and Appendix B.3; the control is ours.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float, Int

# SSIM above which Haim et al. call a reconstruction good.
SIMILAR = 0.4
# Side, in pixels, of the windows of SSIM, as in the public code.
WINDOW = 3
# Smaller standard deviations, ranges and distances are rounding in float64.
_ALIKE = 1e-12
# Probability, over all looks of `verdict`, of calling chance more than chance.
_CHANCE = 0.05
# The sentence that stands below every verdict.
NO_PROTECTION = (
    "What this attack doesn't find isn't protected: an informed adversary may read it."
)
# The usual constants of SSIM, for pixels in [0, 1].
_LUMINANCE, _CONTRAST = 0.01**2, 0.03**2


def ncc(
    first: Float[np.ndarray, "first height width channels"],
    second: Float[np.ndarray, "second height width channels"],
) -> Float[np.ndarray, "first second"]:
    """Return the normalised cross-correlation of all pairs, averaged over channels."""
    products = np.einsum("ipc,jpc->ij", _standardised(first), _standardised(second))
    return products / first[0].size


def _standardised(images: np.ndarray) -> np.ndarray:
    """Scale channels to mean 0 and variance 1, as (images, pixels, channels)."""
    flat = images.reshape(len(images), -1, images.shape[-1]).astype(np.float64)
    flat = flat - flat.mean(axis=1, keepdims=True)
    return flat / (flat.std(axis=1, keepdims=True) + _ALIKE)


def merged(
    images: Float[np.ndarray, "candidates height width channels"],
    multipliers: Float[np.ndarray, " candidates"],
    *,
    alike: float = 0.95,
) -> Float[np.ndarray, "groups height width channels"]:
    """Return means of near copies, those with the largest multiplier first.

    Args:
      alike: NCC above which two candidates count as copies of one point.
    """
    order = np.argsort(-multipliers)
    similar = ncc(images[order], images[order]) >= alike
    free = np.ones(len(order), bool)
    groups = []
    for i in range(len(order)):
        if free[i]:
            members = similar[i] & free
            free &= ~members
            groups.append(images[order[members]].mean(axis=0))
    return np.stack(groups)


def stretched(
    images: Float[np.ndarray, "images height width channels"],
) -> Float[np.ndarray, "images height width channels"]:
    """Scale each image so that its own range is [0, 1]."""
    low = images.min(axis=(1, 2, 3), keepdims=True)
    high = images.max(axis=(1, 2, 3), keepdims=True)
    return (images - low) / np.maximum(high - low, _ALIKE)


def voted(
    targets: Float[np.ndarray, "targets height width channels"],
    images: Float[np.ndarray, "candidates height width channels"],
    *,
    share: float = 1.0,
) -> tuple[
    Float[np.ndarray, "targets height width channels"], Int[np.ndarray, " targets"]
]:
    """Return for each target the candidate nearest by NCC, or a mean of near ones.

    Args:
      share: candidates whose NCC is at least this share of the nearest's are averaged:
        Haim et al. 2022, Appendix B.3, have 0.9; the public code's figures 1.
    Returns: the reconstructions; the index of the nearest candidate.
    """
    alike = ncc(targets, images)
    near = alike >= share * alike.max(axis=1, keepdims=True) - _ALIKE
    # If all correlations are negative, a share of the largest exceeds it.
    near[np.arange(len(near)), alike.argmax(axis=1)] = True
    weights = near / near.sum(axis=1, keepdims=True)
    return np.einsum("ij,jhwc->ihwc", weights, images), alike.argmax(axis=1)


def ssim(
    targets: Sequence[np.ndarray] | np.ndarray,
    images: Sequence[np.ndarray] | np.ndarray,
    window: int = WINDOW,
) -> Float[np.ndarray, " images"]:
    """Compute the SSIM of pairs (height, width, channels), pixels in [0, 1]."""
    pairs = zip(images, targets, strict=True)
    return np.array([ssim_of_all(a[None], b[None], window)[0, 0] for a, b in pairs])


def ssim_of_all(
    images: Float[np.ndarray, "images height width channels"],
    others: Float[np.ndarray, "others height width channels"],
    window: int = WINDOW,
) -> Float[np.ndarray, "images others"]:
    """Compute the SSIM of all pairs, with uniform windows.

    Means are matrix products, which makes it ten times as fast as scikit-image.
    """
    images, others = images.astype(np.float64), others.astype(np.float64)
    down, across = (_windows(size, window) for size in images.shape[1:3])

    def means(pixels: np.ndarray) -> np.ndarray:
        """Average over all windows: (..., channels, down, across)."""
        return down @ np.moveaxis(pixels, -1, -3) @ across.T

    def moments(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = means(pixels)
        return first, means(pixels**2) - first**2

    unbiased = window**2 / (window**2 - 1)
    other_means, other_variances = moments(others)
    rows = []
    for image in images:
        mean, variance = moments(image)
        covariance = means(image[None] * others) - mean[None] * other_means
        same = (2 * mean[None] * other_means + _LUMINANCE) * (
            2 * unbiased * covariance + _CONTRAST
        )
        most = (mean[None] ** 2 + other_means**2 + _LUMINANCE) * (
            unbiased * (variance[None] + other_variances) + _CONTRAST
        )
        rows.append(np.mean(same / most, axis=(1, 2, 3)))
    return np.stack(rows)


def _windows(size: int, window: int) -> np.ndarray:
    """Return weights that average each window, (size - window + 1, size)."""
    first = np.arange(size - window + 1)[:, None]
    pixels = np.arange(size)[None]
    return ((pixels >= first) & (pixels < first + window)) / window


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Matches:
    """The candidates that are nearest to some images, and their similarity.

    Attributes:
      images: the reconstruction of each target, stretched to [0, 1],
        (targets, height, width, channels).
      chosen: index of the candidate nearest to each target, (targets,).
      ssim: SSIM of each target with its reconstruction, (targets,).
      recovered: whether that exceeds `SIMILAR`, and the SSIM of that same
        reconstruction with every held-out image of the target's class, (targets,): what
        exceeds these is not just typical of the class.
      precision: share of candidates whose SSIM with the target that is nearest by NCC
        exceeds `SIMILAR`.
      control: the same where held-out images are the targets, of each class as many as
        there are, up to the targets' number (drawn by a fixed seed), and the training
        images are among the held-out; None: this is the control. If the attack learns
        nothing about single images, the two can change places.
    """

    images: np.ndarray
    chosen: np.ndarray
    ssim: np.ndarray
    recovered: Bool[np.ndarray, " targets"]
    precision: float
    control: "Matches | None" = None

    def summary(self) -> dict[str, int | float]:
        """Return the counts for results.json; `held_out_NAME` is NAME's control."""
        counts = {
            "targets": len(self.ssim),
            "similar": int((self.ssim > SIMILAR).sum()),
            "recovered": int(self.recovered.sum()),
            "candidates_recovered": len(np.unique(self.chosen[self.recovered])),
            "mean_ssim": float(self.ssim.mean()),
            "precision": self.precision,
        }
        if self.control is None:
            return counts
        beside = self.control.summary()
        return counts | {f"held_out_{name}": value for name, value in beside.items()}


def match(
    targets: Float[np.ndarray, "targets height width channels"],
    labels: Int[np.ndarray, " targets"],
    images: Float[np.ndarray, "candidates height width channels"],
    held_out: Float[np.ndarray, "held_out height width channels"],
    held_out_labels: Int[np.ndarray, " held_out"],
    *,
    mean: Float[np.ndarray, "height width channels"] | None = None,
    share: float = 1.0,
) -> Matches:
    """Return how candidates match the training images, and held-out ones.

    Matching is by NCC, on images without the mean; then the mean is added, images are
    stretched, and compared by SSIM, as in the public code.

    Args:
      targets: training images, pixels in [0, 1].
      labels: classes of the training images.
      images: candidates as the attack returned them.
      held_out: images that weren't trained on, pixels in [0, 1].
      mean: the image that was subtracted from training images; None: none was.
      share: which candidates are averaged, see `voted`.
    """
    shift = np.zeros(targets.shape[1:]) if mean is None else mean
    rng = np.random.default_rng(0)
    drawn = [
        rng.permutation(np.flatnonzero(held_out_labels == label))[:count]
        for label, count in zip(*np.unique(labels, return_counts=True), strict=True)
    ]
    control = np.concatenate(drawn)
    rest = np.setdiff1d(np.arange(len(held_out)), control)
    # The control and the training images change places.
    rivals = np.concatenate([held_out[rest], targets])
    of = np.concatenate([held_out_labels[rest], labels])
    sides = (
        (targets, labels, held_out, held_out_labels),
        (held_out[control], held_out_labels[control], rivals, of),
    )
    matches, beside = (_matches(images, shift, share, *side) for side in sides)
    return dataclasses.replace(matches, control=beside)


def _matches(
    images: np.ndarray,
    shift: np.ndarray,
    share: float,
    targets: np.ndarray,
    labels: np.ndarray,
    others: np.ndarray,
    other_labels: np.ndarray,
) -> Matches:
    """Compare candidates with targets, without a control."""
    # The nearest candidate of each target, compared by SSIM.
    nearest, chosen = voted(targets - shift, images, share=share)
    nearest = stretched(nearest + shift)
    similarity = ssim(targets, nearest)
    # How much the same reconstruction resembles other images of its class.
    recovered = similarity > SIMILAR
    for label in np.unique(labels[recovered]):
        rows = np.flatnonzero(recovered & (labels == label))
        control = ssim_of_all(nearest[rows], others[other_labels == label])
        recovered[rows] = similarity[rows] > control.max(axis=1, initial=-1.0)
    # The other way round: the target nearest to each candidate.
    sources = targets[ncc(images, targets - shift).argmax(axis=1)]
    return Matches(
        images=nearest,
        chosen=chosen,
        ssim=similarity,
        recovered=recovered,
        precision=float(np.mean(ssim(sources, stretched(images + shift)) > SIMILAR)),
    )


def verdict(looks: Mapping[str, Mapping[str, Any]]) -> str:
    """Say in a sentence what was recovered, and whether it is more than chance.

    Fisher's exact test against the control decides, one-sided, at 5 % over all looks. A
    candidate that passes for two training images counts once.

    Args:
      looks: evaluations of one attack, such as of one run and of all runs together: the
        words that begin a sentence on it -> its counts, as `Matches.summary` has them.
        The verdict is about the evaluation that is least likely by chance.
    """
    level = _CHANCE / len(looks)

    def order(look: str) -> list[float]:
        """What is beyond chance comes first, recovered before similar images."""
        by = ("candidates_recovered", "similar")
        chances = [_by_chance(looks[look], name) for name in by]
        return [p if p < level else 1.0 for p in chances] + chances

    said = min(looks, key=order)
    counts = looks[said]
    of, passed, alike = (counts[n] for n in ("targets", "recovered", "similar"))
    control_of, control, control_alike = (
        counts[f"held_out_{n}"] for n in ("targets", "recovered", "similar")
    )
    never = f"of {control_of} images that were never trained on"
    similar = f"{alike} look{'s' * (alike == 1)} similar, and so do {control_alike}"
    beyond = _by_chance(counts, "similar") < level
    seen = "more than chance, but it isn't told which image" if beyond else "chance"
    if _by_chance(counts, "candidates_recovered") < level:
        beside = f"and by the same rule {control} {never}"
        end = f"recovered, {beside}; {similar} of the latter."
    elif passed:
        if passed > control and not beyond:
            seen = "too few to tell from chance"
        beside = f"and so do {control} {never}: {seen}"
        end = f"pass as recovered, {beside}; {similar} of the latter."
    else:
        end = f"recovered; {similar} {never}: {seen}."
    return f"{said}{passed} of {of} training images {end}"


def _by_chance(counts: Mapping[str, Any], name: str) -> float:
    """Return the probability of so many by chance, if images and control are alike."""
    of, others = counts["targets"], counts["held_out_targets"]
    # Of the control images count, not candidates: the more is the more cautious.
    control = counts[f"held_out_{name.removeprefix('candidates_')}"]
    successes = counts[name]
    return float(
        scipy.stats.hypergeom.sf(successes - 1, of + others, successes + control, of)
    )
