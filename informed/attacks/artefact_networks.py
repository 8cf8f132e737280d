"""Multilayer perceptrons of scikit-learn: the row by running their training again.

`artefacts.readers.networks` says whether an artefact holds all that this needs. The
search is `TrainingInversion` on hundreds of fits of a clone of the estimator; a row
that it certifies is told as intervals, several times the error to expect.

Importing this module registers the search, so that `reconstruct_sklearn` has it. JAX is
imported when a search begins: most artefacts are read without.
"""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from artefacts import reconstruct as reconstruct_sklearn
from artefacts import refits
from artefacts.findings import Finding, Leaf
from artefacts.readers.networks import FIELDS
from artefacts.registry import register

if TYPE_CHECKING:
    from informed.threat import Reconstruction

__all__ = ["reconstruct_sklearn", "search"]

# Of a column's range, on both sides of the known rows: images lie in [0, 1], and a
# missing row may lie outside of what is known.
_ROOM = 0.5
# Expected deviations to either side that an interval has.
_SPREAD = 6.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Refit:
    """The estimator's own training as a function of the missing row.

    Attributes:
      model: a clone of the estimator, not fitted.
      known: (known, features), the known rows in their own units.
      labels: (known,), their labels, as `fit` takes them.
      classes: (classes,), the estimator's; None: a regressor.
      output: the missing row's output, where the estimator is a regressor.
      low, scale: (features,), so that a row is low + scale * image.
      place: where the missing row stands among all, 0 .. known.
    """

    model: Any
    known: np.ndarray
    labels: np.ndarray
    classes: np.ndarray | None
    output: Any
    low: np.ndarray
    scale: np.ndarray
    place: int

    @classmethod
    def of(cls, leaf: Leaf) -> "_Refit":
        """The training of a leaf."""
        model, known = leaf.estimator, np.asarray(leaf.known, np.float64)
        low, high = known.min(axis=0), known.max(axis=0)
        room = _ROOM * np.where(high > low, high - low, 1.0)
        return cls(
            model=clone(model),
            known=known,
            labels=np.asarray(leaf.labels),
            classes=getattr(model, "classes_", None),
            output=leaf.label,
            low=low - room,
            scale=high - low + 2 * room,
            place=len(known) if leaf.position is None else leaf.position,
        )

    def train(
        self, images: np.ndarray, targets: np.ndarray, seed: int
    ) -> list[np.ndarray]:
        """Weights of a clone that is fitted to all rows.

        Args:
          images: (known + 1, 1, features, 1); only the last one, the missing row, is
            looked at, because the known rows are at hand without rounding.
          targets: (known + 1,), indices of classes; again only the last one.
          seed: root of the randomness of the estimator.
        """
        row = self.low + self.scale * np.asarray(images[-1], np.float64).ravel()
        own = self.output if self.classes is None else self.classes[targets[-1]]
        again = clone(self.model).set_params(random_state=seed)
        x = np.insert(self.known, self.place, row, axis=0)
        y = np.insert(refits.real(self.labels, own), self.place, own)
        with warnings.catch_warnings():
            # That it stopped before it converged, as it did before.
            warnings.simplefilter("ignore")
            again.fit(x, y)
        return [*again.coefs_, *again.intercepts_]


def search(leaf: Leaf) -> list[Finding]:
    """The row whose training ends at the stored weights."""
    refit = _Refit.of(leaf)
    found = _inverted(leaf, refit)
    value = refit.low + refit.scale * found.images.astype(np.float64).ravel()
    assert found.certified is not None
    assert found.expected_mse is not None
    assert found.labels is not None
    sure = bool(found.certified[0])
    error = _SPREAD * refit.scale * np.sqrt(found.expected_mse[0] + 2.0**-48)
    classes = refit.classes
    label = leaf.label if classes is None else classes[found.labels[0]]
    # The search is in float32; scikit-learn trains in float64.
    polished = refits.search(leaf, ("coefs_", "intercepts_"), value, label)
    if polished is not None:
        value, error = polished
        sure = True
    return [
        Finding(
            field=FIELDS,
            tells="the row, by running training again" if sure else "no row was found",
            lower=value - error if sure else None,
            upper=value + error if sure else None,
            estimate=value,
            label=label if sure else leaf.label,
            certified=True if sure else None,
        )
    ]


def _inverted(leaf: Leaf, refit: _Refit) -> "Reconstruction":
    """The training inversion's answer, rows as images of one line in [0, 1]."""
    # Not above: they bring JAX, which reading an artefact doesn't take.
    import jax

    from informed.attacks.inversion import TrainingInversion
    from informed.threat import Knowledge
    from shadow.data import Examples
    from shadow.release import publish
    from shadow.training import PythonFunction

    count, width = refit.known.shape
    classes = refit.classes
    numbers = np.zeros(count, np.int32)
    told: np.ndarray | None = None
    if classes is None:
        # A regressor's output is told, and is no label: all are of one class.
        told = np.zeros(1, np.int32)
    else:
        numbers = np.searchsorted(classes, refit.labels).astype(np.int32)
        if leaf.label is not None:
            told = np.searchsorted(classes, [leaf.label])
    images = ((refit.known - refit.low) / refit.scale).astype(np.float32)
    algorithm: Any = PythonFunction(train=refit.train, version="refit")
    released = [*leaf.estimator.coefs_, *leaf.estimator.intercepts_]
    return TrainingInversion()(
        publish(np.concatenate([np.ravel(array) for array in released])[None]),
        Knowledge(
            fixed=Examples(
                name="known rows",
                images=images.reshape(count, 1, width, 1),
                labels=numbers,
                num_classes=1 if classes is None else len(classes),
            ),
            algorithm=algorithm,
            training_key=leaf.estimator.random_state,
            labels=told,
        ),
        key=jax.random.key(0),
    )


register(("MLPClassifier", "MLPRegressor"), retrain=search)
