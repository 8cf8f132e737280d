"""Ensembles whose members saw part of the rows: cross-validation and bootstraps.

Which rows a member saw depends on where the missing row stood, and on its label. Every
case that differs for the known rows is a hypothesis; the members' own certificates
decide between them.
"""

import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from artefacts import walk
from artefacts.registry import register
from artefacts.walk import Site, Unread


def calibrated(site: Site) -> Iterator[Site | Unread]:
    """CalibratedClassifierCV: each member is fitted to all folds but one."""
    model = site.leaf.estimator
    members = model.calibrated_classifiers_
    if any(
        hasattr(each, "X_thresholds_")
        for member in members
        for each in member.calibrators
    ):
        path = f"{site.leaf.path}.calibrators" if site.leaf.path else "calibrators"
        yield Unread(path=path, why="they hold scores of training rows")
    if len(members) == 1 and _of_all_rows(model):
        yield from walk.leaves(
            walk.inside(site, members[0].estimator, "calibrated_classifiers_[0]")
        )
        return
    if len(members) == 1:
        yield Unread(path=site.leaf.path, why="it was fitted to a part of the rows")
        return
    if site.leaf.labels is None or site.leaf.weights is not None:
        yield Unread(path=site.leaf.path, why="needs y_known, and no sample weights")
        return
    splitter = check_cv(model.cv, site.leaf.labels, classifier=True)
    if getattr(splitter, "shuffle", False) and not isinstance(
        splitter.random_state, numbers.Integral
    ):
        yield Unread(path=site.leaf.path, why="its folds were shuffled without a seed")
        return
    # Rows may be sparse, or a data frame; a splitter looks at their number alone.
    known, blank = site.leaf.known, np.zeros((len(site.leaf.labels) + 1, 1))
    seen: dict[bytes, tuple[Any, list[np.ndarray], list[bool]]] = {}
    by_class = type(splitter).__name__ == "StratifiedKFold" and not splitter.shuffle
    for position, label in _cases(site, list(model.classes_), by_class):
        labels = np.insert(site.leaf.labels, position, label)
        own, inside = [], []
        for train, _ in splitter.split(blank, labels):
            mask = np.isin(np.arange(len(labels)), train)
            inside.append(bool(mask[position]))
            own.append(np.delete(mask, position))
        seen.setdefault(np.array(own).tobytes(), (label, own, inside))
        if len(seen) > walk.MOST_HYPOTHESES:
            yield Unread(path=site.leaf.path, why="too many cases: tell position")
            return
    for number, (label, own, inside) in enumerate(seen.values()):
        for at, member in enumerate(members):
            if not inside[at]:
                continue
            yield from walk.leaves(
                walk.inside(
                    site,
                    member.estimator,
                    f"calibrated_classifiers_[{at}].estimator",
                    known=_safe_indexing(known, own[at]),
                    labels=site.leaf.labels[own[at]],
                    position=None,
                    label=label,
                    hypothesis=number,
                    group=site.leaf.path or type(model).__name__,
                )
            )


def _cases(site: Site, classes: list[Any], by_class: bool) -> Iterator[tuple[int, Any]]:
    """Positions and labels that are possible."""
    told = site.leaf.position
    for label in classes if site.leaf.label is None else [site.leaf.label]:
        if told is not None:
            yield told, label
            continue
        if by_class:
            # Folds are dealt out class by class: only the rank in its class counts.
            assert site.leaf.labels is not None
            after = np.flatnonzero(site.leaf.labels == label) + 1
            yield from ((int(position), label) for position in (0, *after))
            continue
        assert site.leaf.labels is not None
        yield from ((position, label) for position in range(len(site.leaf.labels) + 1))


def _of_all_rows(model: Any) -> bool:
    """Whether the one member was fitted to all rows, or handed in fitted."""
    frozen = type(model.estimator).__name__ == "FrozenEstimator"
    return frozen or model.ensemble is False or model.cv == "prefit"


register("CalibratedClassifierCV", parts=calibrated)
