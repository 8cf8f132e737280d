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
from artefacts.findings import Leaf
from artefacts.inverse import Told

Back = Callable[[Told], Told]
Forward = Callable[[Any], Any]
LabelBack = Callable[[Any], Any]
# Cases of the missing row's place and label that are read; each takes all readers once.
# More are left to who can tell the position.
MOST_HYPOTHESES = 64


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """A leaf and the way back from it.

    Attributes:
      leaf: the estimator, and what its own `fit` received.
      back: carries what is told of the leaf's features to the whole's.
      columns: which features of the whole the leaf's features are, where they are as
        they came; None: they were transformed.
      label_back: from the leaf's label to the whole's; None where that can't be said.
      hypothesis: the number of the case that this leaf belongs to; leaves of one group
        and one hypothesis hold together. 0 where there are no cases.
      group: the path of the ensemble whose hypotheses these are; empty: none.
      before_model: whether the leaf is a step before the last of a pipeline.
      through: classes of the transformers on the way that carry nothing back.
      features: how many features the whole's input has.
      forward: from rows of the whole to rows as the leaf gets them.
      repeats: whether the known rows as the leaf got them can be computed: every step
        before it transforms as it did while it was fitted.
      words: the words that the leaf's features count; None: they count no words.
      reach: which features of the whole the leaf was fitted to, as they are or by way
        of steps before it; None: not known.
      elsewhere: whether the leaf may have been fitted before, to other rows: then only
        what it certifies is of these.
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
    words: np.ndarray | None = None
    reach: np.ndarray | None = None
    elsewhere: bool = False

    def carried(
        self, lower: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Bounds in the units of the whole; None: nothing comes back."""
        found = None if self.through else self.back(Told((lower, upper))).bounds
        return (None, None) if found is None else found


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Unread:
    """A part that nothing can be said of, and why.

    Attributes:
      path: where the part lies in the whole.
      why: the reason, as the rest of a sentence that begins with the path.
    """

    path: str
    why: str


def _same(told: Any) -> Any:
    return told


def root(leaf: Leaf, features: int) -> Site:
    """The whole estimator as a site."""
    return Site(
        leaf=leaf,
        back=_same,
        columns=np.arange(features),
        reach=np.arange(features),
        label_back=_same,
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
    kinds = (
        registry.kind_of(each.__name__) for each in type(site.leaf.estimator).__mro__
    )
    parts = next((kind.parts for kind in kinds if kind.parts is not None), None)
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
      site: the outer estimator's site.
      estimator: the inner estimator.
      name: the inner estimator's name in the outer one.
      known: the known rows as the inner estimator's `fit` received them; None: as the
        outer one's.
      back: carries what is told of the inner one's features to the outer one's; None:
        they are the same.
      columns: which features of the whole the inner one's features are; None: those
        that the outer one's are.
      moved: whether the inner one's features are no features of the whole.
      step: from rows of the outer one to those of the inner one; None: they are the
        same.
      changes: other attributes of the site, or labels, weights, target_weight, position
        and label of its leaf.
    """
    path = f"{site.leaf.path}.{name}" if site.leaf.path else name
    leaf_changes: dict[str, Any] = {
        key: changes.pop(key)
        for key in ("labels", "weights", "target_weight", "position", "label")
        if key in changes
    }
    if known is not None or moved:
        # In other columns or units the values that columns can take are others.
        leaf_changes["attainable"] = None
    outer = site.back
    composed = outer if back is None else lambda told: outer(back(told))
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
