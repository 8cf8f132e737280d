"""From an embedding that was read out to its picture, without a gallery that holds it.

Whoever has the encoder has a decoder: a regression from embedding to picture, fitted on
other pictures. It is the RecoNN without weights in front, in its closed form
(`reconn.kernel`). It is fitted on D_- and public records, and shown what attacks read.

Two rows stand beside the attacks. The embedding itself: what an exact guess shows. The
mean picture of the record's class: what is shown without a release.
"""

import dataclasses
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from skimage import transform

from informed.attacks.registry import KernelReconnConfig
from informed.audit.subject import Subject
from informed.audit.trained import Models
from informed.play import Trial, stopped_with
from reconn import trainer
from shadow import limits
from shadow.data import Examples
from shadow.models import ShadowModels
from shadow.release import publish

# Records that the decoder is fitted on, at most. CIFAR-10 from AlexNet's embeddings:
# 4,000 leave a squared error of 0.039 and take 20 s of two busy cores, 8,000 leave
# 0.037 and take two minutes; the mean of a class leaves 0.050.
_MOST, _FEWEST = 4000, 100
# Side of the pictures that are decoded, at most; larger ones are made smaller before.
# Embeddings hold no more detail, and 4,000 of this side in colour are 50 MB.
_SIDE = 32
ITSELF, BY_CLASS = "the embedding itself", "the mean picture of its class"


def applies(subject: Subject) -> bool:
    """Whether there are pictures behind embeddings."""
    table = subject.table
    return table is not None and table.behind is not None and table.behind.ndim == 4


def decoded(
    models: Models, trials: list[Trial], *, limit: float
) -> tuple[dict[str, Any] | None, dict[str, np.ndarray]]:
    """Decode what attacks read; nothing where no pictures lie behind embeddings.

    Args:
      models: the released models.
      trials: the attacks, played.
      limit: seconds that it may take.
    Returns: about, records (that the decoder was fitted on), side (of its pictures, in
      pixels), rows (name, mse_median, finished), seconds, why_not, JSON-able; and the
      name of an attack, or "record" for the embeddings themselves -> (targets, height,
      width, channels), NaN where there is no guess.
    """
    subject = models.subject
    table, split = subject.table, subject.split
    if not applies(subject):
        return None, {}
    assert table is not None
    assert table.behind is not None
    found: dict[str, Any] = {
        "about": "a regression from embedding to picture, on records that are not the"
        " targets",
        "records": 0,
        "side": 0,
        "rows": [],
        "seconds": 0.0,
        "why_not": "",
    }
    rows = np.concatenate([split.fixed_indices, split.shadow_indices])
    rows = np.random.default_rng(subject.seed).permutation(rows)[:_MOST]
    if len(rows) < _FEWEST:
        return found | {"why_not": f"only {len(rows)} records to fit it on"}, {}
    clock, targets = limits.Clock(limit), models.targets
    try:
        with limits.seconds(limit):
            known = table.examples.take(rows)
            pictures = dataclasses.replace(known, images=_small(table.behind, rows))
            read = _decoder(known, pictures, models.key)
            shown = {
                trial.name: read(np.clip(trial.images, 0, 1).astype(np.float32))
                for trial in trials
                if trial.points == 1 and trial.images is not None
            }
            shown[ITSELF] = read(targets.images)
            shown[BY_CLASS] = pictures.means(targets.labels)
            truth = _small(table.behind, split.test_indices[: models.count])
    except limits.OutOfTimeError:
        return found | {"why_not": f"not fitted in {limit:.0f} s"}, {}
    except Exception as error:
        return found | {"why_not": stopped_with(error)}, {}
    found |= {
        "records": len(rows),
        "side": truth.shape[1],
        "rows": [_row(name, images, truth) for name, images in shown.items()],
        "seconds": round(clock.passed, 2),
    }
    return found, shown | {"record": shown[ITSELF]}


def _decoder(
    known: Examples, pictures: Examples, key: Any
) -> Callable[[np.ndarray], np.ndarray]:
    """The regression: rows of a table (guesses, 1, dimensions, 1) -> pictures.

    Args:
      known: rows of embeddings, in random order.
      pictures: what is behind them.
      key: the reconstructor's key.
    """
    pairs = ShadowModels.of(_flat(known.images), pictures)
    with tempfile.TemporaryDirectory() as folder:
        fitted = trainer.train(
            pairs, KernelReconnConfig(), key=key, workdir=folder, progress=False
        )

    def read(guesses: np.ndarray) -> np.ndarray:
        made = np.full((len(guesses), *pictures.image_shape), np.nan, np.float32)
        there = np.isfinite(guesses).all(axis=(1, 2, 3))
        if there.any():
            made[there] = fitted(publish(_flat(guesses[there])))
        return made

    return read


def _row(name: str, images: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    errors = np.mean((images - truth[: len(images)]) ** 2, axis=(1, 2, 3))
    there = np.isfinite(errors)
    middle = float(np.median(errors[there])) if there.any() else None
    return {"name": name, "mse_median": middle, "finished": int(there.sum())}


def _small(pictures: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some of pictures (records, height, width, channels), sides of `_SIDE` at most."""
    longest = max(pictures.shape[1:3])
    shape = [max(1, round(side * _SIDE / longest)) for side in pictures.shape[1:3]]
    made = []
    # One by one: a large picture is there in full only while it is made smaller.
    for row in rows:
        picture = np.asarray(pictures[row], np.float32)
        if longest > _SIDE:
            picture = transform.resize(picture, shape, anti_aliasing=True)
        made.append(picture)
    return np.clip(np.stack(made), 0, 1).astype(np.float32)


def _flat(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows, np.float32).reshape(len(rows), -1)
