"""Ensembles whose members saw part of the rows: cross-validation and bootstraps.

Which rows a member saw depends on where the missing row stood, and on its label. Every
case that differs for the known rows is a hypothesis; the members' own certificates
decide between them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from artefacts import walk
from artefacts.registry import register
from artefacts.walk import Place, Unread


def calibrated(place: Place) -> Iterator[Place | Unread]:
    """CalibratedClassifierCV: each member is fitted to all folds but one."""
    model = place.leaf.estimator
    members = model.calibrated_classifiers_
    if len(members) == 1:
        yield from walk.leaves(
            walk.inside(place, members[0].estimator, "calibrated_classifiers_[0]")
        )
        return
    if place.leaf.labels is None or place.leaf.weights is not None:
        yield Unread(path=place.leaf.path, why="needs y_known, and no sample weights")
        return
    splitter = check_cv(model.cv, place.leaf.labels, classifier=True)
    if getattr(splitter, "shuffle", False) and not isinstance(
        splitter.random_state, int
    ):
        yield Unread(path=place.leaf.path, why="its folds were shuffled without a seed")
        return
    known = np.asarray(place.leaf.known)
    seen: dict[bytes, tuple[Any, list[np.ndarray], list[bool]]] = {}
    by_class = type(splitter).__name__ == "StratifiedKFold" and not splitter.shuffle
    for position, label in _cases(place, list(model.classes_), by_class):
        labels = np.insert(place.leaf.labels, position, label)
        rows = np.insert(known, position, known[0], axis=0)
        own, inside = [], []
        for train, _ in splitter.split(rows, labels):
            mask = np.isin(np.arange(len(labels)), train)
            inside.append(bool(mask[position]))
            own.append(np.delete(mask, position))
        seen.setdefault(np.array(own).tobytes(), (label, own, inside))
        if len(seen) > walk.MOST_HYPOTHESES:
            yield Unread(path=place.leaf.path, why="too many cases: tell position")
            return
    for number, (label, own, inside) in enumerate(seen.values()):
        for at, member in enumerate(members):
            if not inside[at]:
                continue
            yield from walk.leaves(
                walk.inside(
                    place,
                    member.estimator,
                    f"calibrated_classifiers_[{at}].estimator",
                    known=known[own[at]],
                    labels=place.leaf.labels[own[at]],
                    position=None,
                    label=label,
                    hypothesis=number,
                    group=place.leaf.path or type(model).__name__,
                )
            )


def _cases(
    place: Place, classes: list[Any], by_class: bool
) -> Iterator[tuple[int, Any]]:
    """Positions and labels that are possible."""
    told = place.leaf.position
    for label in classes if place.leaf.label is None else [place.leaf.label]:
        if told is not None:
            yield told, label
            continue
        if by_class:  # only its rank in its class counts
            assert place.leaf.labels is not None
            after = np.flatnonzero(place.leaf.labels == label) + 1
            yield from ((int(position), label) for position in (0, *after))
            continue
        yield from ((position, label) for position in range(len(place.leaf.known) + 1))


register("CalibratedClassifierCV", parts=calibrated)
