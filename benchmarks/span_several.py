"""Several missing rows read off one model: rows of `benchmarks.span`.

With k outputs or more every row has a direction of its own. With one output two rows
are mixed, and none is read.
"""

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from benchmarks.span_data import SEEDS, Draw, close, genotypes, table, texts
from informed.attacks import span
from informed.attacks.impossible import ReconstructionImpossibleError

# Classes of a trait, by its quantiles.
_CLASSES = 10


class Case(NamedTuple):
    """Training sets and models, and how many rows of each are missing.

    Attributes:
      outputs: classes that a trait is cut into; 0: the labels as they are.
    """

    data: str
    draw: Draw
    missing: int
    models: tuple[Any, ...]
    outputs: int = 0


def cases() -> Iterator[Case]:
    """All of them."""
    logistic, svc = LogisticRegression(), LinearSVC()
    both = (logistic, svc)
    for missing in (2, 5):
        rows = genotypes(400 + missing - 1, 2000)
        models: tuple[Any, ...] = both if missing == 2 else (logistic,)
        yield Case("genotypes", rows, missing, models, _CLASSES)
        public = texts(400 + missing - 1, public=True)
        yield Case("texts, public vocabulary", public, missing, models)
    onehots = table(201, mixed=False)
    yield Case("tables of one-hots", onehots, 2, (logistic,), _CLASSES)


def several(args: Any) -> Iterator[dict[str, Any]]:
    """One line a case and model; counts are of rows, `targets` of training sets."""
    for case in cases():
        for model in case.models:
            yield _measured(case, model, args)


def _measured(case: Case, estimator: Any, args: Any) -> dict[str, Any]:
    exact, certified, wrong, untouched, seconds = 0, 0, 0, 0, 0.0
    for target in range(args.targets):
        rng = np.random.default_rng(SEEDS * (args.seed + 1) + target)
        drawn = case.draw(rng)
        known, truth = drawn.rows[: -case.missing], drawn.rows[-case.missing :]
        truth = truth.toarray() if sparse.issparse(truth) else truth
        labels = drawn.labels
        if case.outputs:
            cuts = np.linspace(0, 1, case.outputs + 1)[1:-1]
            labels = np.digitize(labels, np.quantile(labels, cuts))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights = clone(estimator).fit(drawn.rows, labels).coef_
        started = time.monotonic()
        try:
            direction = span.read(weights, known)
        except ReconstructionImpossibleError:
            untouched += 1
            continue
        found = span.complete_all(direction, known)
        seconds = max(seconds, time.monotonic() - started)
        right = [any(close(one, row) for row in truth) for one in found]
        exact += sum(any(close(one, row) for one in found) for row in truth)
        certified += sum(one.certified for one in found)
        wrong += sum(
            one.certified and not ok for one, ok in zip(found, right, strict=True)
        )
    return {
        "model": type(estimator).__name__,
        "data": case.data,
        "known": known.shape[0],
        "dimensions": known.shape[1],
        "targets": args.targets,
        "untouched": untouched,
        "missing": case.missing,
        "exact": exact,
        "certified": certified,
        "wrong_certificates": wrong,
        "seconds": round(seconds, 2),
    }
