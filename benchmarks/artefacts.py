"""What scikit-learn artefacts tell of one row, before and after `sanitise`.

    python -m benchmarks.artefacts --targets=20 > artefacts.jsonl
    python -m benchmarks.artefacts --table artefacts.jsonl

Every estimator is fitted once to all rows; each target in turn is the row that is not
known. Sets: breast cancer, diabetes, wine (scikit-learn's; "wine*" and "breast cancer*"
are standardised beforehand, by nobody's scaler), digits (the first 600, and the first
600 over 16), and as texts the sentences of the descriptions that come with
scikit-learn's sets. One JSON line an estimator:

rows_exact           of the targets: every feature determined, and right
features_determined  share of all features
features_bounded     share that is determined or has an interval with two ends
features_wrong       determined but off by more than 1e-6 of the column's spread, or
                     outside the interval that is claimed: 0 everywhere
estimates            median, over targets, of the largest error over the spread, of what
                     is given as an estimate only
labels_right         of the targets: told, and right; labels_wrong: told, and wrong
certified            of the targets: confirmed by the artefact itself
refused              of the targets: the artefact tells nothing
seconds              a target
after_sanitising     rows_exact, features_determined, features_wrong again
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import (
    calibration,
    cluster,
    compose,
    covariance,
    datasets,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    gaussian_process,
    impute,
    kernel_ridge,
    linear_model,
    model_selection,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
)

import informed
from artefacts.glm import ReconstructionImpossibleError

TIGHT = {"tol": 1e-12, "max_iter": 100_000}
NEWTON = {"solver": "newton-cholesky", **TIGHT}
WRONG = 1e-6


def table(name: str) -> tuple[Any, Any]:
    """Rows and labels of a set."""
    if name == "texts":
        return texts(), None
    base = name.removesuffix("/16").removesuffix("*").replace(" ", "_")
    x, y = getattr(datasets, f"load_{base}")(return_X_y=True)
    if base == "digits":
        x, y = x[:600], y[:600]
    if name.endswith("*"):
        x = (x - x.mean(axis=0)) / x.std(axis=0)
    return (x / 16 if name.endswith("/16") else x), y


def texts() -> list[str]:
    """Sentences of the descriptions of scikit-learn's own sets."""
    found: list[str] = []
    for name in ("breast_cancer", "diabetes", "wine", "digits", "iris", "linnerud"):
        whole = getattr(datasets, f"load_{name}")().DESCR.replace("\n", " ")
        found += [each for each in whole.split(". ") if len(each) > 30]
    return found


def scaled(model: Any, scaler: Any = None) -> Any:
    """A model behind a scaler."""
    return pipeline.make_pipeline(scaler or preprocessing.StandardScaler(), model)


def mixed(model: Any) -> Any:
    """A model behind different scalers of different columns."""
    parts = [
        ("quantiles", preprocessing.QuantileTransformer(), [0, 1, 2, 3]),
        ("range", preprocessing.MinMaxScaler(), list(range(4, 13))),
    ]
    return pipeline.make_pipeline(compose.ColumnTransformer(parts), model)


LM, PP, NB, NN = linear_model, preprocessing, naive_bayes, neighbors
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "StandardScaler": (PP.StandardScaler, "breast cancer"),
    "MinMaxScaler": (PP.MinMaxScaler, "breast cancer"),
    "MaxAbsScaler": (PP.MaxAbsScaler, "wine"),
    "RobustScaler": (PP.RobustScaler, "wine"),
    "QuantileTransformer": (PP.QuantileTransformer, "wine"),
    "PowerTransformer": (PP.PowerTransformer, "breast cancer"),
    "KBinsDiscretizer": (PP.KBinsDiscretizer, "wine"),
    "SimpleImputer": (impute.SimpleImputer, "diabetes"),
    "SimpleImputer(median)": (
        lambda: impute.SimpleImputer(strategy="median"),
        "diabetes",
    ),
    "PCA(5)": (lambda: decomposition.PCA(5), "wine"),
    "TruncatedSVD(5)": (
        lambda: decomposition.TruncatedSVD(5, algorithm="arpack"),
        "wine",
    ),
    "LedoitWolf": (covariance.LedoitWolf, "breast cancer"),
    "KMeans(5)": (lambda: cluster.KMeans(5, n_init=1, random_state=0), "wine"),
    "GaussianNB": (NB.GaussianNB, "digits"),
    "MultinomialNB": (NB.MultinomialNB, "digits"),
    "BernoulliNB": (NB.BernoulliNB, "digits"),
    "CategoricalNB": (NB.CategoricalNB, "digits"),
    "LinearDiscriminantAnalysis": (
        discriminant_analysis.LinearDiscriminantAnalysis,
        "wine",
    ),
    "QuadraticDiscriminantAnalysis": (
        discriminant_analysis.QuadraticDiscriminantAnalysis,
        "wine",
    ),
    "NearestCentroid": (NN.NearestCentroid, "wine"),
    "OneHotEncoder": (PP.OneHotEncoder, "digits"),
    "CountVectorizer": (feature_extraction.text.CountVectorizer, "texts"),
    "TfidfVectorizer": (feature_extraction.text.TfidfVectorizer, "texts"),
    "KNeighborsClassifier": (NN.KNeighborsClassifier, "digits"),
    "KNeighborsRegressor": (NN.KNeighborsRegressor, "diabetes"),
    "SVC": (svm.SVC, "digits"),
    "SVR": (svm.SVR, "diabetes"),
    "KernelRidge(rbf)": (lambda: kernel_ridge.KernelRidge(kernel="rbf"), "diabetes"),
    "GaussianProcessRegressor": (
        lambda: gaussian_process.GaussianProcessRegressor(optimizer=None),
        "diabetes",
    ),
    "LocalOutlierFactor": (NN.LocalOutlierFactor, "wine"),
    "LinearRegression": (LM.LinearRegression, "diabetes"),
    "Ridge": (LM.Ridge, "diabetes"),
    "RidgeCV": (LM.RidgeCV, "wine"),
    "BayesianRidge": (LM.BayesianRidge, "diabetes"),
    "RidgeClassifier": (LM.RidgeClassifier, "digits"),
    "LogisticRegression": (lambda: LM.LogisticRegression(max_iter=1000), "wine*"),
    "LogisticRegression(newton)": (
        lambda: LM.LogisticRegression(solver="newton-cg"),
        "wine*",
    ),
    "LogisticRegression(newton, tight)": (
        lambda: LM.LogisticRegression(**NEWTON),
        "wine*",
    ),
    "LogisticRegression(balanced, tight)": (
        lambda: LM.LogisticRegression(class_weight="balanced", **NEWTON),
        "breast cancer*",
    ),
    "PoissonRegressor": (lambda: LM.PoissonRegressor(max_iter=1000), "diabetes"),
    "GammaRegressor": (LM.GammaRegressor, "diabetes"),
    "TweedieRegressor(1.5)": (
        lambda: LM.TweedieRegressor(power=1.5, link="log"),
        "diabetes",
    ),
    "Lasso": (lambda: LM.Lasso(alpha=0.1), "diabetes"),
    "Lasso(tight)": (lambda: LM.Lasso(alpha=0.1, **TIGHT), "diabetes"),
    "ElasticNet(tight)": (lambda: LM.ElasticNet(alpha=0.01, **TIGHT), "diabetes"),
    "LinearSVC": (svm.LinearSVC, "digits/16"),
    "LinearSVR(squared)": (
        lambda: svm.LinearSVR(loss="squared_epsilon_insensitive", dual=False),
        "diabetes",
    ),
    "HuberRegressor": (lambda: LM.HuberRegressor(max_iter=1000), "diabetes"),
    "SGDClassifier(log loss)": (
        lambda: LM.SGDClassifier(loss="log_loss", random_state=0),
        "breast cancer*",
    ),
    "OneVsRest(LogisticRegression, tight)": (
        lambda: multiclass.OneVsRestClassifier(LM.LogisticRegression(**NEWTON)),
        "wine*",
    ),
    "Pipeline(StandardScaler, LogisticRegression)": (
        lambda: scaled(LM.LogisticRegression()),
        "breast cancer",
    ),
    "Pipeline(MinMaxScaler, RidgeClassifier)": (
        lambda: scaled(LM.RidgeClassifier(), PP.MinMaxScaler()),
        "breast cancer",
    ),
    "Pipeline(SimpleImputer, StandardScaler, SVC)": (
        lambda: pipeline.make_pipeline(
            impute.SimpleImputer(), PP.StandardScaler(), svm.SVC()
        ),
        "wine",
    ),
    "Pipeline(ColumnTransformer, RidgeClassifier)": (
        lambda: mixed(LM.RidgeClassifier()),
        "wine",
    ),
    "GridSearchCV(Ridge)": (
        lambda: model_selection.GridSearchCV(LM.Ridge(), {"alpha": [0.1, 1.0, 10.0]}),
        "diabetes",
    ),
    "VotingClassifier(GaussianNB, Ridge)": (
        lambda: ensemble.VotingClassifier(
            [("bayes", NB.GaussianNB()), ("ridge", LM.RidgeClassifier())]
        ),
        "wine",
    ),
    "StackingClassifier(kNN, GaussianNB)": (
        lambda: ensemble.StackingClassifier(
            [("near", NN.KNeighborsClassifier()), ("bayes", NB.GaussianNB())]
        ),
        "wine",
    ),
    "CalibratedClassifierCV(GaussianNB)": (
        lambda: calibration.CalibratedClassifierCV(NB.GaussianNB()),
        "wine",
    ),
    "BaggingClassifier(GaussianNB)": (
        lambda: ensemble.BaggingClassifier(NB.GaussianNB(), random_state=0),
        "wine",
    ),
    "MLPClassifier, run again": (
        lambda: neural_network.MLPClassifier(
            (4,),
            activation="tanh",
            solver="sgd",
            learning_rate_init=0.1,
            batch_size=1000,
            max_iter=50,
            random_state=0,
        ),
        "wine*",
    ),
    "MLPClassifier": (
        lambda: neural_network.MLPClassifier((10,), random_state=0, max_iter=50),
        "wine*",
    ),
}

# Read with `retrain`, the missing row's place told.
AGAIN = ("MLPClassifier, run again",)


def attacked(
    estimator: Any, x: Any, y: Any, targets: np.ndarray, *, again: bool = False
) -> dict[str, Any]:
    """All targets against one fitted estimator."""
    exact = wrong = labels = labels_wrong = certified = refused = 0
    determined, bounded, off = [], [], []
    started = time.monotonic()
    spreads = None if isinstance(x, list) else _spread(x)
    for target in targets:
        rest = np.delete(np.arange(len(x)), target)
        known = [x[i] for i in rest] if isinstance(x, list) else x[rest]
        try:
            found = informed.reconstruct_sklearn(
                estimator,
                known,
                None if y is None else y[rest],
                retrain=again,
                position=int(target) if again else None,
            )
        except ReconstructionImpossibleError:
            refused += 1
            determined.append(0.0)
            bounded.append(0.0)
            continue
        certified += found.certified
        if found.y is not None and y is not None:
            right = bool(np.allclose(found.y, y[target], rtol=1e-6, atol=1e-6))
            labels += right
            labels_wrong += not right
        if spreads is None:
            share, bad = _words(estimator, found, x[target])
            determined.append(share)
            bounded.append(share)
            exact += share == 1.0 and not bad
            wrong += bad
            continue
        truth = x[target]
        told = found.determined
        error = np.abs(np.asarray(found.value, np.float64) - truth) / spreads
        outside = (truth < found.lower) | (truth > found.upper)
        bad = int(((told & ~(error <= WRONG)) | outside).sum())
        wrong += bad
        exact += bool(told.all()) and bad == 0
        determined.append(float(told.mean()))
        finite = np.isfinite(found.lower) & np.isfinite(found.upper)
        bounded.append(float((told | finite).mean()))
        guessed = error[~told & np.isfinite(error)]
        if guessed.size:
            off.append(float(guessed.max()))
    return {
        "rows_exact": int(exact),
        "features_determined": round(float(np.mean(determined)), 4),
        "features_bounded": round(float(np.mean(bounded)), 4),
        "features_wrong": int(wrong),
        "estimates": float(f"{np.median(off):.2g}") if off else None,
        "labels_right": int(labels),
        "labels_wrong": int(labels_wrong),
        "certified": int(certified),
        "refused": int(refused),
        "seconds": round((time.monotonic() - started) / len(targets), 4),
    }


def _words(vectoriser: Any, found: Any, text: str) -> tuple[float, int]:
    """Share of the text's words that are told, and how many wrong ones are."""
    truth = set(vectoriser.build_analyzer()(text))
    told = set(found.words or ())
    return len(told & truth) / len(truth), len(told - truth)


def _spread(x: np.ndarray) -> np.ndarray:
    """Standard deviations; 1 where a column is constant."""
    deviation = x.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def measured(name: str, count: int, seed: int) -> dict[str, Any]:
    """One line."""
    make, data = CASES[name]
    x, y = table(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = make().fit(x, y)
    rng = np.random.default_rng(seed)
    targets = rng.choice(len(x), size=count, replace=False)
    line = {"estimator": name, "data": data, "targets": count}
    line |= attacked(estimator, x, y, targets, again=name in AGAIN)
    stripped = informed.sanitise(estimator, x[:50])
    again = attacked(stripped.estimator, x, y, targets, again=name in AGAIN)
    kept = ("rows_exact", "features_determined", "features_wrong", "certified")
    line["after_sanitising"] = {
        **{key: again[key] for key in kept},
        "equal": stripped.equal,
        "removed": [r.field for r in stripped.removed if r.action == "removed"],
    }
    return line


def as_table(path: str) -> str:
    """Lines of a file as a table in Markdown."""
    rows = [
        "| estimator | set | exact rows | features determined | wrong | confirmed | s |"
        " exact rows, stripped |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for text in Path(path).read_text().splitlines():
        line = json.loads(text)
        after = line["after_sanitising"]
        rows.append(
            f"| {line['estimator']} | {line['data']} |"
            f" {line['rows_exact']} of {line['targets']} |"
            f" {100 * line['features_determined']:.0f} % |"
            f" {line['features_wrong'] + after['features_wrong']} |"
            f" {line['certified']} | {line['seconds']:.3f} |"
            f" {after['rows_exact']} |"
        )
    return "\n".join(rows)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=CASES, nargs="+")
    parser.add_argument("--table", help="print this file's lines as a table, and end")
    arguments = parser.parse_args()
    if arguments.table:
        print(as_table(arguments.table))
        return
    for name in arguments.only or CASES:
        line = measured(name, arguments.targets, arguments.seed)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
