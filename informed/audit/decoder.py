"""From an embedding that was read out to its picture, without a gallery that holds it.

Whoever has the encoder has a decoder: a regression from embedding to picture, fitted on
other pictures. It is the RecoNN without weights in front, in its closed form
(`reconn.kernel`). It is fitted on D_- and public records, and shown what attacks read.

Two rows stand beside the attacks. The embedding itself: what an exact guess shows. The
mean picture of the record's class: what is shown without a release.
"""

import dataclasses
import tempfile
from typing import Any

import numpy as np
from skimage import transform

from informed.attacks.registry import KernelReconnConfig
from informed.audit.subject import Subject
from informed.audit.trained import Models
from informed.play import Trial, stopped_with
from reconn import trainer
from shadow import limits
from shadow.models import ShadowModels
from shadow.release import publish
from shadow.tables import Table

# Records that the decoder is fitted on, at most. CIFAR-10 from AlexNet's embeddings:
# 4,000 leave a squared error of 0.039 and take 20 s of two busy cores, 8,000 leave
# 0.037 and take two minutes; the mean of a class leaves 0.050.
_MOST, _FEWEST = 4000, 100
# Side of the pictures that are decoded, at most; larger ones are made smaller before.
# Embeddings hold no more detail, and 4,000 of this side in colour are 50 MB.
_SIDE = 32
ITSELF, BY_CLASS = "the embedding itself", "the mean picture of its class"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Decoded:
    """Pictures decoded from guesses.

    Attributes:
      values: about, records (that the decoder was fitted on), side (of its pictures, in
        pixels), rows (name, mse_median, finished), seconds, why_not; JSON-able.
      pictures: name of an attack, or "record" for the embeddings themselves ->
        (targets, height, width, channels), NaN where there is no guess.
    """

    values: dict[str, Any]
    pictures: dict[str, np.ndarray]


class Decoder:
    """The regression, from rows of a table of embeddings to the pictures behind them.

    Args:
      table: of embeddings, with pictures behind.
      rows: positions in it of the records that are known, in random order.
      key: the reconstructor's key.
    """

    def __init__(self, table: Table, rows: np.ndarray, key: Any) -> None:
        assert table.behind is not None
        known = table.examples.take(rows)
        self.pictures, self.labels = _small(table.behind, rows), known.labels
        pairs = ShadowModels(
            weights=_flat(known.images), images=self.pictures, labels=self.labels
        )
        with tempfile.TemporaryDirectory() as folder:
            self._reconstructor = trainer.train(
                pairs, KernelReconnConfig(), key=key, workdir=folder, progress=False
            )

    def __call__(self, guesses: np.ndarray) -> np.ndarray:
        """Guesses as rows of the table -> pictures in [0, 1]; NaN where there is none.

        Args:
          guesses: (guesses, 1, dimensions, 1).
        """
        made = np.full((len(guesses), *self.pictures.shape[1:]), np.nan, np.float32)
        there = np.isfinite(guesses).all(axis=(1, 2, 3))
        if there.any():
            made[there] = self._reconstructor(publish(_flat(guesses[there])))
        return made

    def mean_of(self, labels: np.ndarray) -> np.ndarray:
        """The mean picture of the known records of a class; of all, where none is."""
        overall = self.pictures.mean(axis=0)
        means = {
            label: self.pictures[self.labels == label].mean(axis=0)
            for label in np.unique(self.labels)
        }
        return np.stack([means.get(label, overall) for label in labels])


def applies(subject: Subject) -> bool:
    """Whether there are pictures behind embeddings."""
    table = subject.table
    return table is not None and table.behind is not None and table.behind.ndim == 4


def decoded(models: Models, trials: list[Trial], *, limit: float) -> Decoded | None:
    """Decode what attacks read; None where no pictures lie behind embeddings.

    Args:
      models: the released models.
      trials: the attacks, played.
      limit: seconds that it may take.
    """
    subject = models.subject
    table, split = subject.table, subject.split
    if not applies(subject):
        return None
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
    known = np.concatenate([split.fixed_indices, split.shadow_indices])
    known = np.random.default_rng(subject.seed).permutation(known)[:_MOST]
    if len(known) < _FEWEST:
        why = f"only {len(known)} records to fit it on"
        return Decoded(values=found | {"why_not": why}, pictures={})
    clock = limits.Clock(limit)
    try:
        with limits.seconds(limit):
            decoder = Decoder(table, known, models.key)
            shown = _shown(decoder, models, trials)
            truth = _small(table.behind, split.test_indices[: models.count])
    except limits.OutOfTimeError:
        why = f"not fitted in {limit:.0f} s"
        return Decoded(values=found | {"why_not": why}, pictures={})
    except Exception as error:
        return Decoded(values=found | {"why_not": stopped_with(error)}, pictures={})
    found |= {
        "records": len(known),
        "side": truth.shape[1],
        "rows": [_row(name, images, truth) for name, images in shown.items()],
        "seconds": round(clock.passed, 2),
    }
    return Decoded(values=found, pictures=shown | {"record": shown[ITSELF]})


def _shown(
    decoder: Decoder, models: Models, trials: list[Trial]
) -> dict[str, np.ndarray]:
    """Name -> pictures: of each attack that guesses embeddings, and what is beside."""
    by_attack = {
        trial.name: decoder(np.clip(trial.images, 0, 1).astype(np.float32))
        for trial in trials
        if trial.points == 1 and trial.images is not None
    }
    targets = models.targets
    return by_attack | {
        ITSELF: decoder(targets.images),
        BY_CLASS: decoder.mean_of(targets.labels),
    }


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
    return np.stack(made).astype(np.float32)


def _flat(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows, np.float32).reshape(len(rows), -1)
