"""A missing row read out of fitted forests, one JSON line a data set.

    python -m benchmarks.forests [--targets 50] [--sets compas,adult,...] [--out FILE]

DRAFT's three binary tables (Ferry et al. 2024; tests/data/draft, MIT): 100 trees, 100
rows drawn anew for each target, bagged, no random_state given, one row unknown and its
position too. Columns are known to be 0 or 1, as DRAFT knows. `draft_targets` are
DRAFT's own five of its experiment with 99 of 100 rows known, drawn as it draws them;
`draft_error` and `draft_seconds` are what its repository holds for these. Its published
runs had neither seeds nor counts of draws, so compare with "without_seeds"; there a
column that isn't determined is guessed by the known rows' majority, since DRAFT always
answers. Continuous sets: all rows, default settings, nothing known of the columns
(`--estimator` for others than random forests).

For each of "with_seeds", "paths_alone" (no trees fitted again), "without_seeds",
"thresholds_alone" (counts, weights and impurities gone too): determined, the share of
all columns; wrong, columns told wrongly or outside the bounds; rows, whole rows
determined; labels, told (all right, or counted as wrong); error, with guesses; seconds
of the processor and of the clock, mean, and the clock's worst.
"""

import argparse
import copy
import csv
import functools
import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets, ensemble, tree
from sklearn.ensemble import RandomForestClassifier

from artefacts.trees import Determined, replay

# Name -> DRAFT's five errors and five times in seconds, as its repository holds them
# (results_partial_examples, 0.99).
DRAFT = {
    "compas": ((0.0, 0.0, 0.429, 0.0, 0.0), (1537, 280, 7360, 2852, 253)),
    "adult": ((0.0, 0.0, 0.105, 0.474, 0.0), (201, 223, 305, 7399, 156)),
    "default_credit": ((0.429, 0.0, 0.095, 0.0, 0.0), (7424, 231, 212, 359, 218)),
}
CONTINUOUS = ("diabetes", "breast_cancer", "wine", "digits")
FOLDER = Path(__file__).parent.parent / "tests" / "data" / "draft"
# Name -> classifier, regressor.
ESTIMATORS: dict[str, tuple[Any, Any]] = {
    "random_forest": (RandomForestClassifier, ensemble.RandomForestRegressor),
    "extra_trees": (ensemble.ExtraTreesClassifier, ensemble.ExtraTreesRegressor),
    "tree": (tree.DecisionTreeClassifier, tree.DecisionTreeRegressor),
    "boosting": (
        ensemble.GradientBoostingClassifier,
        ensemble.GradientBoostingRegressor,
    ),
    "histogram": (
        ensemble.HistGradientBoostingClassifier,
        ensemble.HistGradientBoostingRegressor,
    ),
}
MODES = ("with_seeds", "paths_alone", "without_seeds", "thresholds_alone")


def draft(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(rows of 0 and 1, labels) of one of DRAFT's tables."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt") as file:
        lines = list(csv.reader(file))
    table = np.array(lines[1:], np.float64)
    return table[:, :-1], table[:, -1].astype(int)


def without_seeds(forest: Any, *, counts: bool = True) -> Any:
    """A copy without seeds; without counts, weights and impurities if told so.

    It predicts what the forest does.
    """
    bare = copy.deepcopy(forest)
    bare.random_state = None
    for part in bare.estimators_:
        part.random_state = None
        if not counts:
            state = part.tree_.__getstate__()
            nodes = state["nodes"].copy()
            for field in ("n_node_samples", "weighted_n_node_samples", "impurity"):
                nodes[field] = 0
            part.tree_.__setstate__(state | {"nodes": nodes})
    return bare


# Rows, labels, the missing row's index, the forest.
Case = tuple[np.ndarray, np.ndarray, int, Any]


def draft_problems(name: str, targets: int, seed: int) -> Iterator[Case]:
    """100 rows drawn anew for each target."""
    X, y = draft(name)
    generator = np.random.default_rng(seed)
    for _ in range(targets):
        chosen = generator.choice(len(X), 100, replace=False)
        forest = RandomForestClassifier(n_estimators=100)
        missing = int(generator.integers(100))
        yield X[chosen], y[chosen], missing, forest.fit(X[chosen], y[chosen])


def draft_own(name: str) -> Iterator[Case]:
    """DRAFT's five: 500 rows drawn as pandas does, the first 100, the last missing."""
    X, y = draft(name)
    for seed in range(5):
        generator = np.random.RandomState(seed)
        chosen = generator.choice(len(X), 500, replace=False)[:100]
        forest = RandomForestClassifier(n_estimators=100, random_state=seed)
        yield X[chosen], y[chosen], 99, forest.fit(X[chosen], y[chosen])


def continuous_problems(
    name: str, targets: int, seed: int, estimator: str = "random_forest"
) -> Iterator[Case]:
    """All rows of a set of scikit-learn's; an estimator anew for each target."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    made = ESTIMATORS[estimator][name == "diabetes"]
    generator = np.random.default_rng(seed)
    for missing in generator.choice(len(X), targets, replace=False):
        yield X, y, int(missing), made().fit(X, y)


def guesses(told: Determined, known: np.ndarray) -> np.ndarray:
    """What is told, and the known rows' most frequent value within the bounds."""
    row = told.value.copy()
    for feature in np.flatnonzero(~told.determined):
        column = known[:, feature]
        inside = (column >= told.lower[feature]) & (column <= told.upper[feature])
        values, counts = np.unique(
            column[inside] if inside.any() else column, return_counts=True
        )
        row[feature] = values[np.argmax(counts)]
    return row


def attacked(problem: Case, mode: str, binary: bool) -> dict[str, float]:
    """One target: what was told of it, and whether that is right."""
    X, y, missing, forest = problem
    bare = mode in ("without_seeds", "thresholds_alone")
    shown = without_seeds(forest, counts=mode != "thresholds_alone") if bare else forest
    known, labels = np.delete(X, missing, 0), np.delete(y, missing)
    start, cpu = time.perf_counter(), time.process_time()
    told = replay(
        shown,
        known,
        labels,
        attainable=[np.array([0.0, 1.0])] * X.shape[1] if binary else None,
        certify=mode == "with_seeds",
    )
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    row = X[missing]
    # Histogram boosting compares float64: what it tells is right up to rounding.
    same = told.value.astype(np.float32) == row.astype(np.float32)
    wrong = (~same & told.determined) | (row < told.lower) | (row > told.upper)
    finite = np.isfinite(told.lower) & np.isfinite(told.upper) & ~told.determined
    label_wrong = told.label is not None and abs(told.label - y[missing]) > 1e-9 * (
        1 + abs(y[missing])
    )
    return {
        "determined": float(told.determined.mean()),
        "bounded": float(finite.mean()),
        "wrong": int(wrong.sum()) + int(label_wrong),
        "rows": int(told.determined.all()),
        "labels": int(told.label is not None),
        "placed": int(told.positions.tolist() == [missing]),
        "certified": int(told.certified is True),
        "error": float((guesses(told, known) != row).mean()) if binary else np.nan,
        "seconds": seconds,
        "cpu": cpu,
    }


def summary(outcomes: list[dict[str, float]]) -> dict[str, float]:
    """Means, sums and the worst time over targets."""
    table = {name: np.array([each[name] for each in outcomes]) for name in outcomes[0]}
    made: dict[str, float] = {
        "targets": len(outcomes),
        "determined": round(float(table["determined"].mean()), 4),
        "bounded_both_sides": round(float(table["bounded"].mean()), 4),
    }
    for name in ("wrong", "rows", "labels", "placed", "certified"):
        made[name] = int(table[name].sum())
    if np.isfinite(table["error"]).all():
        made["error"] = round(float(table["error"].mean()), 4)
    made["cpu_seconds"] = round(float(table["cpu"].mean()), 3)
    made["seconds"] = round(float(table["seconds"].mean()), 3)
    made["seconds_worst"] = round(float(table["seconds"].max()), 3)
    return made


def measure(
    problems: Callable[[], Iterator[Case]],
    binary: bool,
    modes: tuple[str, ...] = MODES,
) -> dict[str, Any]:
    """All modes on the same forests."""
    outcomes: dict[str, list[dict[str, float]]] = {mode: [] for mode in modes}
    for problem in problems():
        for mode in modes:
            outcomes[mode].append(attacked(problem, mode, binary))
    return {mode: summary(each) for mode, each in outcomes.items()}


def _problems(
    name: str, targets: int, seed: int, estimator: str
) -> Callable[[], Iterator[Case]]:
    """Of a set by name."""
    if name in DRAFT:
        return lambda: draft_problems(name, targets, seed)
    return lambda: continuous_problems(name, targets, seed, estimator)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--sets", default=",".join((*DRAFT, *CONTINUOUS)))
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument(
        "--estimator", default="random_forest", choices=ESTIMATORS, help="not of DRAFT"
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    for name in arguments.sets.split(","):
        result: dict[str, Any] = {"set": name}
        binary = name in DRAFT
        targets = arguments.targets if binary else min(arguments.targets, 20)
        kind = "random_forest" if binary else arguments.estimator
        forest = kind == "random_forest"
        result |= {"estimator": kind} | measure(
            _problems(name, targets, arguments.seed, kind),
            binary,
            MODES if forest else MODES[:1],
        )
        if binary:
            result["draft_targets"] = measure(functools.partial(draft_own, name), True)
            result["draft_error"], result["draft_seconds"] = DRAFT[name]
        line = json.dumps(result)
        print(line, flush=True)
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
