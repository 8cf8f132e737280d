"""A fitted estimator as it is shipped: everything that it stores, not weights alone.

Scalers store means and counts, neighbours rows, forests seeds: most of what an
estimator of scikit-learn's gives away isn't in its coefficients. A pickle or skops file
holds all of it.

THREAT: knows D_-, in the units in which the estimator was fitted, and sees the fitted
estimator itself. Needs neither the training code nor its seed.
"""

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array

import artefacts
from informed.attacks.artefact_networks import reconstruct_sklearn
from informed.attacks.row import Material, NoSettings
from informed.threat import Knowledge, Reconstruction, require_told
from shadow import checks
from shadow.tables import Table

# Fields that are named on the page; more of them don't help anybody to decide.
_NAMED = 3


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ArtefactAttack:
    """Read the target out of each released estimator.

    Attributes:
      table: the table whose rows the records are; None: records are features as they
        are.
      position: where among the training records the unknown one is; None: not told.
      fields: stored fields that gave whole features away, one tuple a target that was
        read; grows while estimators are read, for the advice of `remedy`.
      stumbles: why an estimator could not be read, one line each; grows likewise.
    """

    table: Table | None = None
    position: int | None = None
    fields: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    stumbles: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def made(cls, config: NoSettings, material: Material) -> "ArtefactAttack":
        """As a row of the registry makes it."""
        return cls(table=material.table, position=material.position)

    def __call__(
        self, release: Sequence[Any], knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """See `each`."""
        return Reconstruction.joined(list(self.each(release, knowledge, key=key)))

    def each(
        self, release: Sequence[Any], knowledge: Knowledge, *, key: Array
    ) -> Iterator[Reconstruction]:
        """One target after the other.

        Args:
          release: the fitted estimators, one a target.
          knowledge: D_- (`fixed`) is needed.
        """
        del key
        require_told(knowledge, "fixed")
        assert knowledge.fixed is not None
        fixed = knowledge.fixed
        known = features(self.table, fixed.images)
        for estimator in release:
            yield self._read(estimator, known, fixed.labels, fixed.image_shape)

    def _read(
        self, estimator: Any, known: np.ndarray, labels: np.ndarray, shape: tuple
    ) -> Reconstruction:
        """What an estimator tells; the known rows' mean where it tells nothing.

        NaN where it could not be read: that is no attack that failed.
        """
        mean, label, certified = known.mean(axis=0), -1, False
        try:
            answer = reconstruct_sklearn(
                estimator, known, labels, position=self.position
            )
            why = _unread(answer)
        except ValueError as error:
            # Our own kinds of errors quote no value; others are left out of what is
            # redacted, by their names.
            ours = type(error) is not ValueError
            why = checks.first_line(error) if ours else checks.named(error)
        if why:
            self.stumbles.append(why.rstrip("."))
            image = np.full(shape, np.nan)
        else:
            value = np.asarray(answer.value, np.float64)
            with np.errstate(invalid="ignore"):  # an interval without ends
                middle = (answer.lower + answer.upper) / 2
            # What is determined; else the middle of its interval; else the mean.
            value = np.where(np.isfinite(value), value, middle)
            value = np.where(np.isfinite(value), value, mean)
            image = as_image(self.table, value, shape)
            if answer.y is not None and np.size(answer.y) == 1:
                label = int(np.ravel(answer.y)[0])
            certified = bool(answer.certified and answer.exact)
            told = zip(answer.sources, answer.determined, strict=True)
            self.fields.append(tuple(sorted({f for f, whole in told if f and whole})))
        return Reconstruction(
            images=image.astype(np.float32)[None],
            labels=np.array([label]),
            certified=np.array([certified]),
            trainings=np.array([1]),
        )

    @property
    def note(self) -> str:
        """How many estimators could not be read, and why not the first of them."""
        if not self.stumbles:
            return ""
        count, why = len(self.stumbles), self.stumbles[0]
        shown = count + len(self.fields)
        return f"{count} of {shown} estimators could not be read: {why}"

    @property
    def remedy(self) -> str:
        """Which stored fields gave records away, and what to ship instead; or ""."""
        count = collections.Counter(name for row in self.fields for name in row)
        if not count:
            return ""
        named = [name for name, _ in count.most_common(_NAMED)]
        more = f" and {len(count) - _NAMED} more" if len(count) > _NAMED else ""
        return (
            f"{', '.join(named)}{more} gave it away: informed.sanitise(model) takes off"
            " what predictions don't need, and names what stays and still tells"
        )


def _unread(answer: artefacts.Answer) -> str:
    """Why an answer says nothing of the row, although it is one; "": it says something.

    In an audit the known rows are all others: what finds none is a reader that takes
    the estimator for another one.
    """
    bounded = np.isfinite(answer.lower) | np.isfinite(answer.upper)
    if answer.determined.any() or bounded.any():
        return ""
    if answer.refuted:
        return f"no row explains {', '.join(answer.refuted)}"
    guessed = np.isfinite(np.asarray(answer.value, np.float64)).any()
    if answer.unread and not guessed:
        return f"nothing is read of {', '.join(answer.unread)}"
    return ""


def stripped(estimator: Any, known: np.ndarray) -> Any:
    """What is left if it is stripped."""
    return artefacts.sanitise(estimator, known, known=known).estimator


def features(table: Table | None, images: np.ndarray) -> np.ndarray:
    """Records of [0, 1] in the units in which the estimator was fitted, a row each."""
    rows = images if table is None else table.features(images, np)
    return np.asarray(rows).reshape(len(images), -1)


def as_image(table: Table | None, row: np.ndarray, shape: tuple) -> np.ndarray:
    """A row in the estimator's units as an image of [0, 1]."""
    if table is not None:
        row = table.scaled(row.reshape(1, -1))
    return row.reshape(shape)
