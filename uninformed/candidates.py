"""Evaluate attacks on weights alone: match their candidates with the training images.

An attack returns more candidates than there are training points, in no order, and can't
say which are right. The adversary can drop those without a multiplier and merge near
copies. Only an evaluation can match candidates with training points and count them.

Images are matched by normalised cross-correlation (NCC), stretched to [0, 1], and
compared by SSIM. Some candidate resembles any image, so every count stands beside a
control: the same count for held-out images of the same class.

Source: Haim et al. 2022, Section 5.2 and Appendix B.3; the control is ours.
Checked: tests/uninformed/test_candidates.py.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

# SSIM above which Haim et al. call a reconstruction good.
SIMILAR = 0.4
# Side, in pixels, of the windows of SSIM, as in the public code.
WINDOW = 3
# Smaller standard deviations, ranges and distances are rounding in float64.
_ALIKE = 1e-12
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
    """Average near copies; groups with the largest multiplier come first.

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
    """The candidates nearest to training images, their similarity, and controls.

    Attributes:
      images: the reconstruction of each training image, stretched to [0, 1],
        (targets, height, width, channels).
      chosen: index of the candidate nearest to each training image, (targets,).
      ssim: SSIM of each training image with its reconstruction, (targets,).
      recovered: whether that exceeds both `SIMILAR` and the SSIM of the same
        reconstruction with every held-out image of the target's class, (targets,); then
        it isn't merely typical of the class.
      held_out_ssim: SSIM of as many held-out images, each with its own nearest
        candidate.
      precision: share of candidates whose SSIM with some training image exceeds
        `SIMILAR`.
    """

    images: np.ndarray
    chosen: np.ndarray
    ssim: np.ndarray
    recovered: Bool[np.ndarray, " targets"]
    held_out_ssim: np.ndarray
    precision: float

    def summary(self) -> dict[str, int | float]:
        """Return the counts for results.json."""
        return {
            "targets": len(self.ssim),
            "similar": int((self.ssim > SIMILAR).sum()),
            "recovered": int(self.recovered.sum()),
            "held_out_similar": int((self.held_out_ssim > SIMILAR).sum()),
            "candidates_recovered": len(np.unique(self.chosen[self.recovered])),
            "mean_ssim": float(self.ssim.mean()),
            "precision": self.precision,
        }


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
    """Compare candidates with the training images, and with held-out ones.

    Matching is by NCC, on images without the mean; then the mean is added, images are
    stretched, and compared by SSIM, as in the public code.

    Args:
      targets: training images, pixels in [0, 1].
      labels: classes of the training images.
      images: candidates as the attack returned them.
      held_out: images that weren't trained on, pixels in [0, 1].
      held_out_labels: classes of the held-out images.
      mean: the image that was subtracted from training images; None: none was.
      share: which candidates are averaged, see `voted`.
    """
    shift = np.zeros(targets.shape[1:]) if mean is None else mean
    # The nearest candidate of each training image, compared by SSIM.
    nearest, chosen = voted(targets - shift, images, share=share)
    nearest = stretched(nearest + shift)
    similarity = ssim(targets, nearest)
    # The control: how much the same reconstruction resembles images of its class.
    recovered = similarity > SIMILAR
    for label in np.unique(labels[recovered]):
        rows = np.flatnonzero(recovered & (labels == label))
        control = ssim_of_all(nearest[rows], held_out[held_out_labels == label])
        recovered[rows] = similarity[rows] > control.max(axis=1, initial=-1.0)
    # The other control: the same search for as many held-out images of each class.
    rng = np.random.default_rng(0)
    drawn = []
    for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
        members = np.flatnonzero(held_out_labels == label)
        drawn.append(rng.permutation(members)[:count])
    others = held_out[np.concatenate(drawn)]
    other_nearest = voted(others - shift, images, share=share)[0]
    # The reverse: the training image nearest to each candidate.
    sources = targets[ncc(images, targets - shift).argmax(axis=1)]
    return Matches(
        images=nearest,
        chosen=chosen,
        ssim=similarity,
        recovered=recovered,
        held_out_ssim=ssim(others, stretched(other_nearest + shift)),
        precision=float(np.mean(ssim(sources, stretched(images + shift)) > SIMILAR)),
    )
