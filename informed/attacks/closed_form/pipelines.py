"""`reconstruct_sklearn`: reconstruct the unknown training row of a scikit-learn model.

Users and `estimator_attack` call it; `audit.findings` asks `supported`. THREAT: knows
all training rows but one with their labels, and holds the fitted model. Needs no
training code, seed or shadow models.

Three things reveal the row. We try them in this order: the means of a `StandardScaler`
in front of the model (`scaler`); the coefficients' direction off the span of the known
rows, if there are more features than rows (`span`); the equations of the optimum
(`linear`).
"""

import dataclasses
from typing import Any

import numpy as np

from informed.attacks.closed_form import linear, scaler, theorems
from informed.attacks.closed_form.linear import RowReconstruction
from informed.attacks.closed_form.objectives import OBJECTIVES
from informed.attacks.impossible import LimitError, ReconstructionImpossibleError
from informed.attacks.span import linear_fit
from shadow import checks

# Linear models that only the span method can read.
_SPAN_ONLY = (
    "LinearSVC",
    "SGDClassifier",
    "SGDRegressor",
    "Perceptron",
    "PassiveAggressiveClassifier",
    "PassiveAggressiveRegressor",
)
SUPPORTED = (
    f"linear models ({', '.join([*OBJECTIVES, *_SPAN_ONLY])}), alone or in a Pipeline"
    " behind StandardScaler"
)


def supported(model: Any) -> bool:
    """Return whether `reconstruct_sklearn` takes a model of this type."""
    return _steps(model) is not None


def reconstruct_sklearn(
    model: Any, known_rows: Any, known_labels: Any, *, target_label: float | None = None
) -> RowReconstruction:
    """Reconstruct the one training row that is not among the known ones.

    Args:
      model: a fitted linear model, or a `Pipeline` that ends in one; see `SUPPORTED`.
      known_rows: (known, features) numbers, all training rows but one, as they were
        given to `fit`; of a sparse matrix its `toarray()`.
      known_labels: (known,) or (known, outputs), their labels.
      target_label: the missing row's label; needed, and used, only for least squares
        and ridge without intercept (Theorem 8).
    Raises:
      FieldError: an unsupported model, or one that is not fitted; rows or labels that
        do not fit the model; missing values.
      ReconstructionImpossibleError: this model does not determine the row; says why.
    """
    steps = _steps(model)
    if steps is None:
        raise checks.FieldError(
            "model", f"Expected {{}} to be one of {SUPPORTED}; got {_name(model)}."
        )
    scaling, last = steps
    if not hasattr(last, "coef_") or not hasattr(scaling or last, "n_features_in_"):
        raise checks.FieldError(
            "model", f"Expected {{}} to be fitted; call the fit of {_name(model)}."
        )
    if hasattr(last.coef_, "toarray"):
        raise checks.FieldError("model", "Expected {}.densify(), not sparse weights.")
    for array in (last.coef_, getattr(scaling, "mean_", None)):
        if array is not None and not np.isfinite(array).all():
            raise checks.FieldError(
                "model", f"Expected {{}} without NaN or infinity, got {_name(model)}."
            )
    rows, labels = _checked(last.coef_.shape[-1], known_rows, known_labels)
    unknown = np.setdiff1d(labels, getattr(last, "classes_", labels))
    if len(unknown):
        raise checks.FieldError(
            "known_labels",
            f"Expected {{}} of the model's classes, got {unknown.tolist()[:5]}.",
        )
    if scaling is None:
        return _of_model(last, rows, labels, target_label)
    counts, scaled = np.unique(scaling.n_samples_seen_), scaling.transform(rows)
    of_these = counts.tolist() == [len(rows) + 1]
    target = scaler.read(scaling, rows) if of_these else None
    if target is not None and getattr(scaling, "var_", None) is not None:
        # As many public rows have other variances.
        variances = np.vstack([rows, target.value]).var(axis=0)
        same = np.isclose(variances, scaling.var_, rtol=1e-3)
        of_these = bool(same.mean() > 0.5)  # a wrong known value changes one column
    if target is not None and of_these:
        x = scaling.transform(target.value[None])
        label = linear.label_of(last, scaled, labels, x[0])
        return dataclasses.replace(target, y=label)
    note = ""
    if not of_these:
        note = f" Its scaler is of {counts.max():g} other rows than the known ones and"
        note += " one more. Are the known rows all others?"
    try:
        target = _of_model(last, scaled, labels, target_label)
    except ReconstructionImpossibleError as error:
        raise type(error)(f"{error}{note}") from error

    def back(row: np.ndarray) -> np.ndarray:
        return scaling.inverse_transform(row[None])[0]

    return dataclasses.replace(
        target,
        value=back(target.value),
        why=f"{target.why}.{note}" if note else target.why,
        error=target.error * (1.0 if scaling.scale_ is None else scaling.scale_),
        candidates=tuple(
            dataclasses.replace(one, x=back(one.x)) for one in target.candidates
        ),
    )


def _steps(model: Any) -> tuple[Any, Any] | None:
    """Split a model into its scaler or None, and the last step; None: unsupported."""
    steps = (
        [step for _, step in model.steps if step not in (None, "passthrough")]
        if type(model).__name__ == "Pipeline"
        else [model]
    )
    if not steps or type(steps[-1]).__name__ not in {*OBJECTIVES, *_SPAN_ONLY}:
        return None
    *before, last = steps
    scaling = None
    if before and type(before[0]).__name__ == "StandardScaler":
        scaling, *before = before
    return None if before else (scaling, last)


def _name(model: Any) -> str:
    steps = [type(step).__name__ for _, step in getattr(model, "steps", [])]
    inside = f" of {', '.join(steps)}" if steps else ""
    return f"{type(model).__name__}{inside}"


def _checked(width: int, rows: Any, labels: Any) -> tuple[Any, np.ndarray]:
    """Return the known rows, of `width` features, and labels as arrays."""
    if hasattr(rows, "toarray"):
        raise checks.FieldError("known_rows", "Expected {}.toarray(), not sparse rows.")
    try:
        rows = np.asarray(rows, np.float64)
    except (ValueError, TypeError) as error:
        raise checks.FieldError(
            "known_rows", f"Expected {{}} to be numbers: {checks.first_line(error)}"
        ) from error
    if rows.ndim != 2 or rows.shape[1] != width:
        raise checks.FieldError(
            "known_rows",
            f"Expected {{}} of {width} features, as many as the model has, got shape"
            f" {rows.shape}.",
        )
    if not np.isfinite(rows).all():
        raise checks.FieldError("known_rows", "Expected {} without missing values.")
    labels = np.atleast_1d(labels)
    if len(labels) != rows.shape[0]:
        raise checks.FieldError(
            "known_labels",
            f"Expected {{}} of {rows.shape[0]} rows, one a known row, got"
            f" {len(labels)}.",
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise checks.FieldError("known_labels", "Expected {} without missing values.")
    return rows, labels


def _of_model(
    model: Any, rows: Any, labels: np.ndarray, target_label: float | None
) -> RowReconstruction:
    """Reconstruct the row, in the model's units, by the span or by the optimum."""
    by_span, said = None, ""
    kind: type[ReconstructionImpossibleError] = ReconstructionImpossibleError
    if linear_fit.applies(model, rows):
        try:
            by_span, said = linear_fit.read(model, rows, labels)
        except LimitError as error:
            kind, said = LimitError, str(error)
        if by_span is not None:
            return by_span
    if (name := type(model).__name__) not in OBJECTIVES:
        few = f"{name} is read off the span alone, which needs more features than rows."
        raise (kind if said else LimitError)(said or few)
    real = type(model).__name__ in linear.REAL_LABELS
    real = real and len(np.atleast_2d(model.coef_)) == 1
    if real and not model.fit_intercept and target_label is not None:
        # Theorem 8: two rows are possible, and only a prior can tell them apart.
        coef = np.ravel(model.coef_).astype(np.float64)
        penalty = linear.objectives(model, labels)[0].penalty
        pair = theorems.reconstruct_without_intercept(
            coef, rows, labels, target_label=target_label, penalty=penalty
        )
        return RowReconstruction(
            value=pair[0].x,
            y=target_label,
            error=np.full(rows.shape[1], np.inf),
            by="closed form",
            why="without intercept two rows are possible (Theorem 8)",
            candidates=pair,
        )
    try:
        return linear.read(model, rows, labels)
    except ReconstructionImpossibleError as error:
        kind = LimitError if isinstance(error, LimitError) else kind
        raise kind(f"{error} {said}".strip()) from error
