"""The conclusions of Runkel et al. 2024, checked on our runs, with their figures.

`study` calls `conclude`. Starts mix three *corners*: training images (truth), other
images of their classes (partition) and noise. Theta, the released weights, fits if an
outcome explains it.

a  from noise theta fits, but images resemble training images no more than held-out ones
b  from the training images, these are recovered
c  from the partition, theta fits, and images stay near the partition
d  images end nearer to the partition than to the truth if it has more weight
e  near the training images, the bilevel attack ends nearer to them than the KKT attack
f  the bilevel attack's distance grows faster with the share of noise
g  one image per class, repeated, fits as well
h  the KKT attack's landscape is smoother: outcomes of near starts are nearer together
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from uninformed.landscape import mixtures
from uninformed.landscape.mixtures import CORNERS, StartsConfig
from uninformed.landscape.quantities import Measured

# Theta fits if the distance is at most this share of |theta*|^2, or twice the distance
# at the training images themselves if that is more.
FITS = 0.01
# The largest such share that still counts as a fit.
_AT_MOST = 0.1
# Tolerance when comparing mean SSIM with held-out images; one image of twenty whose
# SSIM rises by 0.4 changes the mean by as much.
_NO_MORE = 0.02
# {letter: {"confirmed": whether it holds, figures by name}}
Conclusions = dict[str, dict[str, Any]]


def conclude(
    config: StartsConfig,
    names: Sequence[str],
    started: np.ndarray,
    ended: Mapping[str, np.ndarray],
    measured: Mapping[str, Measured],
) -> dict[str, Conclusions]:
    """Check all conclusions about each method, and those that compare two.

    Args:
      config: the starts of the attacks.
      names: names of the starts.
      started: images at the start, (starts, points, height, width, channels).
      ended: images at the end by method, of that shape.
      measured: the quantities of each method.
    """
    outcome = {
        method: of_method(config, names, values) for method, values in measured.items()
    }
    if "bilevel" not in measured:
        return outcome
    spreads = {}
    if config.perturbed > 1:
        spreads = {
            method: contractions(config, names, started, images)
            for method, images in ended.items()
        }
    for other in measured:
        if other != "bilevel":
            pair = compared(config, names, measured["bilevel"], measured[other])
            if spreads:
                pair["h"] = smoother(spreads["bilevel"], spreads[other])
            outcome[f"bilevel against {other}"] = pair
    return outcome


def of_method(
    config: StartsConfig, names: Sequence[str], measured: Measured
) -> Conclusions:
    """Check conclusions a, b, c, d and g for one method."""
    at = _lookup(names, measured)
    along = {share: mixtures.name(share, 1.0) for share in config.shares if share < 0.5}
    stays = at("partition", "partition")
    far = at("truth", "partition")
    fit = min(max(FITS, 2 * at("distance_relative", "truth")), _AT_MOST)
    conclusions = {
        "a": _conclusion(
            at("distance_relative", "noise") <= fit
            and at("ssim", "noise") <= at("held_out_ssim", "noise") + _NO_MORE,
            relative_distance=at("distance_relative", "noise"),
            ssim=at("ssim", "noise"),
            held_out_ssim=at("held_out_ssim", "noise"),
        ),
        "b": _conclusion(
            at("truth", "truth") < 0.1 * far,
            l2_to_truth=at("truth", "truth"),
            l2_from_partition=far,
        ),
        "c": _conclusion(
            stays < 0.5 * far and at("distance_relative", "partition") <= fit,
            relative_distance=at("distance_relative", "partition"),
            l2_to_partition=stays,
            l2_to_truth=far,
        ),
        "d": _conclusion(
            all(at("partition", n) < at("truth", n) for n in along.values()),
            **{
                f"l1_{share:g}": [at("partition", n), at("truth", n)]
                for share, n in along.items()
            },
        ),
    }
    if config.collapsed:
        name = mixtures.COLLAPSED
        conclusions["g"] = _conclusion(
            at("distance_relative", name) <= fit,
            relative_distance=at("distance_relative", name),
            from_partition=at("distance_relative", "partition"),
            spread=at("spread", name),
            spread_from_noise=at("spread", "noise"),
            spread_of_truth=at("spread", "truth"),
        )
    return conclusions


def compared(
    config: StartsConfig, names: Sequence[str], bilevel: Measured, other: Measured
) -> Conclusions:
    """Check conclusions e and f, which compare the bilevel attack with another one."""
    both = _lookup(names, bilevel), _lookup(names, other)
    near = [
        mixtures.name(l1, l2)
        for l1 in config.shares
        for l2 in config.shares
        if 0.75 <= min(l1, l2) < 1
    ] or ["truth"]
    distances = [float(np.mean([at("truth", name) for name in near])) for at in both]
    half = min([share for share in config.shares if 0.5 <= share < 1] or [0.0])
    growth = [
        at("truth", mixtures.name(1.0, half)) - at("truth", "truth") for at in both
    ]
    return {
        "e": _conclusion(
            distances[0] < distances[1], bilevel=distances[0], other=distances[1]
        ),
        "f": _conclusion(growth[0] > growth[1], bilevel=growth[0], other=growth[1]),
    }


def smoother(
    bilevel: Mapping[str, float], other: Mapping[str, float]
) -> dict[str, Any]:
    """Check conclusion h by `contractions`: it has to hold at every corner."""
    return _conclusion(
        all(other[corner] < bilevel[corner] for corner in CORNERS),
        bilevel=dict(bilevel),
        other=dict(other),
    )


def contractions(
    config: StartsConfig,
    names: Sequence[str],
    started: np.ndarray,
    ended: np.ndarray,
) -> dict[str, float]:
    """Divide distances between ends by those between starts, around each corner.

    Ratios below 1 mean a smooth landscape: different starts end in one minimum.
    """
    ratios = {}
    for corner in CORNERS:
        rows = [
            names.index(mixtures.perturbed_name(corner, number))
            for number in range(config.perturbed)
        ]
        ratios[corner] = _apart(ended[rows]) / _apart(started[rows])
    return ratios


def _apart(images: np.ndarray) -> float:
    """Average the distance between the same image in different runs."""
    flat = images.reshape(*images.shape[:2], -1)
    gaps = [
        np.linalg.norm(flat[i] - flat[j], axis=1).mean()
        for i in range(len(flat))
        for j in range(i)
    ]
    return float(np.mean(gaps))


def _lookup(names: Sequence[str], measured: Measured) -> Callable[[str, str], float]:
    """Return a function (quantity, name of the start) -> value."""
    rows = {name: row for row, name in enumerate(names)}
    return lambda quantity, name: float(measured[quantity][rows[name]])


def _conclusion(confirmed: bool, **figures: Any) -> dict[str, Any]:
    return {"confirmed": bool(confirmed)} | figures
