"""Measure where attacks on weights alone end: at training images, or elsewhere?

`study` calls `measure`, and `maps` calls `similarities`. `measure` gets the final
images of an attack, which began at many *starts* (`mixtures`). It sees the training
images, so no attack may call it. Any natural image resembles a training image a little,
so each final image is compared too with the controls: the partition, and up to 200
held-out images that nothing was trained on.

An image is *recovered* if its SSIM with a training image exceeds 0.4 and its SSIM with
every control. SSIM is in windows of 7 pixels. As the KKT attack finds images only up to
a factor, it is the larger of the clipped and the stretched image's. L2 distances are to
the image that is nearest by SSIM.

Source: Runkel et al. 2024, Table 1, Section 4.5. The controls and the choice of SSIM
are ours.
"""

import numpy as np
from jaxtyping import Bool, Float

from uninformed import candidates
from uninformed.landscape.mixtures import WINDOW, Sets
from uninformed.landscape.runs import Outcomes

Measured = dict[str, np.ndarray]

# Least number of held-out images that each is compared with; more take longer.
_POOL = 200


def similarities(
    images: Float[np.ndarray, "images height width channels"],
    others: Float[np.ndarray, "others height width channels"],
) -> Float[np.ndarray, "images others"]:
    """Compute SSIM of all pairs, the larger of the clipped and the stretched image."""
    shown = np.clip(images, 0, 1), candidates.stretched(images)
    return np.maximum(*(candidates.ssim_of_all(one, others, WINDOW) for one in shown))


def measure(sets: Sets, outcomes: Outcomes) -> Measured:
    """Return every quantity of every start.

    Returns: arrays (starts,), means over the images of a start if not said otherwise:
      truth: L2 distance to the nearest training image, in pixels of [0, 1].
      partition: L2 distance to the nearest image of the partition.
      noise: L2 distance to the nearest image of noise.
      ssim: SSIM with the nearest training image.
      held_out_ssim: SSIM with the nearest of as many held-out images.
      similar: number of different training images that some image resembles, by an SSIM
        above 0.4.
      recovered: number of recovered images.
      distinct: number of different training images that these resemble.
      held_out_similar, held_out_recovered, held_out_distinct: the same counts with as
        many held-out images in the place of the training images: what chance gives.
      distance: |theta - theta*|^2, or what the method has in its place (`Outcomes`).
      distance_relative: that distance divided by |theta*|^2.
      slope_norm: norm of the gradient of the lower training problem where it ended.
      true: whether each image is recovered, (starts, images).
    """
    rows = [_of_one(sets, images) for images in outcomes.images]
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]} | {
        "distance": np.asarray(outcomes.distance, np.float64),
        "distance_relative": outcomes.distance / outcomes.size,
        "slope_norm": np.asarray(outcomes.slope_norm, np.float64),
    }


def _of_one(sets: Sets, images: np.ndarray) -> Measured:
    """Measure the quantities of one start."""
    images = images.astype(np.float64)
    alike, distances = {}, {}
    for kind in ("truth", "partition", "noise"):
        others = getattr(sets, kind)
        alike[kind] = similarities(images, others)
        gaps = images - others[alike[kind].argmax(axis=1)]
        lengths = np.sqrt(np.sum(gaps**2, axis=(1, 2, 3)))
        distances[kind] = np.asarray(np.mean(lengths))
    pool = max(_POOL, 2 * len(sets.truth))
    alike["held_out"] = similarities(images, sets.held_out[:pool])
    as_many, rest = np.split(alike["held_out"], [len(sets.truth)], axis=1)
    # The training images, and the control in their place.
    true = _counted(alike["truth"], alike["held_out"], alike["partition"])
    control = _counted(as_many, rest, alike["partition"], alike["truth"])
    return {
        **distances,
        **{f"held_out_{name}": value.sum() for name, value in control.items()},
        **{name: value.sum() for name, value in true.items()},
        "ssim": alike["truth"].max(axis=1).mean(),
        "held_out_ssim": as_many.max(axis=1).mean(),
        "true": true["recovered"],
    }


def _counted(
    alike: Float[np.ndarray, "images targets"], *others: np.ndarray
) -> dict[str, Bool[np.ndarray, " counted"]]:
    """Return which targets and images count as similar, recovered and distinct."""
    best, rival = alike.max(axis=1), np.concatenate(others, axis=1).max(axis=1)
    recovered = (best > candidates.SIMILAR) & (best > rival)
    nearest = alike.argmax(axis=1)[recovered]
    return {
        "similar": (alike > candidates.SIMILAR).any(axis=0),
        "recovered": recovered,
        "distinct": np.isin(np.arange(alike.shape[1]), nearest),
    }
