"""What is told of a transformer's output, as what that tells of its input.

Everything that a fitted transformer was fitted to lies in the artefact, so that what
the model behind it tells in its own units can be carried back: numbers as bounds, words
by name, as the category whose column of an encoding is surely one, or whose code is
told. A transformer that mixes or forgets carries back nothing.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, special

from artefacts import encodings, registry
from artefacts.findings import EPS, Box, nothing
from artefacts.registry import register

# From an end of the uniform distribution, what scikit-learn's QuantileTransformer takes
# for the end.
_QUANTILE_EDGE = 1e-7


class Told(NamedTuple):
    """What is told of a row.

    Attributes:
      bounds: (features,) each, lower and upper; None: nothing is told of numbers.
      values: (features,) object, values by name, None where nothing is told; None:
        nothing is told by name.
    """

    bounds: Box | None = None
    values: np.ndarray | None = None


def exactly(row: np.ndarray) -> Told:
    """A row as it is: of numbers as bounds, else by name."""
    try:
        point = np.asarray(row, np.float64)
    except (ValueError, TypeError):  # words
        return Told(values=row)
    return Told((point, point))


def pull(transformer: Any, told: Told, features: int) -> Told:
    """What is told of the input, from what is told of the output.

    Args:
      transformer: a fitted transformer; "passthrough" and None are the identity.
      features: how many features the transformer's input has.
    """
    if transformer is None or transformer == "passthrough":
        return told
    kind = type(transformer).__name__
    if kind == "FrozenEstimator":
        return pull(transformer.estimator, told, features)
    if kind in _PARTS:
        bounds, values = _PARTS[kind](transformer, told, features)
    else:
        bounds = _numbers(transformer, told.bounds, features)
        values = _by_name(transformer, kind, told, features)
    return Told(_widened(bounds), values)


def _numbers(transformer: Any, bounds: Box | None, features: int) -> Box | None:
    inverse = registry.kind_of(type(transformer).__name__).inverse
    if bounds is None:
        return None
    if inverse is not None:
        return inverse(transformer, bounds, features)
    if hasattr(transformer, "get_support"):
        return _selected(transformer, bounds, features)
    return None


def _by_name(
    transformer: Any, kind: str, told: Told, features: int
) -> np.ndarray | None:
    if kind in encodings.CODES:
        bounds = told.bounds
        return None if bounds is None else encodings.categories(transformer, bounds)
    if told.values is None:
        return None
    if kind == "SimpleImputer":
        return _imputed(transformer, told.values, features)
    if hasattr(transformer, "get_support"):
        return placed(told.values, transformer.get_support(), features)
    return None


def _widened(bounds: Box | None) -> Box | None:
    """Room for the rounding of the way back."""
    if bounds is None:
        return None
    lower, upper = bounds
    return lower - 8 * EPS * np.abs(lower), upper + 8 * EPS * np.abs(upper)


def _affine(bounds: Box, scale: np.ndarray | float, offset: np.ndarray | float) -> Box:
    """x = z scale + offset, scale > 0; rounding of both terms."""
    lower, upper = bounds
    low, high = lower * scale + offset, upper * scale + offset
    room = 8 * EPS * np.abs(offset)
    return low - room, high + room


def _standard(scaler: Any, bounds: Box, features: int) -> Box:
    scale = 1.0 if scaler.scale_ is None else scaler.scale_
    mean = scaler.mean_ if scaler.with_mean else 0.0
    return _affine(bounds, scale, mean)


def _min_max(scaler: Any, bounds: Box, features: int) -> Box:
    lower, upper = bounds
    if scaler.clip:
        a, b = scaler.feature_range
        lower = np.where(lower <= a, -np.inf, lower)
        upper = np.where(upper >= b, np.inf, upper)
    return _affine((lower, upper), 1 / scaler.scale_, -scaler.min_ / scaler.scale_)


def _max_abs(scaler: Any, bounds: Box, features: int) -> Box:
    return _affine(bounds, scaler.scale_, 0.0)


def _robust(scaler: Any, bounds: Box, features: int) -> Box:
    scale = 1.0 if scaler.scale_ is None else scaler.scale_
    centre = 0.0 if scaler.center_ is None else scaler.center_
    return _affine(bounds, scale, centre)


def _power(transformer: Any, bounds: Box, features: int) -> Box:
    """Monotone, one feature at a time; ends that leave its range stay open."""
    ends = []
    slack = _power_rounding(transformer, bounds)
    for end in (bounds[0] - slack, bounds[1] + slack):
        finite = np.isfinite(end)
        with np.errstate(all="ignore"):
            back = transformer.inverse_transform(np.where(finite, end, 0.0)[None])[0]
        ends.append(np.where(finite & np.isfinite(back), back, np.nan))
    # Powers lose some of the sixteen digits.
    room = 1e-11 * (np.abs(ends[0]) + np.abs(ends[1]))
    lower = np.where(np.isfinite(ends[0]), ends[0] - room, -np.inf)
    return lower, np.where(np.isfinite(ends[1]), ends[1] + room, np.inf)


def _power_rounding(transformer: Any, bounds: Box) -> np.ndarray:
    """What the rounding of powers changes of the output.

    (x^lambda - 1) / lambda has an error of 1 / lambda roundings, however large it is:
    where powers are tiny, numbers that differ become nearly one.
    """
    power = np.abs(np.asarray(transformer.lambdas_, np.float64))
    error = np.where(power > EPS, 1 / np.maximum(power, EPS), 0.0)
    scaler = getattr(transformer, "_scaler", None)
    scale = np.ones(len(power)) if scaler is None else np.asarray(scaler.scale_)
    mean = np.zeros(len(power)) if scaler is None else np.asarray(scaler.mean_)
    largest = np.zeros(len(power))
    for end in bounds:
        finite = np.isfinite(end)
        plain = np.abs(np.where(finite, end, 0.0) * scale + mean)
        largest = np.maximum(largest, plain)
    return 16 * EPS * (error + largest + np.abs(mean)) / scale


def _quantile(transformer: Any, bounds: Box, features: int) -> Box:
    """Monotone, one feature at a time; the first and the last quantile stay open."""
    ends = []
    normal = transformer.output_distribution == "normal"
    # scikit-learn puts what is at the ends of the distribution there.
    edge = -special.ndtri(_QUANTILE_EDGE) if normal else 1.0
    first, last = (-edge, edge) if normal else (0.0, edge)
    for end, room in ((bounds[0], -1e-9), (bounds[1], 1e-9)):
        moved = np.clip(end + room * np.maximum(1.0, np.abs(end)), first, last)
        inside = np.isfinite(end) & (moved > first) & (moved < last)
        back = transformer.inverse_transform(np.where(inside, moved, 0.5)[None])[0]
        ends.append(np.where(inside, back, np.nan))
    if normal:  # what is as near to an end as this is put on it
        low, high = transformer.quantiles_[0], transformer.quantiles_[-1]
        ends[0] = np.where(ends[0] > high - _QUANTILE_EDGE, np.nan, ends[0])
        ends[1] = np.where(ends[1] < low + _QUANTILE_EDGE, np.nan, ends[1])
    wide = np.nan_to_num(1e-11 * (np.abs(ends[0]) + np.abs(ends[1])))
    lower = np.where(np.isfinite(ends[0]), ends[0] - wide, -np.inf)
    return lower, np.where(np.isfinite(ends[1]), ends[1] + wide, np.inf)


def _imputer(imputer: Any, bounds: Box, features: int) -> Box | None:
    """Identity, but what equals the statistic may have been missing."""
    statistics = np.asarray(imputer.statistics_)
    if statistics.dtype.kind not in "fiu":
        return None
    kept = (
        np.ones(features, bool)
        if imputer.keep_empty_features
        else np.isfinite(statistics.astype(np.float64))
    )
    lower, upper = nothing(features)
    lower[kept] = bounds[0][: kept.sum()]
    upper[kept] = bounds[1][: kept.sum()]
    inside = (lower <= statistics) & (statistics <= upper)
    return np.where(inside, -np.inf, lower), np.where(inside, np.inf, upper)


def _components(pca: Any, bounds: Box, features: int) -> Box | None:
    """All components are a rotation; fewer forget."""
    v = np.asarray(pca.components_, np.float64)
    if len(v) != features:
        return None
    lower, upper = bounds
    if getattr(pca, "whiten", False):
        sizes = np.sqrt(pca.explained_variance_)
        lower, upper = lower * sizes, upper * sizes
    if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper))):
        return None
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    centre = middle @ v + pca.mean_
    wide = half @ np.abs(v) + 32 * EPS * (np.abs(middle) @ np.abs(v))
    return centre - wide, centre + wide


def _selected(transformer: Any, bounds: Box, features: int) -> Box:
    lower, upper = nothing(features)
    kept = transformer.get_support()
    lower[kept], upper[kept] = bounds
    return lower, upper


def _polynomial(transformer: Any, bounds: Box, features: int) -> Box:
    """Terms of degree one are the features."""
    lower, upper = nothing(features)
    for at, powers in enumerate(transformer.powers_):
        if powers.sum() == 1:
            j = int(np.argmax(powers))
            lower[j], upper[j] = bounds[0][at], bounds[1][at]
    return lower, upper


def _bins(model: Any, bounds: Box, features: int) -> Box | None:
    """A bin that is told bounds the value, several possible ones together."""
    lower, upper = nothing(features)
    at = 0
    for j, edges in enumerate(model.bin_edges_):
        count = len(edges) - 1
        if model.encode == "ordinal":
            low, high = bounds[0][j] - 1e-9, bounds[1][j] + 1e-9
            possible = np.flatnonzero(
                (np.arange(count) >= low) & (np.arange(count) <= high)
            )
        else:
            here = slice(at, at + count)
            at += count
            ones = bounds[0][here] > 0.5
            possible = np.flatnonzero(
                ones if ones.sum() == 1 else bounds[1][here] > 0.5
            )
        if not len(possible):
            continue
        first, last = possible[0], possible[-1]
        # What lies outside the first and the last edge is put into their bins.
        lower[j] = edges[first] if first > 0 else -np.inf
        upper[j] = edges[last + 1] if last < count - 1 else np.inf
    return lower, upper


def _cut(told: Told, out: slice) -> Told:
    """What is told of a part's outputs."""
    bounds, values = told
    return Told(
        None if bounds is None else (bounds[0][out], bounds[1][out]),
        None if values is None else values[out],
    )


def _blank(features: int) -> tuple[Box, np.ndarray]:
    return nothing(features), np.full(features, None, dtype=object)


def _add(
    bounds: Box, values: np.ndarray, told: Told, columns: Any = slice(None)
) -> None:
    """Put what one part tells of some columns to what others do, in place."""
    if told.bounds is not None:
        bounds[0][columns] = np.maximum(bounds[0][columns], told.bounds[0])
        bounds[1][columns] = np.minimum(bounds[1][columns], told.bounds[1])
    if told.values is not None:
        missing = np.array([each is None for each in told.values], bool)
        values[columns] = np.where(missing, values[columns], told.values)


def _columns(transformer: Any, told: Told, features: int) -> Told:
    """Every part has its slice of the output and its columns of the input."""
    found = _blank(features)
    for name, part, _ in transformer.transformers_:
        out = transformer.output_indices_.get(name)
        if part == "drop" or out is None or out.start == out.stop:
            continue
        columns = columns_of(transformer, name)
        _add(*found, pull(part, _cut(told, out), len(columns)), columns)
    return Told(*found)


def columns_of(transformer: Any, name: str) -> np.ndarray:
    """Input columns of one part of a ColumnTransformer."""
    return np.asarray(transformer._transformer_to_input_indices[name], dtype=int)


def _union(union: Any, told: Told, features: int) -> Told:
    """Parts whose output width is known from their features."""
    found, at = _blank(features), 0
    for _, part in union.transformer_list:
        wide = 0 if part == "drop" else width(part, features)
        if wide is None:
            break
        if wide:
            _add(*found, pull(part, _cut(told, slice(at, at + wide)), features))
        at += wide
    return Told(*found)


def width(part: Any, features: int) -> int | None:
    """How many outputs a transformer has; None: that can't be told."""
    if part is None or part == "passthrough":
        return features
    try:
        made = part.transform(np.zeros((1, features)))
    except (ValueError, TypeError, AttributeError):
        return None
    return int(made.shape[1]) if np.ndim(made) == 2 or sparse.issparse(made) else None


def _chain(pipeline: Any, told: Told, features: int) -> Told:
    """Backwards through the steps."""
    steps = [step for _, step in pipeline.steps]
    widths: list[int | None] = [features]
    for before, step in itertools.pairwise(steps):
        # A fitted step knows, where it isn't one that takes anything.
        own, last = getattr(step, "n_features_in_", None), widths[-1]
        widths.append(own or (None if last is None else width(before, last)))
    for step, each in zip(reversed(steps), reversed(widths), strict=True):
        if each is None:
            return Told()
        told = pull(step, told, each)
    return told


def placed(values: np.ndarray, at: np.ndarray, features: int) -> np.ndarray:
    """Values at some places of a row of which nothing else is told."""
    found = np.full(features, None, dtype=object)
    found[at] = values
    return found


def _imputed(imputer: Any, values: np.ndarray, features: int) -> np.ndarray:
    """Identity, but what equals the statistic may have been missing."""
    statistics = np.asarray(imputer.statistics_, dtype=object)
    kept = np.array([each == each for each in statistics], bool)
    kept |= imputer.keep_empty_features
    found = placed(values[: kept.sum()], kept, features)
    for j, told in enumerate(found):
        if told is not None and told == statistics[j]:
            found[j] = None
    return found


def _function(transformer: Any, bounds: Box, features: int) -> Box | None:
    return bounds if transformer.func is None else None


register("StandardScaler", inverse=_standard)
register("MinMaxScaler", inverse=_min_max)
register("MaxAbsScaler", inverse=_max_abs)
register("RobustScaler", inverse=_robust)
register("PowerTransformer", inverse=_power)
register("QuantileTransformer", inverse=_quantile)
register("SimpleImputer", inverse=_imputer)
register(("PCA", "IncrementalPCA"), inverse=_components)
register("PolynomialFeatures", inverse=_polynomial)
register("KBinsDiscretizer", inverse=_bins)
register("FunctionTransformer", inverse=_function)
_PARTS = {"ColumnTransformer": _columns, "FeatureUnion": _union, "Pipeline": _chain}
