"""Linear predictors at the optimum of a smooth penalised loss: Theorem 1, generalised.

    sum_i w_i r_i (1, x_i) + penalty's gradient = 0

The known rows' share is computed, so the target's slope r and the product r x are
known, and x is their quotient; with several outputs, their least-squares quotient.

Solvers stop short of the optimum. They are therefore run again, with the candidate in
the target's place, until it gives the released parameters (`refining.refine`). This
makes x exact also at the default tolerances, as long as the solver is deterministic.
How exact, the last steps of that tell. A row that no refit confirms is an estimate.

What can be confirmed: classes must come out whole, and several outputs must agree on
one x. One real output has as many parameters as unknowns, so that any fixed set has an
answer; `LinearRegression` stores singular values, which tell.

Source: Balle et al. 2022, Theorem 1.
"""

import dataclasses
from typing import Any

import numpy as np
from sklearn import base

from artefacts import refining, refits
from artefacts.findings import (
    Finding,
    Leaf,
    ReconstructionImpossibleError,
    around,
    refuted,
    spread,
)
from artefacts.glm.objectives import OBJECTIVES, Objective, Quotient, objectives, solve
from artefacts.readers.moments import mean_reader
from artefacts.registry import register

# Labels that are tried, the likeliest first; each takes some dozen refits.
_MOST_LABELS = 4
# Rows x features^2 x outputs up to which a search over refits is begun without
# `retrain`: such a search takes seconds.
_MOST_SEARCHED = 3e5
# Rows at which searches begin, the nearest by a refit first.
_MOST_STARTS = 3
# A tolerance that stops no solver; some estimators refuse zero.
_NO_TOLERANCE = 1e-300
# Second over first differences of refits: a solver above it counts iterations or has a
# chaotic path, and isn't searched by slopes.
_SMOOTH = 0.1
# How many times the change by another order of the rows counts as error, because one
# other order is one sample of the rounding.
_AMPLIFIED = 30.0
# Of the largest singular value: directions below it may have been cut off, if `rank_`
# doesn't say. The limits of `lstsq` itself are smaller.
_MAY_BE_CUT = 1e-6
# In spreads: if the steps of the refits end above this, the row is an estimate.
_CONFIRMED = 1e-6
_FIELDS = ("coef_", "intercept_", "singular_")
_TELLS = (
    "the gradient is zero at the optimum: what the known rows leave of it is the"
    " missing row's"
)


def read(leaf: Leaf) -> list[Finding]:
    """The missing row and its label, from coefficients and intercept.

    Raises: ReconstructionImpossibleError: this release doesn't determine it; says why.
    """
    model = leaf.estimator
    coef, intercept = _parameters(model)
    name = leaf.path or type(model).__name__
    if leaf.labels is None:
        raise ReconstructionImpossibleError(f"{name}: its coefficients need y_known.")
    if hasattr(model, "classes_") and leaf.labels.ndim > 1:
        raise ReconstructionImpossibleError(
            f"{name} was fitted to several labels a row, which are not read here."
        )
    if not getattr(model, "fit_intercept", True):
        raise ReconstructionImpossibleError(
            f"{name} was fitted without intercept, so the target's residual is unknown:"
            " x is determined up to a factor only."
        )
    known = np.asarray(leaf.known, np.float64)
    if leaf.candidate is not None and hasattr(model, "classes_"):
        found = _confirmed(leaf, leaf.candidate)
        if found is not None:
            return [found]
    solved = []
    failure = None
    for objective in objectives(leaf):
        try:
            solved.append((solve(objective, known, coef, intercept), objective))
        except ReconstructionImpossibleError as error:
            failure = error
    cases = _cases(leaf, solved)
    if not cases:
        raise failure or ReconstructionImpossibleError(
            f"{name}: no class of the target is consistent with class_weight="
            f"{getattr(model, 'class_weight', None)!r}. Is the fixed set the right one?"
        )
    # A loosely solved model's label is a guess; the refits decide between guesses.
    tried = []
    for quotient, objective, label in cases[:_MOST_LABELS]:
        tried.append(_refined(leaf, objective, quotient, known, coef, label))
        if tried[-1].certified:
            return tried[-1:]
    found = _searched(leaf, cases, known, coef)
    if found is not None:
        return [found]
    left = [each for each in tried if each.certified is None]
    if left:
        return left[:1]
    every = failure is None and len(cases) <= _MOST_LABELS and _closed_form(model)
    return [_refuted() if every else _estimated(cases[0][0].row)]


def _confirmed(leaf: Leaf, row: np.ndarray) -> Finding | None:
    """A row that is known already, confirmed by a refit with one of the classes."""
    if type(leaf.estimator).__name__ not in _REFITTED:
        return None
    classes = leaf.estimator.classes_
    options = classes if leaf.label is None else [leaf.label]
    off = {}
    for label in options:
        told = refits.difference(leaf, ("coef_", "intercept_"), row, label)
        off[label] = np.inf if told is None else told
    best = min(off, key=lambda label: off[label])
    if off[best] > refits.AGREES:
        return None
    return Finding(
        field="coef_, intercept_",
        tells="fitted again with the row that the steps before it tell, they come out"
        " again with one label",
        label=best,
        certified=True,
        **around(row, 1e-9 * spread(leaf.known)),
    )


def _cases(
    leaf: Leaf, solved: list[tuple[Quotient, Objective]]
) -> list[tuple[Quotient, Objective, Any]]:
    """Solutions with the labels to try, the likeliest first."""
    cases = []
    for quotient, objective in sorted(solved, key=lambda pair: pair[0].violation):
        told = _label(leaf, objective, quotient)
        if not objective.loss.classes:
            cases.append((quotient, objective, told))
            continue
        options = leaf.estimator.classes_ if leaf.label is None else [leaf.label]
        if objective.label is not None:
            options = [each for each in options if each == objective.label]
        cases += [(quotient, objective, each) for each in options]
    # The label that a quotient tells itself goes first.
    return sorted(
        cases, key=lambda case: bool(np.any(case[2] != _label(leaf, case[1], case[0])))
    )


def _searched(
    leaf: Leaf,
    cases: list[tuple[Quotient, Objective, Any]],
    known: np.ndarray,
    coef: np.ndarray,
) -> Finding | None:
    """The row by least squares over refits, where the closed form leads nowhere.

    Also a loosely solved model is a smooth function of its rows, and has a number more
    than is unknown. Each label starts at its mean row and at the closed form's. Solvers
    of many cheap steps are searched with `retrain` only: it takes a minute.
    """
    quotient, objective, _ = cases[0]
    cost = known.size * known.shape[1] * len(coef)
    newton = str(getattr(leaf.estimator, "solver", "")).startswith("newton")
    cheap = newton and cost <= _MOST_SEARCHED
    repeats = type(leaf.estimator).__name__ in _REFITTED and not _by_order(leaf)
    if not objective.loss.classes or not (cheap or leaf.retrain) or not repeats:
        return None
    low, high = known.min(axis=0), known.max(axis=0)
    labels = np.asarray(leaf.labels)
    starts: list[tuple[float, int, np.ndarray, Any]] = []
    for _, _, label in cases[:_MOST_LABELS]:
        for start in (
            known[(labels == label) | ~(labels == label).any()].mean(axis=0),
            np.clip(quotient.row, low, high),
        ):
            off = refits.difference(leaf, _FIELDS, start, label)
            starts.append((np.inf if off is None else off, len(starts), start, label))
    starts.sort(key=lambda each: each[:2])
    stepping = _as_many_steps(leaf)
    if not refits.bends(stepping, _FIELDS, *starts[0][2:]) <= _SMOOTH:
        return None
    for _, _, start, label in starts[:_MOST_STARTS]:
        found = refits.search(stepping, _FIELDS, start, label)
        if found is not None:
            return Finding(
                field="coef_, intercept_",
                tells="fitted again with this row and label they come out again",
                label=label,
                certified=True,
                **around(*found),
            )
    return None


def _estimated(
    row: np.ndarray, why: str = "how exactly depends on its solver"
) -> Finding:
    """A row that nothing confirms."""
    return Finding(field="coef_, intercept_", tells=f"{_TELLS}; {why}", estimate=row)


def _refuted() -> Finding:
    """The known rows are other ones: nothing makes the gradient zero."""
    return refuted("coef_, intercept_", "no row and label make the gradient zero")


def _as_many_steps(leaf: Leaf) -> Leaf:
    """The leaf, to be fitted in as many steps of L-BFGS as the released one took.

    Where a tolerance decides, the last step comes for one row and doesn't for the next:
    the refit jumps from row to row. After a given number of steps it doesn't.
    """
    estimator = leaf.estimator
    taken = np.ravel(getattr(estimator, "n_iter_", 0))
    if getattr(estimator, "solver", "") != "lbfgs" or taken.size != 1 or not taken[0]:
        return leaf
    as_many = base.clone(estimator)
    as_many.set_params(max_iter=int(taken[0]), tol=_NO_TOLERANCE)
    return dataclasses.replace(leaf, estimator=as_many)


def _refined(
    leaf: Leaf,
    objective: Objective,
    quotient: Quotient,
    known: np.ndarray,
    coef: np.ndarray,
    label: Any,
) -> Finding:
    """The closed form's row, made exact by refits, with its certificate."""
    if type(leaf.estimator).__name__ not in _REFITTED or not np.all(
        np.isfinite(quotient.targets)
    ):
        return _estimated(quotient.row)
    if np.asarray(leaf.estimator.coef_).dtype == np.float32:
        return _estimated(quotient.row, "it was trained in single precision")
    single = not objective.loss.classes
    several = np.ndim(np.asarray(leaf.labels)) > 1
    features = known.shape[1]
    outputs = len(coef)
    scale = spread(known)
    if single:
        scale = np.append(scale, spread(objective.targets))

    def invert(model: Any) -> np.ndarray:
        here = dataclasses.replace(leaf, estimator=model)
        own = _of_label(objectives(here), objective.label)
        try:
            found = solve(own, known, *_parameters(model))
        except ReconstructionImpossibleError:
            return np.full(scale.shape, np.nan)
        return np.append(found.row, found.targets) if single else found.row

    stepping = _as_many_steps(leaf)

    def train(z: np.ndarray) -> Any:
        y = label
        if single:
            y = z[features:] if several else z[features]
        return refits.refit(stepping, z[:features], y)

    # The closed form and the solver, in turns, until the released parameters come out.
    z, error = refining.refine(invert, train, leaf.estimator, scale)
    if not _in_order(leaf.estimator):
        # Other roundings of the same refit: columns that nearly depend on each other
        # amplify them.
        again = refits.backwards(leaf)
        y = label if not single else z[features:] if several else z[features]
        other = invert(refits.refit(again, z[:features], y))
        error = np.maximum(error, _AMPLIFIED * np.abs(other - invert(train(z))))
        error = np.where(np.isfinite(error), error, np.inf)
    if type(leaf.estimator).__name__ == "LinearRegression":
        error = error + _cut_off(leaf, z[:features], quotient)
    row = z[:features]
    if single:
        label = z[features:] if several else _output(leaf, float(z[features]))
    if not np.max(error / scale) <= _CONFIRMED:
        return _estimated(
            quotient.row, "its solver stopped too early, or other rows were known"
        )
    # Only more numbers than unknowns can confirm a row.
    redundant = not single or outputs > 1 or hasattr(leaf.estimator, "singular_")
    off = refits.difference(leaf, _FIELDS, row, label)
    if off is not None and off > refits.REFUTES:
        # A solver that may have stopped early can't be refuted, nor one whose rounding
        # is as large: columns that nearly depend on each other lose most digits.
        left = np.max(np.abs(quotient.row - row) / scale[:features])
        sure = left <= refits.REFUTES and _closed_form(leaf.estimator)
        if sure:
            noise = refits.rounding(leaf, _FIELDS, row, label, error=error[:features])
            sure = off > refits.ROUNDING * noise
        return _refuted() if sure else _estimated(quotient.row)
    confirmed = redundant and off is not None and off <= refits.AGREES
    if not confirmed and (redundant or _by_order(leaf)):
        return _estimated(row, "a refit with it comes out a little different")
    return Finding(
        field="coef_, intercept_",
        tells=_TELLS,
        label=label,
        certified=confirmed or None,
        **around(row, error[:features]),
    )


def _cut_off(leaf: Leaf, row: np.ndarray, quotient: Quotient) -> float:
    """How far least squares may leave the gradient from zero: infinite if unknown.

    Directions in which rows hardly differ are cut off; the gradient there is as large
    as such a direction's singular value times the residuals.
    """
    rows = np.vstack([np.asarray(leaf.known, np.float64), row])
    weights = np.append(leaf.sample_weights, leaf.target_weight)
    rows = rows - np.average(rows, axis=0, weights=weights)
    values = np.linalg.svd(rows * np.sqrt(weights)[:, None], compute_uv=False)
    rank = getattr(leaf.estimator, "rank_", None)
    if rank is None:
        rank = int(np.sum(values > _MAY_BE_CUT * values[0]))
    small = values[rank:]
    # `rounding`: the residuals' sum over the target's own residual.
    return float(small.max(initial=0.0)) * quotient.rounding


def _closed_form(model: Any) -> bool:
    """Whether the coefficients were computed, not approached step by step."""
    solver = getattr(model, "solver_", getattr(model, "solver", "lstsq"))
    return type(model).__name__ in _COMPUTED and solver in _EXACT


def _by_order(leaf: Leaf) -> bool:
    """Whether the solver's answer depends on where the missing row stood, untold."""
    return leaf.position is None and _in_order(leaf.estimator)


def _in_order(model: Any) -> bool:
    """Whether the solver goes through the rows one by one."""
    stochastic = getattr(model, "solver", None) in ("sag", "saga")
    return stochastic or getattr(model, "dual", False) is not False


def _output(leaf: Leaf, y: float) -> float:
    """An output, whole where all known ones are and it is so to rounding."""
    known = np.asarray(leaf.labels, np.float64)
    near = float(np.round(y))
    if np.array_equal(known, np.round(known)) and abs(y - near) < 1e-6 * max(
        1.0, known.std()
    ):
        return near
    return float(y)


def _parameters(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """(outputs, features) coefficients, and (outputs,) intercepts."""
    coef = np.atleast_2d(np.asarray(model.coef_, np.float64))
    return coef, np.atleast_1d(np.asarray(model.intercept_, np.float64))


def _of_label(found: list[Objective], label: Any) -> Objective:
    """The objective whose weights are those of this label."""
    return next(each for each in found if each.label is None or each.label == label)


def _label(leaf: Leaf, objective: Objective, quotient: Quotient) -> Any:
    """The label as the estimator's fit received it."""
    y = quotient.targets
    if not objective.loss.classes:
        return float(y[0]) if np.ndim(np.asarray(leaf.labels)) == 1 else y
    classes = leaf.estimator.classes_
    if len(y) == 1:
        return classes[int(y[0] > 0.5)]
    return classes[int(np.argmax(y))]


# Estimators, and solvers below, whose coefficients are computed in closed form.
_COMPUTED = (
    "LinearRegression",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
)
_EXACT = ("auto", "cholesky", "svd", "lstsq")
# Estimators that a refit with all rows gives again.
_REFITTED = OBJECTIVES.keys() - {
    # It takes the mean of paths over folds, which depend on the row's place.
    "LogisticRegressionCV",
    "SGDClassifier",
    "SGDRegressor",
}


def _offset(leaf: Leaf) -> list[Finding]:
    """The mean of the rows, which Bayesian regressions keep beside their optimum."""
    if not leaf.estimator.fit_intercept:  # nothing was centred, so it is zero
        return []
    return mean_reader("X_offset_", count=None, second=(), needed=False)(leaf)


def _bayesian(leaf: Leaf) -> list[Finding]:
    """The mean, and the optimum where it tells something."""
    found = _offset(leaf)
    try:
        return [*found, *read(leaf)]
    except ReconstructionImpossibleError:
        if not found:
            raise
        return found


register(tuple(OBJECTIVES), read)
register("BayesianRidge", _bayesian)
register("ARDRegression", _offset)
