"""Which record it is: training again with the likeliest of a gallery.

Somebody who has a gallery in which the record is need not read it out. The guesses of
attacks put the gallery in an order; with each of its first records the training is run
again, and the record whose weights come nearest is named. Where they come out to the
last bit, and those of no other record that was tried, it is certified.

The gallery is all public records, and the target among them.
"""

import time
from typing import Any

import numpy as np

from informed.attacks.inversion.retraining import Retraining
from informed.audit.trained import Models
from informed.metrics import galleries
from informed.play import ALL_BUT_ONE, SEED, Trial, stopped_with
from shadow import limits
from shadow.data import Examples
from shadow.parallel import OtherSizeError

# Records of a gallery that are trained with, for each target, at most: the right one is
# among the first few of some attack's order, or training with more doesn't find it.
MOST = 64
# Models trained at once; a matter of speed and memory.
_WIDTH = 16


def named(
    models: Models,
    trials: list[Trial],
    pool: Examples,
    *,
    seconds_a_model: float,
    limit: float,
) -> dict[str, Any]:
    """Name every target's record out of the gallery.

    Args:
      models: the released models.
      trials: the attacks whose guesses put the gallery in an order.
      pool: what the gallery holds beside the target.
      seconds_a_model: how long one training takes.
      limit: seconds that it may take.
    Returns: about, knows, size of the gallery, tried records of it for each target,
      attempted targets (those of which an attack has a guess), first (named rightly),
      certified, certified_wrong, seconds, why_not: why something wasn't tried.
    """
    found: dict[str, Any] = {
        "about": "train again with the likeliest records of a gallery",
        "knows": f"{ALL_BUT_ONE if models.secret else SEED}, a gallery that holds it",
        "size": len(pool) + 1,
        "tried": 0,
        "attempted": 0,
        "first": None,
        "certified": None,
        "certified_wrong": None,
        "seconds": 0.0,
        "why_not": "",
    }
    read = [trial.images for trial in trials if trial.images is not None]
    guesses = [
        [each[i] for each in read if i < len(each) and np.isfinite(each[i]).all()]
        for i in range(models.count)
    ]
    affordable = int(limit / max(seconds_a_model * models.count, 1e-9))
    why = models.why_incomparable
    if not why and not any(guesses):
        why = "no attack has a guess"
    elif not why and affordable < 2:
        why = f"not two trainings a record in {limit:.0f} s"
    if why:
        return found | {"why_not": why}
    most = min(MOST, len(pool) + 1)
    tried, begun = min(most, affordable), time.monotonic()
    if tried < most:
        found["why_not"] = f"time for {tried} of {most} records for each target"
    if not all(guesses):
        found["why_not"] = "no attack has a guess for the others"
    picked, sure = [], []
    try:
        with limits.seconds(limit):
            training = Retraining(
                models.knowledge(), width=_WIDTH, draws=1, key=models.key
            )
            for i in range(models.count):
                rows = _likeliest(guesses[i], models.targets, i, pool, tried)
                image, certain = _named(training, models, rows, i, pool)
                picked.append(image)
                sure.append(certain)
    except limits.OutOfTimeError as error:
        found["why_not"] = str(error).rstrip(".")
    except Exception as error:  # the user's own function, on a record of the gallery
        found["why_not"] = stopped_with(error)
    return found | {
        "tried": tried,
        "attempted": sum(map(bool, guesses[: len(picked)])),
        "seconds": round(time.monotonic() - begun, 2),
        **galleries.verdict(picked, sure, models.targets),
    }


def _likeliest(
    guesses: list[np.ndarray], targets: Examples, i: int, pool: Examples, count: int
) -> np.ndarray:
    """Positions in the gallery; the target's is len(pool). In turns by each guess."""
    gallery = pool.joined(targets.take(slice(i, i + 1))).images
    if not guesses:
        return np.arange(0)
    apart = galleries.distances(np.array(guesses), gallery)
    merged = np.argsort(apart, axis=1, kind="stable")[:, :count].T.ravel()
    _, first = np.unique(merged, return_index=True)
    return merged[np.sort(first)][:count]


def _named(
    training: Retraining, models: Models, rows: np.ndarray, i: int, pool: Examples
) -> tuple[np.ndarray, bool]:
    """The record of the nearest weights, NaN where none was tried; the certificate."""
    if not len(rows):
        return np.full(pool.image_shape, np.nan, np.float32), False
    tried = pool.joined(models.targets.take(slice(i, i + 1))).take(rows)
    images, labels = tried.images, tried.labels
    apart = _apart(training.at(i), images, labels, models.weights.weights[i])
    nearest = int(apart.argmin())
    # Copies of one record are one record.
    same = (images == images[nearest]).reshape(len(images), -1).all(axis=1)
    alone = not (apart[~same] == 0).any()
    certified = bool(apart[nearest] == 0 and alone and not models.secret)
    return images[nearest], certified


def _apart(
    training: Retraining, images: np.ndarray, labels: np.ndarray, released: np.ndarray
) -> np.ndarray:
    """How far each record's weights lie from the released ones.

    Infinitely far where training diverges, and where the model has another size, as
    with a class that no known record has: it can't be the released one.
    """
    try:
        thetas = training.thetas(images[:, None], labels[:, None])
    except OtherSizeError:
        if len(images) == 1:
            return np.array([np.inf])
        # Halves, so that the records of the released size are trained side by side.
        cut = len(images) // 2
        halves = slice(None, cut), slice(cut, None)
        return np.concatenate(
            [_apart(training, images[half], labels[half], released) for half in halves]
        )
    apart = np.linalg.norm(thetas.astype(np.float64) - released[None], axis=1)
    return np.where(np.isfinite(apart), apart, np.inf)
