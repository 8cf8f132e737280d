"""Multilayer perceptrons: training is inverted by running it again.

A network's weights determine the missing row through its whole training, which can be
run again if its seed is stored: `random_state` as a whole number. The reader says
whether the artefact allows it, and what is missing. With `retrain` it does it, by
`informed.TrainingInversion` on hundreds of fits of a clone of the estimator. A row that
it certifies is told as intervals, several times the error to expect.
"""

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np
from sklearn.base import clone

from artefacts import refits
from artefacts.findings import Finding, Leaf, Removed
from informed.attacks.inversion import TrainingInversion
from informed.threat import Knowledge
from shadow.data import Examples
from shadow.release import publish
from shadow.training import PythonFunction

_ROOM = 0.5  # of a column's range, on both sides of the known rows
_SPREAD = 6.0  # expected deviations, of the intervals


def read(leaf: Leaf) -> list[Finding]:
    """What inversion by runs needs, and whether it is in the artefact."""
    model = leaf.estimator
    seeded = isinstance(model.random_state, int)
    batch = min(200, leaf.count) if model.batch_size == "auto" else model.batch_size
    whole = batch >= leaf.count or model.solver == "lbfgs"
    missing = []
    if not seeded:
        missing.append(
            "its seed (random_state is no whole number): try seeds, or let the weights"
            " that training never touched tell it"
        )
    if not whole and leaf.position is None:
        missing.append("the missing row's place in the batches (position)")
    if model.early_stopping:
        missing.append("early stopping draws its validation rows: tell position")
    if not hasattr(model, "classes_") and leaf.label is None:
        missing.append("the missing row's output (target_label)")
    if leaf.retrain and not missing:
        return [_inverted(leaf)]
    what = "; ".join(missing)
    note = (
        "coefs_ determine the row if training is run again, some hundred times:"
        " retrain=True"
        + (f". Missing: {what}" if missing else ". Everything it needs is stored")
    )
    return [
        Finding(
            field="coefs_, intercepts_, random_state",
            tells="the row, to who runs training again"
            + (" and knows what is missing" if missing else ": the seed is stored"),
            notes=(note,),
        )
    ]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Refit:
    """The estimator's own training; the known rows as they are, the last image as z."""

    model: Any
    known: np.ndarray
    labels: np.ndarray
    classes: np.ndarray | None
    output: Any
    low: np.ndarray
    scale: np.ndarray
    place: int

    def train(
        self, images: np.ndarray, targets: np.ndarray, seed: int
    ) -> list[np.ndarray]:
        """Weights of a clone that is fitted to all rows."""
        row = self.low + self.scale * np.asarray(images[-1], np.float64).ravel()
        own = self.output if self.classes is None else self.classes[targets[-1]]
        again = clone(self.model).set_params(random_state=seed)
        x = np.insert(self.known, self.place, row, axis=0)
        y = np.insert(self.labels, self.place, own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it stopped early, as it did before
            again.fit(x, y)
        return [*again.coefs_, *again.intercepts_]


def _inverted(leaf: Leaf) -> Finding:
    """The row whose training ends at the stored weights."""
    model, known = leaf.estimator, np.asarray(leaf.known, np.float64)
    count, width = known.shape
    low, high = known.min(axis=0), known.max(axis=0)
    room = _ROOM * np.where(high > low, high - low, 1.0)
    low, scale = low - room, high - low + 2 * room
    place = count if leaf.position is None else leaf.position
    classifier = hasattr(model, "classes_")
    labels = np.asarray(leaf.labels)

    refit = _Refit(
        model=clone(model),
        known=known,
        labels=labels,
        classes=model.classes_ if classifier else None,
        output=leaf.label,
        low=low,
        scale=scale,
        place=place,
    )
    told = None
    numbers = np.zeros(count, np.int32)
    if classifier:
        numbers = np.searchsorted(model.classes_, labels).astype(np.int32)
        if leaf.label is not None:
            told = np.searchsorted(model.classes_, [leaf.label])
    else:
        told = np.zeros(1, np.int32)
    images = ((known - low) / scale).astype(np.float32).reshape(count, 1, width, 1)
    algorithm: Any = PythonFunction(train=refit.train, version="refit")
    released = [*model.coefs_, *model.intercepts_]
    found = TrainingInversion()(
        publish(np.concatenate([np.ravel(array) for array in released])[None]),
        Knowledge(
            fixed=Examples(
                name="known rows",
                images=images,
                labels=numbers,
                num_classes=len(model.classes_) if classifier else 1,
            ),
            algorithm=algorithm,
            training_key=model.random_state,
            labels=told,
        ),
        key=jax.random.key(0),
    )
    value = low + scale * found.images.astype(np.float64).ravel()
    assert found.certified is not None
    assert found.expected_mse is not None
    assert found.labels is not None
    sure = bool(found.certified[0])
    error = _SPREAD * scale * np.sqrt(found.expected_mse[0] + 2.0**-48)
    label = model.classes_[found.labels[0]] if classifier else leaf.label
    # The search is in float32; scikit-learn trains in float64.
    polished = refits.search(leaf, ("coefs_", "intercepts_"), value, label)
    if polished is not None:
        value, error = polished
        sure = True
    return Finding(
        field="coefs_, intercepts_, random_state",
        tells="the row, by running training again" if sure else "no row was found",
        lower=value - error if sure else None,
        upper=value + error if sure else None,
        estimate=value,
        label=label if sure else leaf.label,
        certified=True if sure else None,
    )


def strip(estimator: Any) -> list[Removed]:
    """The seed, the optimiser's state and the learning curve."""
    removed = []
    fields = (
        "_optimizer",
        "_random_state",
        "loss_curve_",
        "best_loss_",
        "loss_",
        "t_",
        "_no_improvement_count",
        "validation_scores_",
        "best_validation_score_",
    )
    for field in fields:
        if getattr(estimator, field, None) is not None:
            delattr(estimator, field)
            removed.append(
                Removed(
                    field=field,
                    action="removed",
                    helps=None,
                    why="not used by predictions; the optimiser's state and the"
                    " learning curve tell of training",
                )
            )
    if estimator.random_state is not None:
        estimator.random_state = None
        removed.append(
            Removed(
                field="random_state",
                action="removed",
                helps=None,
                why="without the seed training cannot simply be run again; 32 bits can"
                " be tried",
            )
        )
    return removed


READERS = dict.fromkeys(("MLPClassifier", "MLPRegressor"), read)
STRIPPERS = dict.fromkeys(READERS, strip)
