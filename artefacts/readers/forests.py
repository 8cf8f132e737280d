"""Trees, forests and boosting: what nodes, seeds and edges tell; what can go.

The attack itself is `artefacts.trees`. A forest is read twice: as it
is, and with nothing but what predictions need, which stripping can't take away.
"""

import copy
from typing import Any

import numpy as np

from artefacts import strip, trees
from artefacts.findings import Finding, Leaf, ReconstructionImpossibleError
from artefacts.registry import register
from artefacts.trees import Determined
from artefacts.trees.fitted import BOOSTING, FORESTS, SINGLE
from artefacts.trees.histogram_boosting import SUPPORTED as HISTOGRAMS
from shadow.checks import FieldError

_AGAIN = (
    "The trees come out again with the row put back; other known rows may do it too."
)
# How many rows are put back and fitted again, where so few are left that all can be
# tried.
_TRIES = 16


def read(leaf: Leaf) -> list[Finding]:
    """What a tree, forest or boosting tells of the missing row.

    Raises: ReconstructionImpossibleError: this one isn't replayed; says why.
    """
    name = type(leaf.estimator).__name__
    if leaf.labels is None:
        raise ReconstructionImpossibleError(f"{name} needs the known rows' labels.")
    findings = [
        _finding(leaf, leaf.estimator, _field(name), needed=name not in FORESTS)
    ]
    if name in FORESTS and findings[0].certified is not False:
        bare = copy.deepcopy(leaf.estimator)
        strip.strip(bare)
        findings.append(_finding(leaf, bare, "tree_ (thresholds, leaves)", needed=True))
    return findings


def _field(name: str) -> str:
    if name in HISTOGRAMS:
        return "_bin_mapper.bin_thresholds_, counts of nodes"
    if name in FORESTS:
        return "random_state of each tree, tree_.n_node_samples, tree_.threshold"
    return "tree_.n_node_samples, tree_.threshold"


def _finding(leaf: Leaf, estimator: Any, field: str, *, needed: bool) -> Finding:
    """One reading of the leaf.

    Raises: ReconstructionImpossibleError: it can't be read.
    """
    try:
        told = trees.replay(
            estimator,
            leaf.known,
            np.asarray(leaf.labels),
            position=leaf.position,
            label=leaf.label,
            weights=leaf.weights,
            target_weight=leaf.target_weight,
            attainable=leaf.attainable,
            tries=_TRIES,
        )
    except FieldError as error:
        raise ReconstructionImpossibleError(str(error)) from error
    return Finding(
        field=field,
        tells=_sentence(told),
        lower=told.lower,
        upper=told.upper,
        estimate=told.value,
        determined=told.determined,
        label=told.label,
        # That the trees come out again confirms the row, not the known ones: where one
        # of these is a copy of another, 31 of 40 trees (wine) come out again as well.
        certified=False if told.certified is False else None,
        needed=needed,
        notes=(*told.notes, *([_AGAIN] if told.certified else ())),
    )


def _sentence(told: Determined) -> str:
    """For the page's table."""
    if not told.replays:
        return "No missing row explains these trees with the known rows."
    width = len(told.determined)
    bounded = (np.isfinite(told.lower) | np.isfinite(told.upper)).sum()
    return (
        f"{int(told.determined.sum())} of {width} values, bounds of {int(bounded)}"
        f"{'' if told.label is None else ', the label'}."
    )


register((*SINGLE, *FORESTS, *BOOSTING, *HISTOGRAMS), read)
