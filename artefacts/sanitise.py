"""A copy of an estimator without what predictions don't use, and what that is worth.

Predictions stay equal bit for bit: they are compared on a probe, and what changes them
is put back.

What this does not do: hide the row from somebody who knows all others. A mean that
predictions need gives the row with the count, and the count is theirs to know. The
copy says so in every line that is "kept". After stripping, all that is left is looked
through once more for arrays a training set long and for training values; what can go
goes, and the rest is named. What does help: not shipping the rows or the means at all
(another kind of model), or noise (differential privacy). To fold a scaler into the
linear model behind it doesn't: who knows that it was done has an equation for each
feature of the row (tests/artefacts/test_sanitise.py solves them).
"""

import contextlib
import copy
import dataclasses
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from artefacts import contents, registry, strip
from artefacts.findings import Removed
from shadow import checks

_PROBES = (
    "predict_proba",
    "decision_function",
    "predict",
    "transform",
    "score_samples",
    "kneighbors",
)
_RESULT = "kept: it is the result, and nothing else of it can be used"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sanitised:
    """A stripped copy.

    Attributes:
      estimator: the stripped copy; the original is as it was.
      removed: what was removed or zeroed, and what had to stay.
      equal: whether predictions on the probe are equal bit for bit.
      compared: whether known rows were there to compare what is left with; if not,
        arrays were only looked through for numbers of rows.
    """

    estimator: Any
    removed: tuple[Removed, ...]
    equal: bool
    compared: bool = False

    @property
    def kept(self) -> tuple[Removed, ...]:
        """What had to stay, although it tells of the training rows, and why."""
        return tuple(each for each in self.removed if each.action.startswith("kept"))


def sanitise(
    estimator: Any,
    probe: Any = None,
    *,
    known: Any = None,
) -> Sanitised:
    """Copy an estimator without what its predictions don't need.

    Args:
      estimator: a fitted estimator; it stays as it is.
      probe: rows on which predictions have to stay equal; None: drawn at random, as
        normal numbers of the estimator's width (give real rows for categories, counts
        and texts).
      known: training rows as they were given to `fit`, all or all but one: what is left
        is then compared with them, as each step got them; None: it is looked through
        for arrays with as many entries as there were rows.
    Returns: the copy, and what was done.
    Raises: FieldError: not a fitted estimator, or a probe is needed.
    """
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise checks.FieldError(
            "estimator",
            "Expected {} to be a fitted scikit-learn estimator, got"
            f" {type(estimator).__name__}.",
        )
    rows = _probe(estimator, probe)
    made = copy.deepcopy(estimator)
    # Of the copy: where arrays lie otherwise in memory, sums end in other digits.
    before = _predictions(made, rows)
    removed: list[Removed] = []
    # One by one: what is put back into a part is a copy, with other parts in it.
    for path, part in _parts(made, ""):
        # Templates that ensembles clone their members from aren't fitted; their seed
        # makes those of the members again.
        if "imputation_sequence_" in path:
            # An imputer asks its members where values are missing, as in few probes.
            removed.append(strip.kept(path, "its imputer needs it where values miss"))
        elif _is_fitted(part):
            removed += _stripped(made, part, path, rows)
        else:
            removed += _seed_off(part, path)
    removed += leftovers(made, rows, removed, estimator, known)
    return Sanitised(
        estimator=made,
        removed=tuple(removed),
        equal=_unchanged(made, rows, before),
        compared=known is not None,
    )


def leftovers(
    made: Any, rows: Any, done: list[Removed], original: Any, known: Any
) -> list[Removed]:
    """What is left of the training set after stripping: removed, or named as kept.

    Args:
      made: the stripped copy, which is changed in place.
      rows: the probe, on which predictions have to stay equal.
      done: what stripping has removed or named already.
      original: the estimator before it was stripped, with its counts of rows.
      known: training rows as they were given to `fit`; None: none are at hand.
    """
    compared = contents.training(original, known, counts=_row_counts(original))
    named = {
        word.strip().partition(" ")[0]
        for each in done
        for word in each.field.split(",")
        if each.action.startswith("kept")
    }
    found: list[Removed] = []
    for path, part in _parts(made, ""):
        prefix = f"{path}." if path else ""
        settings = part.get_params(deep=False) if hasattr(part, "get_params") else {}
        plain = compared.values.size == 0 and not compared.counts
        for name in list(vars(part)):
            if name == "feature_names_in_" or name in contents.PLACES:
                continue
            own = part if plain else None
            told = _told(vars(part)[name], name, compared, own, name in settings)
            already = f"{prefix}{name}" in named or (not path and name in named)
            if told is not None and not already:
                # A setting stays as an attribute, with nothing in it, so that `clone`
                # works.
                empty = name in settings
                found.append(_left(made, part, name, prefix, told, rows, empty))
    return found


def _told(value: Any, name: str, compared: Any, part: Any, setting: bool) -> str | None:
    """What an attribute holds of the training set; other estimators in it apart.

    A setting is as long as somebody chose; it counts if rows or values are in it.
    """
    reasons = []
    for path, array in contents.arrays(value, name, inside=False):
        held = compared.held(array, path)
        if setting and (held is None or not (held.rows or held.values)):
            continue
        if held is not None:
            reasons.append(held.why)
        elif part is not None and _unexplained(array, part):
            reasons.append("as many entries as there may have been rows")
    if isinstance(value, BaseEstimator):
        return None
    return max(reasons, key=len) if reasons else None


def _left(
    whole: Any, part: Any, name: str, prefix: str, told: str, rows: Any, empty: bool
) -> Removed:
    """Take an attribute off, or keep it where something needs it."""
    reference = _predictions(whole, rows)
    value = vars(part)[name]
    if not reference and not name.startswith("_"):
        return strip.done(f"{prefix}{name}", _RESULT, f"it holds {told}")
    if empty:
        setattr(part, name, None)
    else:
        delattr(part, name)
    if _unchanged(whole, rows, reference) and _is_fitted(part):
        why = f"predictions don't use it; it held {told}"
        return strip.done(f"{prefix}{name}", "removed", why)
    setattr(part, name, value)
    return strip.kept(f"{prefix}{name}", f"it holds {told}")


_COUNTS = ("n_samples_seen_", "n_samples_fit_", "n_samples_", "_n_samples")
_LONG = ("labels_", "_fit_X", "X_fit_", "X_train_", "X_")


def _row_counts(estimator: Any) -> set[int]:
    """Numbers of rows that an estimator stores, or shows by the length of a field."""
    counts: set[int] = set()
    for _, part in _parts(estimator, ""):
        for name in _COUNTS:
            stored = getattr(part, name, None)
            if stored is not None and np.ndim(stored) == 0:
                counts.add(int(stored))
        for name in _LONG:
            stored = vars(part).get(name)
            if getattr(stored, "shape", None):
                counts.add(int(stored.shape[0]))
        shape = vars(part).get("shape_fit_")
        if shape and shape[0]:
            counts.add(int(shape[0]))
        if hasattr(part, "tree_") and hasattr(part.tree_, "n_node_samples"):
            counts.add(int(part.tree_.n_node_samples[0]))
    return counts


def _unexplained(array: np.ndarray, part: Any) -> bool:
    """Whether an array is as long as nothing else that the estimator counts."""
    explained = {0, 1, 2}
    for name, value in vars(part).items():
        values = value if isinstance(value, (list, tuple)) else [value]
        for each in values:
            if isinstance(each, (int, np.integer)) and not isinstance(each, bool):
                explained |= {int(each), int(each) + 1}
        if name == "classes_" and hasattr(value, "__len__"):
            explained |= {len(value), len(value) * (len(value) - 1) // 2}
    return any(length not in explained for length in array.shape)


def _stripped(whole: Any, part: Any, path: str, rows: Any) -> list[Removed]:
    """Take fields off one part; all of them back if predictions change."""
    # A deep copy, because strippers change arrays and trees in place.
    saved = copy.deepcopy(vars(part))
    reference = _predictions(whole, rows)
    removed = strip.strip(part)
    done = {each.field for each in removed}
    for field, why in strip.ANYWHERE.items():
        if field in vars(part) and field not in done:
            delattr(part, field)
            removed.append(strip.done(field, "removed", why))
    kind = registry.kind_of(type(part).__name__)
    if kind.strip is None and kind.parts is None:
        why = "there is no list of what its predictions don't need: not looked at"
        removed.append(strip.kept(type(part).__name__, why))
    removed += [each for each in _seed_off(part, "") if each.field not in done]
    if removed and not _unchanged(whole, rows, reference):
        vars(part).clear()
        vars(part).update(saved)
        removed = [
            dataclasses.replace(each, action=strip.NEEDED, why="predictions changed")
            for each in removed
        ]
    prefix = f"{path}." if path else ""
    return [
        dataclasses.replace(each, field=f"{prefix}{each.field}") for each in removed
    ]


def _seed_off(part: Any, path: str) -> list[Removed]:
    """The seed of an estimator taken off, and those of what splits rows for it."""
    removed = []
    places = [(part, path)]
    for name in ("cv", "_checked_cv_orig"):
        if hasattr(getattr(part, name, None), "split"):
            places.append((getattr(part, name), f"{path}.{name}" if path else name))
    for each, where in places:
        if getattr(each, "random_state", None) is not None:
            each.random_state = None
            field = f"{where}.random_state" if where else "random_state"
            removed.append(strip.done(field, "removed", _DRAWS))
    # What a search tried holds the seed of what it found.
    for name in ("best_params_", "param_grid", "param_distributions"):
        settings = getattr(part, name, None)
        for each in settings if isinstance(settings, list) else [settings]:
            if not isinstance(each, dict):
                continue
            for key in [key for key in each if key.endswith("random_state")]:
                del each[key]
                field = f"{path}.{name}" if path else name
                removed.append(strip.done(f"{field}[{key!r}]", "removed", _DRAWS))
    return removed


_DRAWS = "only training draws from it"


def _unchanged(whole: Any, rows: Any, reference: dict[str, np.ndarray]) -> bool:
    """Whether predictions are what they were, bit for bit, also of a copy in a file."""
    written = b""
    # What can't be written, such as a function in it, isn't shipped in a file.
    with contextlib.suppress(pickle.PicklingError, AttributeError, TypeError):
        written = pickle.dumps(whole)
    try:
        after = [_predictions(whole, rows)]
        if written:
            after.append(_predictions(pickle.loads(written), rows))
    except Exception:
        # A step that lost what its transform needs raises errors of many kinds.
        return False
    return all(_same(reference, each) for each in after)


def _is_fitted(part: Any) -> bool:
    """Whether scikit-learn takes it for fitted."""
    try:
        check_is_fitted(part)
    except (NotFittedError, TypeError):
        return False
    return True


def _parts(
    estimator: Any, path: str, seen: dict[int, Any] | None = None
) -> Iterator[tuple[str, Any]]:
    """The estimator and all estimators that it holds, each once."""
    seen = {} if seen is None else seen
    seen[id(estimator)] = estimator
    yield path, estimator
    for name, value in list(vars(estimator).items()):
        for where, inner in contents.inner(value, name):
            if id(inner) not in seen:
                yield from _parts(inner, f"{path}.{where}" if path else where, seen)


def _probe(estimator: Any, probe: Any) -> Any:
    """Rows to compare predictions on."""
    if probe is not None:
        return probe
    width = getattr(estimator, "n_features_in_", None)
    if width is None:
        raise checks.FieldError(
            "probe",
            "Expected {} with some rows to compare predictions on, got None: the"
            " estimator doesn't say how wide its input is.",
        )
    rng = np.random.default_rng(0)
    rows = np.abs(rng.normal(size=(64, int(width)))) * rng.choice(
        [0.1, 1.0, 10.0, 100.0], size=(64, 1)
    )
    try:
        _predictions(estimator, rows)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise checks.FieldError(
            "probe",
            "Expected {} with some real rows: this estimator takes no random numbers"
            f" ({error}).",
        ) from error
    return rows


@contextlib.contextmanager
def _fixed_draws() -> Iterator[None]:
    """numpy's own state, which an estimator without `random_state` draws from."""
    state = np.random.get_state()  # noqa: NPY002 (scikit-learn draws from it)
    np.random.seed(0)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _predictions(estimator: Any, rows: Any) -> dict[str, np.ndarray]:
    """All outputs on the probe; those that are drawn at random, from one fixed state.

    Raises: whatever the estimator raises, where none of its outputs works.
    """
    made: dict[str, np.ndarray] = {}
    failure: Exception | None = None
    for name in _PROBES:
        if not hasattr(estimator, name):
            continue
        if (name == "transform" and "predict" in made) or (
            name == "kneighbors" and made
        ):
            # It is a model; where it is a step as well, the whole's predictions tell.
            continue
        try:
            with warnings.catch_warnings(), _fixed_draws():
                warnings.simplefilter("ignore")
                out = getattr(estimator, name)(rows)
        except (AttributeError, np.linalg.LinAlgError) as error:
            failure = error
            continue
        out = out.toarray() if hasattr(out, "toarray") else out
        if isinstance(out, (list, tuple)):
            out = np.hstack([np.asarray(each) for each in out])
        made[name] = np.asarray(out)
    if not made and failure is not None:
        raise failure
    return made


def _same(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> bool:
    """Whether all outputs are still there and equal, bit for bit."""
    return all(
        name in after
        and np.array_equal(old, after[name], equal_nan=old.dtype.kind in "fc")
        for name, old in before.items()
    )
