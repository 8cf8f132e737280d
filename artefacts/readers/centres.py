"""KMeans: a centre is the mean of its cluster, if training went on until it was.

Where rows no longer change their cluster, every centre is the mean of its rows: one
centre isn't the mean of its known rows, and the rest of it is the missing row. If more
than one differ, training stopped at its tolerance, or the known rows are other ones;
which of the two nothing that is stored can say. `inertia_` still can say how far the
missing row is from its centre, and that it is the centre where it is alone.
"""

import dataclasses

import numpy as np

from artefacts.findings import (
    EPS,
    EPS32,
    Finding,
    Leaf,
    around,
    refuted,
    single_precision,
    spread,
    two_valued,
)
from artefacts.readers.moments import check_count, from_mean
from artefacts.registry import register

_FIELD = "cluster_centers_"
# Of a squared distance: if two centres are as far from a row but for this, rounding
# decided which cluster the row is in.
_TIE = 1e-9


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Clusters:
    """What is stored, beside what the known rows make of it.

    Attributes:
      known: (known, features), the known rows.
      centres: (clusters, features), the stored centres.
      groups: (known,), the index of the centre that each known row is nearest to.
      tied: whether some known row is as near to a second centre, up to rounding.
      extra: (clusters,), how many rows of each cluster aren't known, by `labels_`;
        None: they aren't stored.
      slack: (features,), how much rounding may change a centre.
      squares: the squared distance of the missing row from its centre, by `inertia_`;
        None: it isn't stored.
      room: how much rounding may change `squares`.
    """

    known: np.ndarray
    centres: np.ndarray
    groups: np.ndarray
    tied: bool
    extra: np.ndarray | None
    slack: np.ndarray
    squares: float | None
    room: float


def read(leaf: Leaf) -> list[Finding]:
    """The row, from the one centre that isn't its known rows' mean; or its distance."""
    told = _compared(leaf)
    extra = told.extra
    # One cluster has one row more, and the others have none.
    one = [0] * (len(told.centres) - 1) + [1]
    if extra is not None and not told.tied and sorted(extra) != one:
        return [refuted("labels_")]
    if told.squares is not None and told.squares < -100 * told.room:
        return [refuted("inertia_")]
    wrong = _moved(leaf, told)
    alone = _alone(leaf, told)
    if alone is not None:
        return [alone]
    if len(told.centres) < 2 or len(wrong) != 1:
        return [_unsettled(told, len(wrong))]
    return [_from_centre(leaf, told, wrong[0])]


def _compared(leaf: Leaf) -> _Clusters:
    """The stored centres, counts and inertia, beside the known rows.

    Raises: OtherRowsError: `labels_` are of another number of rows.
    """
    model = leaf.estimator
    known = np.asarray(leaf.known, np.float64)
    centres = np.asarray(model.cluster_centers_, np.float64)
    squares = np.stack([((known - c) ** 2).sum(axis=1) for c in centres], axis=1)
    groups = squares.argmin(axis=1)
    near = np.sort(squares, axis=1)
    single = model.cluster_centers_.dtype == np.float32 or single_precision(known)
    eps = EPS32 if single else EPS
    size = np.maximum(np.abs(known).max(axis=0), np.abs(centres).max(axis=0))
    # Training moves the origin to the mean row: each number is rounded once.
    digits = 64 * eps * float(size.max())
    tied = False
    if len(centres) > 1:
        gap = near[:, 1] - near[:, 0]
        room = _TIE * near[:, 1] + 2 * digits * np.sqrt(near[:, 1] * known.shape[1])
        tied = bool(np.any(gap <= room))
    extra = None
    labels = getattr(model, "labels_", None)
    if labels is not None:
        check_count(leaf, len(labels), field="labels_")
        clusters = len(centres)
        extra = np.bincount(labels, minlength=clusters)
        extra = extra - np.bincount(groups, minlength=clusters)
    inertia = getattr(model, "inertia_", None)
    left, room = None, 0.0
    if inertia is not None:
        left = float(inertia) - float(leaf.sample_weights @ near[:, 0])
        left /= leaf.target_weight
        lengths = float(np.sqrt(near[:, 0]).sum()) + np.sqrt(abs(left))
        room = leaf.count * 8 * eps * float(inertia)
        room += 2 * digits * np.sqrt(known.shape[1]) * lengths
    return _Clusters(
        known=known,
        centres=centres,
        groups=groups,
        tied=tied,
        extra=extra,
        slack=1e-9 * spread(known) + leaf.count * eps * size,
        squares=left,
        room=room,
    )


def _moved(leaf: Leaf, told: _Clusters) -> list[int]:
    """Clusters whose centre isn't the mean of their known rows."""
    moved = []
    for k, centre in enumerate(told.centres):
        inside = told.groups == k
        own = leaf.sample_weights[inside]
        if not own.sum() > 0:
            moved.append(k)
            continue
        mean = own @ told.known[inside] / own.sum()
        if not np.all(np.abs(mean - centre) <= told.slack):
            moved.append(k)
    return moved


def _alone(leaf: Leaf, told: _Clusters) -> Finding | None:
    """The row, where `inertia_` says that it is the centre of a cluster of its own."""
    empty = np.setdiff1d(np.arange(len(told.centres)), told.groups)
    if len(empty) != 1 or told.squares is None or abs(told.squares) > told.room:
        return None
    k = int(empty[0])
    if told.extra is not None and told.extra[k] != 1:
        return None
    # A cluster that had lost a row would lie a part of its distance away.
    others = np.delete(told.centres, k, axis=0)
    nearest = float(((others - told.centres[k]) ** 2).sum(axis=1).min())
    if nearest <= 1e6 * leaf.count**2 * max(told.room, np.finfo(float).tiny):
        return None
    return Finding(
        field=f"{_FIELD}, inertia_",
        tells="a cluster without known rows, at no distance from its row: its centre"
        " is the missing row",
        certified=True,
        **around(told.centres[k], _of_centre(leaf, told)),
    )


def _of_centre(leaf: Leaf, told: _Clusters) -> np.ndarray:
    """What moving the origin to the mean row and back changes of a centre."""
    size = np.maximum(np.abs(told.known).max(axis=0), np.abs(told.centres).max(axis=0))
    single = leaf.estimator.cluster_centers_.dtype == np.float32
    return 20 * (EPS32 if single else EPS) * leaf.count * size


def _unsettled(told: _Clusters, wrong: int) -> Finding:
    """More centres moved than one row explains: how far the row is from its centre."""
    tells = (
        f"{wrong} centres are not the means of their known rows: training stopped"
        " before they were, or the known rows are other ones"
    )
    if told.extra is None or told.squares is None or told.tied:
        return Finding(field=_FIELD, tells=tells)
    k = int(np.argmax(told.extra))
    radius = np.sqrt(max(told.squares, 0.0) + told.room)
    return Finding(
        field=f"{_FIELD}, labels_, inertia_",
        tells=f"{tells}; how far the missing row is from its centre",
        **around(told.centres[k], radius + told.slack),
    )


def _from_centre(leaf: Leaf, told: _Clusters, k: int) -> Finding:
    """The row that one centre leaves; no known row has changed its cluster then."""
    inside = told.groups == k
    own = leaf.sample_weights[inside]
    centre = leaf.estimator.cluster_centers_[k]
    row, error = from_mean(leaf, centre, told.known[inside], own, leaf.target_weight)
    error = error + _of_centre(leaf, told)
    squares = ((row - told.centres) ** 2).sum(axis=1)
    last = int(squares.argmin())
    near = squares <= squares[last] * (1 + _TIE) + told.room
    # The missing row itself may have changed its cluster after the last means.
    if told.extra is not None and not told.tied and not near[told.extra.argmax()]:
        return refuted("labels_")
    sure = None
    if told.squares is not None:
        size = float(squares[last])
        room = told.room + 2 * float(np.sqrt(size) * np.linalg.norm(error))
        off = abs(size - told.squares)
        # The known rows' own share of the inertia must be told more closely than one
        # other row would change it.
        total = float(leaf.estimator.inertia_) / leaf.count
        silent = two_valued(told.known, row).all()
        if off <= room and room <= 1e-3 * total and not silent:
            sure = True
        elif off > max(100 * room, 1e-6 * total) and not told.tied:
            return refuted("inertia_")
    return Finding(
        field=_FIELD,
        tells="one centre is not the mean of its known rows: the rest is the missing"
        " row's",
        certified=sure,
        **around(row, error),
    )


register("KMeans", read)
