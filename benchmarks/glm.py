"""The closed-form attack on GLMs against adversarial-robustness-toolbox, one JSON line.

    python -m benchmarks.glm [--targets 5] [--figure docs/images/glm_tolerance.png]
    pip install adversarial-robustness-toolbox     adds DatabaseReconstruction

The same informed adversary, the same fitted models. DatabaseReconstruction refits the
model inside L-BFGS for every guess; the closed form reads the answer off the gradient.
Relative error of x and seconds per target, median over targets, for each model; MNIST's
ten classes with TFDS_DATA_DIR only. The figure shows error against solver tolerance.

    python -m benchmarks.glm --defaults --targets 20

Models of scikit-learn at its defaults, on wine, by `informed.reconstruct_sklearn`: how
many targets are exact (to 1e-6), and certified; `behind_scaler`: in a pipeline."""

import argparse
import collections
import importlib.util
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
from sklearn import datasets, linear_model
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import informed
import shadow
from informed.attacks.closed_form import linear, theorems

TIGHT = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 1000}


def problems() -> dict[str, tuple[np.ndarray, np.ndarray, Any]]:
    """Name -> features, labels, estimator to be fitted."""

    def scaled(name: str) -> tuple[np.ndarray, np.ndarray]:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9), y

    logistic = linear_model.LogisticRegression(C=0.01, **TIGHT)
    made = {
        "breast_cancer logistic": (*scaled("breast_cancer"), logistic),
        "diabetes linear": (*scaled("diabetes"), linear_model.LinearRegression()),
        "diabetes ridge": (*scaled("diabetes"), linear_model.Ridge(alpha=1.0)),
        "digits multinomial": (
            *datasets.load_digits(return_X_y=True),
            linear_model.LogisticRegression(C=1e-3, **TIGHT),
        ),
    }
    if "TFDS_DATA_DIR" in os.environ:
        pool = shadow.load("mnist").take(slice(0, 2000))
        # newton-cholesky would need the whole 7,850 x 7,850 Hessian.
        made["mnist multinomial"] = (
            pool.images.reshape(len(pool), -1).astype(np.float64),
            pool.labels,
            linear_model.LogisticRegression(
                C=1e-2, solver="newton-cg", tol=1e-12, max_iter=1000
            ),
        )
    return made


def at_defaults(targets: int) -> dict[str, dict[str, int]]:
    """Exact and certified targets of each model, bare and behind a scaler."""
    x, y = datasets.load_wine(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    models = {
        linear_model.LinearRegression(): (x[:, 1:], x[:, 0]),
        linear_model.Ridge(): (x[:, 1:], x[:, 0]),
        linear_model.RidgeClassifier(): (x, y),
        linear_model.LogisticRegression(): (x, y),
        linear_model.PoissonRegressor(): (x[:, 1:], np.round(np.exp(x[:, 0]))),
    }
    result = {}
    for model, (rows, labels) in models.items():
        counted = collections.Counter(exact=0, certified=0, certified_wrong=0)
        for target in np.linspace(0, len(rows) - 1, targets).astype(int):
            others = np.delete(rows, target, axis=0), np.delete(labels, target)
            for made in (model, make_pipeline(StandardScaler(), model)):
                answer = informed.reconstruct_sklearn(made.fit(rows, labels), *others)
                exact = relative_error(answer.value, rows[target]) <= 1e-6
                counted["exact" if made is model else "behind_scaler"] += exact
                counted["certified"] += answer.certified and made is model
                counted["certified_wrong"] += answer.certified and not exact
        result[type(model).__name__] = {"targets": targets, **counted}
    return result


def relative_error(found: np.ndarray, truth: np.ndarray) -> float:
    """|found - truth| / |truth|."""
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def reconstruct(
    model: Any, known: np.ndarray, labels: np.ndarray
) -> theorems.GlmReconstruction:
    """Theorem 1 of Balle et al. 2022 on a fitted estimator, without a refit."""
    objective, quotient = linear.likeliest(model, known, labels)
    label = linear._label(model, np.asarray(labels), quotient.label)
    return theorems.judge(objective, quotient, y=label)


def art_reconstruct(model: Any, known: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The same by adversarial-robustness-toolbox."""
    from art.attacks.inference.reconstruction import DatabaseReconstruction
    from art.estimators.classification.scikitlearn import SklearnClassifier

    wrapped = SklearnClassifier(model=model)
    x, _ = DatabaseReconstruction(wrapped).reconstruct(known, labels)
    return np.ravel(x)


def draw(path: Path) -> None:
    """Error of x against the solver's tolerance."""
    figure = matplotlib.figure.Figure(figsize=(6.4, 3.6), dpi=120)
    axis = figure.subplots()
    tolerances = 10.0 ** -np.arange(1, 14)
    x, y, _ = problems()["breast_cancer logistic"]
    for solver in ("lbfgs", "newton-cg", "newton-cholesky", "saga"):
        errors = []
        for tol in tolerances:
            model = linear_model.LogisticRegression(
                C=0.01, solver=solver, tol=tol, max_iter=20_000
            ).fit(x, y)
            errors.append(
                np.median(
                    [
                        relative_error(
                            reconstruct(model, np.delete(x, t, 0), np.delete(y, t)).x,
                            x[t],
                        )
                        for t in range(0, 100, 10)
                    ]
                )
            )
        axis.loglog(tolerances, errors, marker="o", markersize=3, label=solver)
    axis.invert_xaxis()
    axis.set_xlabel("tolerance asked of the solver (scikit-learn's tol)")
    axis.set_ylabel("relative error of x")
    axis.set_title("A target read out of logistic regression on breast cancer", size=10)
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=5)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--defaults", action="store_true", help="see above")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.defaults:
        print(json.dumps(at_defaults(arguments.targets)))
        return
    have_art = importlib.util.find_spec("art") is not None
    result: dict[str, dict[str, float]] = {}
    for name, (x, y, model) in problems().items():
        model.fit(x, y)
        row: dict[str, list[float]] = {}
        for target in np.linspace(0, len(x) - 1, arguments.targets).astype(int):
            known, labels = np.delete(x, target, axis=0), np.delete(y, target)
            start = time.perf_counter()
            found = reconstruct(model, known, labels)
            row.setdefault("seconds", []).append(time.perf_counter() - start)
            row.setdefault("error", []).append(relative_error(found.x, x[target]))
            if found.implied_error is not None:
                row.setdefault("implied_error", []).append(found.implied_error)
            row.setdefault("label_right", []).append(np.isclose(found.y, y[target]))
            if have_art and name == "breast_cancer logistic":
                start = time.perf_counter()
                guess = art_reconstruct(model, known, labels)
                row.setdefault("art_seconds", []).append(time.perf_counter() - start)
                error = relative_error(guess, x[target])
                row.setdefault("art_error", []).append(error)
        result[name] = {
            key: float(f"{np.median(values):.2g}") for key, values in row.items()
        } | {"worst_error": float(f"{max(row['error']):.2g}")}
    if arguments.figure:
        draw(arguments.figure)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
