"""Trees, forests and boosting: what nodes, seeds and edges tell; what can go.

The attack itself is `artefacts.trees`. A forest is read twice: as it
is, and with nothing but what predictions need, which stripping can't take away.
"""

import copy
import time
from typing import Any

import numpy as np

from artefacts import trees
from artefacts.findings import Finding, Leaf, Removed
from artefacts.glm.closed_form import ReconstructionImpossibleError
from artefacts.trees import Determined
from artefacts.trees.fitted import BOOSTING, FORESTS, SINGLE
from artefacts.trees.histogram_boosting import SUPPORTED as HISTOGRAMS
from shadow.checks import FieldError

_TRIES = 16  # rows put back, where few are left
_COUNTS = ("n_node_samples", "weighted_n_node_samples", "impurity")
_LEFTOVERS = (  # what fit leaves behind and predictions don't need
    "_sample_weight",
    "_n_samples",
    "_n_samples_bootstrap",
    "oob_score_",
    "oob_decision_function_",
    "oob_prediction_",
    "oob_scores_",
    "oob_improvement_",
    "train_score_",
    "validation_score_",
    "_rng",
    "_random_seed",
    "_feature_subsample_rng",
)


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
        strip(bare)
        findings.append(_finding(leaf, bare, "tree_ (thresholds, leaves)", needed=True))
    return findings


def strip(estimator: Any) -> list[Removed]:
    """Take off what predictions don't need; in place.

    Thresholds, and what leaves predict, have to stay, and tell a part.
    """
    name = type(estimator).__name__
    removed = []
    if name in HISTOGRAMS:
        removed += _strip_histograms(estimator)
    else:
        parts = [estimator]
        if name not in SINGLE:
            parts = list(np.ravel(np.asarray(estimator.estimators_, object)))
        for part in parts:
            part.random_state = None
            _strip_tree(part.tree_)
        removed += [
            Removed(
                field="random_state of each tree",
                action="removed",
                helps=True,
                why="It is the seed of the tree's bootstrap: which rows it saw.",
            ),
            Removed(
                field="tree_.n_node_samples, weighted_n_node_samples, impurity",
                action="zeroed",
                helps=True,
                why="Counts minus the known rows' are the missing row's path.",
            ),
            Removed(
                field="tree_.threshold",
                action="kept: prediction needs it",
                helps=False,
                why="A midpoint of two training rows; of continuous columns it still"
                " tells values.",
            ),
        ]
    estimator.random_state = None
    gone = [field for field in _LEFTOVERS if field in vars(estimator)]
    for field in gone:
        delattr(estimator, field)
    if gone:
        removed.append(
            Removed(
                field=", ".join(gone),
                action="removed",
                helps=None,
                why="Left over from fit; predictions don't read it.",
            )
        )
    return removed


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
    started = time.monotonic()
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
        certified=told.certified,
        needed=needed,
        seconds=time.monotonic() - started,
        notes=told.notes,
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


def _strip_tree(tree: Any) -> None:
    """Zero what a tree's predictions don't need, inner nodes' values included."""
    state = tree.__getstate__()
    nodes, values = state["nodes"].copy(), state["values"].copy()
    for field in _COUNTS:
        nodes[field] = 0
    values[nodes["left_child"] >= 0] = 0
    tree.__setstate__(state | {"nodes": nodes, "values": values})


def _strip_histograms(estimator: Any) -> list[Removed]:
    """Edges of bins, and counts and gains of nodes."""
    for stage in estimator._predictors:
        for predictor in stage:
            nodes = predictor.nodes.copy()
            nodes["count"] = 0
            nodes["gain"] = 0
            nodes["value"][nodes["is_leaf"] == 0] = 0
            predictor.nodes = nodes
    mapper = estimator._bin_mapper
    categorical = np.asarray(mapper.is_categorical_, bool)
    mapper.bin_thresholds_ = [
        edges if kept else np.zeros(0)
        for edges, kept in zip(mapper.bin_thresholds_, categorical, strict=True)
    ]
    return [
        Removed(
            field="_bin_mapper.bin_thresholds_",
            action="removed",
            helps=True,
            why="Midpoints of all training values; predictions use nodes' own.",
        ),
        Removed(
            field="nodes: count, gain, values of inner nodes",
            action="zeroed",
            helps=True,
            why="Counts minus the known rows' are the missing row's path.",
        ),
        Removed(
            field="nodes: num_threshold; _baseline_prediction",
            action="kept: prediction needs it",
            helps=False,
            why="The baseline is the mean label; thresholds are edges of bins.",
        ),
    ]


READERS = dict.fromkeys((*SINGLE, *FORESTS, *BOOSTING, *HISTOGRAMS), read)
STRIPPERS = dict.fromkeys((*SINGLE, *FORESTS, *BOOSTING, *HISTOGRAMS), strip)
