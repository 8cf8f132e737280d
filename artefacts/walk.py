"""From an estimator to its leaves: what each was fitted to, and the way back.

A part of a pipeline or of an ensemble was fitted to something that can be computed from
the known rows: the output of the fitted steps before it, the columns it takes, labels
made 0 and 1, the folds of a cross-validation. A `Site` is such a leaf with the way
back from its units to those of the whole.

Folds, and bootstraps, depend on where the missing row stood and on its label. Where
these aren't told, each case is a *hypothesis*; those that differ in nothing are one.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from artefacts import registry
from artefacts.findings import Box, Leaf

Back = Callable[[Box], Box | None]
Forward = Callable[[Any], Any]
LabelBack = Callable[[Any], Any]
MOST_HYPOTHESES = 64


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """A leaf and the way back from it.

    Attributes:
      leaf: the estimator and its inputs.
      back: bounds in the leaf's units -> in the whole's.
      columns: which features of the whole the leaf's features are, where they are as
        they came; None: they were transformed.
      label_back: the leaf's label -> the whole's; None where that can't be said.
      hypothesis: 0 where there are none; else leaves of one group and one hypothesis
        hold together.
      group: the estimator whose hypotheses these are.
      before_model: whether it is a step before the last of a pipeline.
      through: transformers on the way that carry nothing back.
      features: of the whole.
      forward: rows of the whole -> rows of the leaf.
      repeats: whether the known rows as the leaf got them can be computed: every step
        before it transforms as it did while it was fitted.
    """

    leaf: Leaf
    back: Back
    columns: np.ndarray | None
    label_back: LabelBack
    hypothesis: int = 0
    group: str = ""
    before_model: bool = False
    through: tuple[str, ...] = ()
    features: int = 0
    forward: Forward = lambda rows: rows
    repeats: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Unread:
    """A part that nothing can be said of, and why.

    Attributes:
      path: where it lies.
      why: as the rest of a sentence.
    """

    path: str
    why: str


def _same(bounds: Box) -> Box:
    return bounds


def _same_label(label: Any) -> Any:
    return label


def root(leaf: Leaf, features: int) -> Site:
    """The whole estimator as a site."""
    return Site(
        leaf=leaf,
        back=_same,
        columns=np.arange(features),
        label_back=_same_label,
        features=features,
        forward=functools.partial(_like, leaf.known),
    )


def _like(known: Any, rows: np.ndarray) -> Any:
    """Rows as a data frame where the known ones are."""
    if not hasattr(known, "columns"):
        return rows
    return type(known)(rows, columns=known.columns)


def leaves(site: Site) -> Iterator["Site | Unread"]:
    """All leaves under a site, in the order of the fit."""
    parts = registry.kind_of(type(site.leaf.estimator).__name__).parts
    if parts is None:
        yield site
        return
    yield from parts(site)


def inside(
    site: Site,
    estimator: Any,
    name: str,
    *,
    known: Any = None,
    back: Back | None = None,
    columns: np.ndarray | None = None,
    moved: bool = False,
    step: Forward | None = None,
    **changes: Any,
) -> Site:
    """A site below another.

    Args:
      site: the outer one.
      estimator: the inner one.
      name: its name in the outer one.
      known: what it was fitted to; None: the same.
      back: bounds in its units -> in the outer one's; None: the same.
      columns: which of the whole's features its features are; None: as the outer's.
      moved: whether its features are no features of the whole.
      step: rows of the outer one -> its own; None: the same.
      changes: of the site, or of labels, weights, target_weight, position, label.
    """
    path = f"{site.leaf.path}.{name}" if site.leaf.path else name
    leaf_changes: dict[str, Any] = {
        key: changes.pop(key)
        for key in ("labels", "weights", "target_weight", "position", "label")
        if key in changes
    }
    if known is not None or moved:  # in other columns or units
        leaf_changes["attainable"] = None
    outer = site.back

    def composed(bounds: Box) -> Box | None:
        inner = bounds if back is None else back(bounds)
        return None if inner is None else outer(inner)

    if step is not None:
        earlier = site.forward
        changes["forward"] = lambda rows: step(earlier(rows))
    if moved:
        columns = None
    elif columns is None:
        columns = site.columns
    leaf = dataclasses.replace(
        site.leaf,
        estimator=estimator,
        known=site.leaf.known if known is None else known,
        path=path,
        **leaf_changes,
    )
    return dataclasses.replace(
        site, leaf=leaf, back=composed, columns=columns, **changes
    )


def dense(rows: Any) -> Any:
    """Sparse output as an array."""
    return rows.toarray() if hasattr(rows, "toarray") else rows


def width(rows: Any) -> int:
    """Columns; 0 where rows are texts."""
    return int(rows.shape[1]) if getattr(rows, "ndim", 1) == 2 else 0
