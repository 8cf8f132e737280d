"""What Runkel et al. 2024 conclude, asked of our runs, with the figures that decide.

a  from noise theta fits, and images resemble training images no more than held-out ones
b  begun at the training images, they are found
c  begun at the partition theta fits, and images stay there
d  nearer to the partition than to training images wherever these are the smaller share
e  near the training images the bilevel attack comes nearer to them than the KKT attack
f  and its distance grows faster with the share of noise
g  one image per class, repeated, fits as well
h  the KKT attack's landscape is smoother: from near starts it ends nearer together
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from uninformed.landscape import starts
from uninformed.landscape.quantities import Measured
from uninformed.landscape.starts import CORNERS, StartsConfig

# Theta fits where the distance is at most this share of |theta*|^2, or twice what the
# training images themselves leave if that is more.
FITS = 0.01
# The largest such share that still counts as a fit, whatever training images leave.
_AT_MOST = 0.1
# SSIM by which images from noise may exceed held-out ones and still resemble them no
# more; one image of twenty whose SSIM rises by 0.4 moves the mean by as much.
_NO_MORE = 0.02


def of_method(
    config: StartsConfig, names: Sequence[str], measured: Measured
) -> dict[str, dict[str, Any]]:
    """Conclusions a, b, c, d and g: {letter: {"confirmed", figures}}."""
    at = _Values(names, measured)
    shares = [share for share in config.shares if share < 0.5]
    along = {share: starts.name(share, 1.0) for share in shares}
    stays = at("partition", "partition")
    far = at("truth", "partition")
    fit = min(max(FITS, 2 * at("distance_relative", "truth")), _AT_MOST)
    found = {
        "a": _said(
            at("distance_relative", "noise") <= fit
            and at("ssim", "noise") <= at("held_out_ssim", "noise") + _NO_MORE,
            relative_distance=at("distance_relative", "noise"),
            ssim=at("ssim", "noise"),
            held_out_ssim=at("held_out_ssim", "noise"),
        ),
        "b": _said(
            at("truth", "truth") < 0.1 * far,
            l2_to_truth=at("truth", "truth"),
            l2_from_partition=far,
        ),
        "c": _said(
            stays < 0.5 * far and at("distance_relative", "partition") <= fit,
            relative_distance=at("distance_relative", "partition"),
            l2_to_partition=stays,
            l2_to_truth=far,
        ),
        "d": _said(
            all(at("partition", n) < at("truth", n) for n in along.values()),
            **{
                f"l1_{share:g}": [at("partition", n), at("truth", n)]
                for share, n in along.items()
            },
        ),
    }
    if config.collapsed:
        name = starts.COLLAPSED
        found["g"] = _said(
            at("distance_relative", name) <= fit,
            relative_distance=at("distance_relative", name),
            from_partition=at("distance_relative", "partition"),
            spread=at("spread", name),
            spread_from_noise=at("spread", "noise"),
            spread_of_truth=at("spread", "truth"),
        )
    return found


def compared(
    config: StartsConfig, names: Sequence[str], bilevel: Measured, other: Measured
) -> dict[str, dict[str, Any]]:
    """Conclusions e, f and h, of the bilevel attack against another one."""
    ours, theirs = _Values(names, bilevel), _Values(names, other)
    near = [
        starts.name(l1, l2)
        for l1 in config.shares
        for l2 in config.shares
        if min(l1, l2) >= 0.75 and min(l1, l2) < 1
    ] or ["truth"]
    distances = [
        float(np.mean([at("truth", name) for name in near])) for at in (ours, theirs)
    ]
    half = [share for share in config.shares if 0.5 <= share < 1] or [0.0]
    growth = [
        at("truth", starts.name(1.0, min(half))) - at("truth", "truth")
        for at in (ours, theirs)
    ]
    return {
        "e": _said(
            distances[0] < distances[1], bilevel=distances[0], other=distances[1]
        ),
        "f": _said(growth[0] > growth[1], bilevel=growth[0], other=growth[1]),
    }


def smoother(
    bilevel: Mapping[str, float], other: Mapping[str, float]
) -> dict[str, Any]:
    """Conclusion h, from `contractions`: at every corner."""
    return _said(
        all(other[corner] < bilevel[corner] for corner in CORNERS),
        bilevel=dict(bilevel),
        other=dict(other),
    )


def contractions(
    config: StartsConfig,
    names: Sequence[str],
    began: np.ndarray,
    ended: np.ndarray,
) -> dict[str, float]:
    """Distance between ends over that between starts, of perturbations of each corner.

    Below 1 where the landscape is smooth: different starts end in one minimum.
    """
    found = {}
    for corner in CORNERS:
        rows = [
            names.index(starts.perturbed_name(corner, number))
            for number in range(config.perturbed)
        ]
        found[corner] = _apart(ended[rows]) / _apart(began[rows])
    return found


def _apart(images: np.ndarray) -> float:
    """Mean distance between the same image in different runs."""
    flat = images.reshape(*images.shape[:2], -1)
    gaps = [
        np.linalg.norm(flat[i] - flat[j], axis=1).mean()
        for i in range(len(flat))
        for j in range(i)
    ]
    return float(np.mean(gaps))


class _Values:
    """The measured quantities of one method, by quantity and name of the start."""

    def __init__(self, names: Sequence[str], measured: Measured) -> None:
        self.names, self.measured = list(names), measured

    def __call__(self, quantity: str, name: str) -> float:
        return float(self.measured[quantity][self.names.index(name)])


def _said(confirmed: bool, **figures: Any) -> dict[str, Any]:
    return {"confirmed": bool(confirmed)} | figures
