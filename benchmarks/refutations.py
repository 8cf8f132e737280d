"""Right known rows are never refuted; one wrong known row is never certified.

    python -m benchmarks.refutations [--seeds 20] [--first 0] [--only NAME ...]

Every case is fitted anew for each seed, on data drawn with it, and the row at a drawn
place is the one that is not known; its place isn't told. One JSON line:

right      estimators that converge loosely, whose rounding is coarse, that draw
           numbers, or whose missing row is far out or lacks a value; all other rows are
           known. refuted: of the seeds: some field "fits no row". certified: confirmed.
           wrong_certificates: confirmed, with a value that is determined and off by
           more than 1e-6 of the column's spread, a missing value among them, or an
           interval that leaves the row out. wrong_values: the same, confirmed or not
wrong      one known row is another one: a copy of its neighbour in the table, or moved
           by a spread in every feature. certified: of the seeds: confirmed all the
           same. refuted: some field "fits no row"; seldom is as it should be
refuted, wrong_certificates, wrong_values    over all cases of "right"
certified                                    over all cases of "wrong"
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import (
    calibration,
    cluster,
    covariance,
    decomposition,
    discriminant_analysis,
    ensemble,
    gaussian_process,
    kernel_ridge,
    linear_model,
    manifold,
    mixture,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

import informed
from artefacts.glm import ReconstructionImpossibleError

LM, PP, NB = linear_model, preprocessing, naive_bayes
Table = tuple[np.ndarray, np.ndarray]
Case = tuple[Callable[[], Any], Callable[[np.random.Generator, int], Table]]
chain = pipeline.make_pipeline
ROWS = 80


def blobs(rng: np.random.Generator, target: int) -> Table:
    """Three clouds that overlap, with labels."""
    labels = rng.integers(0, 3, ROWS)
    centres = rng.normal(size=(3, 4)) * 1.5
    return centres[labels] + rng.normal(size=(ROWS, 4)), labels


def far(times: float) -> Callable[[np.random.Generator, int], Table]:
    """The missing row so many times as far out."""

    def table(rng: np.random.Generator, target: int) -> Table:
        x, y = blobs(rng, target)
        x[target] *= times
        return x, y

    return table


def hole(rng: np.random.Generator, target: int) -> Table:
    """The missing row lacks one value."""
    x, y = blobs(rng, target)
    x[target, rng.integers(4)] = np.nan
    return x, y


def high(mean: float, spread: float) -> Callable[[np.random.Generator, int], Table]:
    """Numbers that agree in their first digits, and real outputs."""

    def table(rng: np.random.Generator, target: int) -> Table:
        x = mean + spread * rng.normal(size=(ROWS, 4))
        return x, (x - mean) @ rng.normal(size=4) + rng.normal(size=ROWS)

    return table


def real(rng: np.random.Generator, target: int) -> Table:
    """Real outputs."""
    x, _ = blobs(rng, target)
    return x, x @ rng.normal(size=4) + rng.normal(size=ROWS)


def classes_high(rng: np.random.Generator, target: int) -> Table:
    """Classes of numbers that agree in their first nine digits."""
    x, y = blobs(rng, target)
    return 1e6 + 1e-3 * x, y


def single(rng: np.random.Generator, target: int) -> Table:
    """Single precision."""
    x, y = blobs(rng, target)
    return (x + 100).astype(np.float32), y


def whole(rng: np.random.Generator, target: int) -> Table:
    """Counts, and outputs."""
    x = rng.poisson(3.0, size=(ROWS, 6)).astype(float)
    return x, x @ rng.normal(size=6) + rng.normal(size=ROWS)


def dependent(rng: np.random.Generator, target: int) -> Table:
    """A column that is nearly the sum of two others."""
    x, y = real(rng, target)
    nearly = x[:, 0] + x[:, 1] + 1e-9 * rng.normal(size=ROWS)
    return np.column_stack([x, nearly]), y


RIGHT: dict[str, Case] = {
    "KMeans, 30 times out": (lambda: cluster.KMeans(3, n_init=1), far(30)),
    "KMeans, 300 times out": (lambda: cluster.KMeans(3, n_init=1), far(300)),
    "KMeans, three iterations": (
        lambda: cluster.KMeans(4, n_init=1, max_iter=3),
        blobs,
    ),
    "StandardScaler, KMeans": (
        lambda: chain(PP.StandardScaler(), cluster.KMeans(3, tol=0.05, n_init=1)),
        blobs,
    ),
    "StandardScaler, KMeans, 300 times out": (
        lambda: chain(PP.StandardScaler(), cluster.KMeans(3, n_init=1)),
        far(300),
    ),
    "PowerTransformer, Ridge on N(1000, 1)": (
        lambda: chain(PP.PowerTransformer(), LM.Ridge()),
        high(1000, 1),
    ),
    "PowerTransformer on N(1e5, 1)": (PP.PowerTransformer, high(1e5, 1)),
    "ExtraTrees, a value missing": (
        lambda: ensemble.ExtraTreesClassifier(10),
        hole,
    ),
    "RandomForest, a value missing": (
        lambda: ensemble.RandomForestClassifier(10),
        hole,
    ),
    "DecisionTree, a value missing": (tree.DecisionTreeClassifier, hole),
    "HistGradientBoosting, a value missing": (
        lambda: ensemble.HistGradientBoostingClassifier(max_iter=5),
        hole,
    ),
    "RobustScaler, a value missing": (PP.RobustScaler, hole),
    "QuantileTransformer, a value missing": (
        lambda: PP.QuantileTransformer(n_quantiles=30),
        hole,
    ),
    "StandardScaler, a value missing": (PP.StandardScaler, hole),
    "QuantileTransformer, 300 times out": (
        lambda: PP.QuantileTransformer(n_quantiles=30),
        far(300),
    ),
    "LogisticRegression, 15 iterations": (
        lambda: LM.LogisticRegression(max_iter=15),
        blobs,
    ),
    "LogisticRegression(saga)": (
        lambda: LM.LogisticRegression(solver="saga", max_iter=30),
        blobs,
    ),
    "StandardScaler, LogisticRegression, 300 times out": (
        lambda: chain(PP.StandardScaler(), LM.LogisticRegression()),
        far(300),
    ),
    "RidgeClassifier(sag)": (
        lambda: LM.RidgeClassifier(solver="sag", max_iter=20),
        blobs,
    ),
    "StandardScaler, SGDClassifier": (
        lambda: chain(PP.StandardScaler(), LM.SGDClassifier(loss="log_loss")),
        blobs,
    ),
    "StandardScaler, MLPClassifier": (
        lambda: chain(
            PP.StandardScaler(), neural_network.MLPClassifier((4,), max_iter=20)
        ),
        blobs,
    ),
    "Lasso": (lambda: LM.Lasso(alpha=0.1, tol=0.01), real),
    "LinearRegression, dependent columns": (LM.LinearRegression, dependent),
    "StandardScaler, Ridge, dependent columns": (
        lambda: chain(PP.StandardScaler(), LM.Ridge(alpha=1e-8)),
        dependent,
    ),
    "PCA(randomized), LinearRegression": (
        lambda: chain(
            decomposition.PCA(2, svd_solver="randomized"), LM.LinearRegression()
        ),
        real,
    ),
    "NMF, GaussianNB": (
        lambda: chain(
            PP.MinMaxScaler(), decomposition.NMF(2, max_iter=20), NB.GaussianNB()
        ),
        blobs,
    ),
    "NMF, StandardScaler, Ridge": (
        lambda: chain(
            decomposition.NMF(3, max_iter=20), PP.StandardScaler(), LM.Ridge()
        ),
        whole,
    ),
    "Isomap, RidgeClassifier": (
        lambda: chain(manifold.Isomap(n_neighbors=20), LM.RidgeClassifier()),
        blobs,
    ),
    "StandardScaler, GaussianMixture": (
        lambda: chain(PP.StandardScaler(), mixture.GaussianMixture(3, max_iter=5)),
        blobs,
    ),
    "StandardScaler, MiniBatchKMeans": (
        lambda: chain(PP.StandardScaler(), cluster.MiniBatchKMeans(3, n_init=1)),
        blobs,
    ),
    "GraphicalLasso": (
        lambda: covariance.GraphicalLasso(alpha=0.1, tol=0.05),
        blobs,
    ),
    "StandardScaler, GaussianNB on N(1e6, 1e-3)": (
        lambda: chain(PP.StandardScaler(), NB.GaussianNB()),
        classes_high,
    ),
    "GaussianNB on N(1e6, 1e-3)": (NB.GaussianNB, classes_high),
    "PCA, single precision": (lambda: decomposition.PCA(2), single),
    "GaussianNB, single precision": (NB.GaussianNB, single),
    "KMeans, single precision": (lambda: cluster.KMeans(3, n_init=1), single),
    "Ridge, single precision": (LM.Ridge, single),
    "RobustScaler, single precision": (PP.RobustScaler, single),
    "CalibratedClassifierCV(LinearSVC)": (
        lambda: calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=3),
        blobs,
    ),
    "CalibratedClassifierCV(GaussianNB)": (
        lambda: calibration.CalibratedClassifierCV(NB.GaussianNB(), cv=3),
        blobs,
    ),
    "OneClassSVM": (lambda: svm.OneClassSVM(nu=0.3), blobs),
}
KERNELS: dict[str, Case] = {
    "SVC": (svm.SVC, blobs),
    "SVC(linear)": (lambda: svm.SVC(kernel="linear"), blobs),
    "NuSVC": (lambda: svm.NuSVC(nu=0.1), blobs),
    "SVR": (lambda: svm.SVR(epsilon=0.5), real),
    "NuSVR": (lambda: svm.NuSVR(nu=0.3), real),
    "OneClassSVM": (lambda: svm.OneClassSVM(nu=0.3), blobs),
}
WRONG: dict[str, Case] = {
    **KERNELS,
    "StandardScaler": (PP.StandardScaler, blobs),
    "PowerTransformer": (PP.PowerTransformer, blobs),
    "PCA": (lambda: decomposition.PCA(2), blobs),
    "LedoitWolf": (covariance.LedoitWolf, blobs),
    "KMeans": (lambda: cluster.KMeans(3, n_init=1), blobs),
    "KMeans, 30 times out": (lambda: cluster.KMeans(3, n_init=1), far(30)),
    "KMeans, 300 times out": (lambda: cluster.KMeans(3, n_init=1), far(300)),
    "GaussianNB": (NB.GaussianNB, blobs),
    "LinearDiscriminantAnalysis": (
        discriminant_analysis.LinearDiscriminantAnalysis,
        blobs,
    ),
    "QuadraticDiscriminantAnalysis": (
        discriminant_analysis.QuadraticDiscriminantAnalysis,
        blobs,
    ),
    "NearestCentroid": (neighbors.NearestCentroid, blobs),
    "KNeighborsClassifier": (neighbors.KNeighborsClassifier, blobs),
    "LocalOutlierFactor": (neighbors.LocalOutlierFactor, blobs),
    "BaggingClassifier(kNN)": (
        lambda: ensemble.BaggingClassifier(neighbors.KNeighborsClassifier()),
        blobs,
    ),
    "Isomap, LogisticRegression": (
        lambda: chain(manifold.Isomap(n_neighbors=20), LM.LogisticRegression()),
        blobs,
    ),
    "KernelRidge": (lambda: kernel_ridge.KernelRidge(kernel="rbf"), real),
    "GaussianProcessRegressor": (
        lambda: gaussian_process.GaussianProcessRegressor(optimizer=None),
        real,
    ),
    "LinearRegression": (LM.LinearRegression, real),
    "RidgeClassifier": (LM.RidgeClassifier, blobs),
    "LogisticRegression(newton, tight)": (
        lambda: LM.LogisticRegression(solver="newton-cholesky", tol=1e-12),
        blobs,
    ),
    "StandardScaler, SVC": (lambda: chain(PP.StandardScaler(), svm.SVC()), blobs),
    "VotingClassifier(SVC, GaussianNB)": (
        lambda: ensemble.VotingClassifier([("a", svm.SVC()), ("b", NB.GaussianNB())]),
        blobs,
    ),
    "CalibratedClassifierCV(GaussianNB)": (
        lambda: calibration.CalibratedClassifierCV(NB.GaussianNB(), cv=3),
        blobs,
    ),
    "CalibratedClassifierCV(SVC)": (
        lambda: calibration.CalibratedClassifierCV(svm.SVC(), cv=3),
        blobs,
    ),
    "RandomForestRegressor": (lambda: ensemble.RandomForestRegressor(20), real),
    "RandomForestClassifier": (lambda: ensemble.RandomForestClassifier(20), blobs),
    "DecisionTreeRegressor": (tree.DecisionTreeRegressor, real),
    "HistGradientBoostingClassifier": (
        lambda: ensemble.HistGradientBoostingClassifier(max_iter=5),
        blobs,
    ),
}


def fitted(case: Case, seed: int) -> tuple[Any, np.ndarray, np.ndarray, int]:
    """The estimator, its rows and labels, and the missing row's place."""
    rng = np.random.default_rng([seed, 36])
    target = int(rng.integers(ROWS))
    x, y = case[1](rng, target)
    np.random.seed(seed)  # noqa: NPY002 (estimators without random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case[0]().fit(x, y), x, y, target


def told(estimator: Any, known: np.ndarray, labels: np.ndarray) -> Any:
    """The answer; None: it was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return informed.reconstruct_sklearn(estimator, known, labels)
        except ReconstructionImpossibleError:
            return None


def off(found: Any, row: np.ndarray, x: np.ndarray) -> bool:
    """Whether something that is called certain is wrong."""
    scale = np.nanstd(x, axis=0)
    value = np.asarray(found.value, np.float64)
    error = np.abs(value - row) / np.where(scale > 0, scale, 1.0)
    wrong = found.determined & ~(error <= 1e-6)
    there = np.isfinite(row)
    # A number of single precision is told to its own rounding.
    room = 1e-12 * np.abs(row)
    outside = there & ((row < found.lower - room) | (row > found.upper + room))
    return bool(np.any(wrong | outside))


def right(case: Case, seeds: range) -> dict[str, Any]:
    """All known rows are right."""
    counts = dict.fromkeys(
        ("refuted", "certified", "wrong_certificates", "wrong_values", "exact"), 0
    )
    refused = 0
    for seed in seeds:
        estimator, x, y, target = fitted(case, seed)
        known, labels = np.delete(x, target, 0), np.delete(y, target)
        found = told(estimator, known, labels)
        if found is None:
            refused += 1
            continue
        wrong = off(found, x[target], x)
        counts["refuted"] += bool(found.refuted)
        counts["certified"] += bool(found.certified)
        counts["wrong_values"] += wrong
        counts["wrong_certificates"] += bool(found.certified) and wrong
        counts["exact"] += bool(found.exact) and not wrong
    return {**counts, "refused": refused}


def wrong(case: Case, seeds: range) -> dict[str, int]:
    """One known row is another one."""
    counts = dict.fromkeys(("certified", "refuted", "refused"), 0)
    for seed in seeds:
        estimator, x, y, target = fitted(case, seed)
        known, labels = np.delete(x, target, 0), np.delete(y, target)
        at = int(np.random.default_rng([seed, 37]).integers(len(known)))
        if seed % 2:
            known[at] = known[(at + 1) % len(known)]
        else:
            known[at] += x.std(axis=0)
        found = told(estimator, known, labels)
        if found is None:
            counts["refused"] += 1
            continue
        counts["certified"] += bool(found.certified)
        counts["refuted"] += bool(found.refuted)
    return counts


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", nargs="+", choices={**RIGHT, **WRONG})
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    only = arguments.only or {**RIGHT, **WRONG}
    started = time.monotonic()
    rights = {name: right(RIGHT[name], seeds) for name in RIGHT if name in only}
    wrongs = {name: wrong(WRONG[name], seeds) for name in WRONG if name in only}
    keys = ("refuted", "wrong_certificates", "wrong_values")
    line = {
        "seeds": [seeds.start, seeds.stop - 1],
        **{key: sum(each[key] for each in rights.values()) for key in keys},
        "certified": sum(each["certified"] for each in wrongs.values()),
        "right": rights,
        "wrong": wrongs,
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
