"""All that an artefact holds, wherever it lies: arrays of rows, of values, a row long.

Readers look at the fields that they know. Estimators hold more: an estimator in an
attribute (`Isomap.nbrs_`), a tree of neighbours, lists, dicts, sparse matrices. Here
everything that a pickle of it would write is walked, and compared with the known rows
as each step got them; nothing is unpickled, and no file is opened.
"""

import collections
import dataclasses
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from artefacts.findings import spread
from artefacts.readers.rows import unmatched

# Entries of the largest array that is made dense and compared: 400 MB in float64. Of
# larger ones only the length is looked at.
_MOST = 50_000_000
# Objects in objects: deeper ones aren't walked, so that no chain of links runs on for
# ever. Estimators of scikit-learn nest a few deep.
_DEEP = 40
_PLAIN = (str, bytes, int, float, complex, bool, type(None), np.generic)
_CODE = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    np.dtype,
    np.random.RandomState,
    np.random.Generator,
    np.ufunc,
)
# Where a ColumnTransformer's parts lie, by names that the developer gave them, which
# may be words of the data all the same.
PLACES = ("output_indices_", "_transformer_to_input_indices")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Held:
    """An array that holds something of the training set.

    Attributes:
      path: where the array lies in the artefact, as attributes and indices.
      rows: how many rows of the array are known rows, as some step got them.
      values: how many entries of the array are values of known rows.
      count: whether the array has an entry for every training row.
    """

    path: str
    rows: int = 0
    values: int = 0
    count: bool = False

    @property
    def why(self) -> str:
        """What it holds, as the rest of a sentence."""
        if self.rows:
            return f"{self.rows} training rows as they are"
        if self.count:
            return "an entry for every training row"
        return f"{self.values} values of training rows"


def arrays(
    value: Any, path: str = "", *, inside: bool = True
) -> Iterator[tuple[str, np.ndarray]]:
    """Every array in an object, with its path, as a pickle of it would hold them.

    Args:
      value: any object, an estimator or what it holds.
      path: the object's own path, before which those of its arrays are put.
      inside: whether estimators in attributes are walked too.
    """
    yield from _walk(value, path, {}, inside, 0)


def _walk(
    value: Any, path: str, seen: dict[int, Any], inside: bool, depth: int
) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, (*_PLAIN, *_CODE)) or depth > _DEEP:
        return
    if id(value) in seen:
        return
    # The object is kept, so that no later one gets its number.
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        yield from _of_array(value, path, seen, inside, depth)
    elif sparse.issparse(value):
        made = value.data if np.prod(value.shape) > _MOST else value.toarray()
        yield path, np.asarray(made)
    elif hasattr(value, "to_numpy"):
        # A table or a column of pandas or polars.
        yield path, np.asarray(value.to_numpy())
    else:
        for name, part in _contents(value):
            if isinstance(part, BaseEstimator) and not inside:
                continue
            where = name if not path or name.startswith("[") else f".{name}"
            yield from _walk(part, path + where, seen, inside, depth + 1)


def _of_array(
    array: np.ndarray, path: str, seen: dict[int, Any], inside: bool, depth: int
) -> Iterator[tuple[str, np.ndarray]]:
    """An array; the fields of a structured one; the objects in one of objects."""
    if array.dtype.names:
        for name in array.dtype.names:
            yield f"{path}.{name}", array[name]
        return
    yield path, array
    if array.dtype.kind == "O" and array.size <= _MOST:
        for at, each in enumerate(array.ravel()):
            if isinstance(each, BaseEstimator) and not inside:
                continue
            yield from _walk(each, f"{path}[{at}]", seen, inside, depth + 1)


def _contents(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object is made of."""
    if isinstance(value, dict):
        if value and all(isinstance(key, str) for key in value):
            yield "[keys]", np.array(list(value), dtype=object)
        if (table := _stacked(list(value.values()))) is not None:
            yield "[values]", table
            return
        for key, part in value.items():
            yield f"[{key!r}]", part
    elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        parts = list(value)
        if (table := _stacked(parts)) is not None:
            yield "[:]", table
            return
        if parts and all(isinstance(each, _PLAIN) for each in parts):
            yield "[:]", _column(parts)
            return
        yield from ((f"[{at}]", part) for at, part in enumerate(parts))
    elif isinstance(value, BaseEstimator):
        for name, part in vars(value).items():
            if name in PLACES:
                continue
            if _named(part):
                yield from ((each[0], each[1]) for each in part)
                yield from ((f"{name}[{at}]", each[2:]) for at, each in enumerate(part))
            else:
                yield name, part
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from vars(value).items()
        yield from _state(value)
    else:
        yield from _state(value)


def _named(value: Any) -> bool:
    """Whether these are (name, estimator, ...), as steps of a pipeline are."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(each, tuple) and len(each) >= 2 and isinstance(each[0], str)
            for each in value
        )
    )


def _stacked(parts: list[Any]) -> np.ndarray | None:
    """Rows that lie in a sequence one by one, as one table; None: they are none."""
    lengths = {_row_length(each) for each in parts}
    if len(parts) < 2 or len(lengths) > 1 or not all(lengths):
        return None
    return np.asarray(parts, np.float64)


def _row_length(value: Any) -> int | None:
    """How many numbers a row has; None: it is no row of numbers."""
    if isinstance(value, np.ndarray):
        return len(value) if value.ndim == 1 and value.dtype.kind in "biuf" else None
    if not isinstance(value, (list, tuple)):
        return None
    numbers = all(isinstance(each, (int, float, np.number)) for each in value)
    return len(value) if numbers else None


def _column(parts: list[Any]) -> np.ndarray:
    """Numbers as an array of them, anything else as objects."""
    if all(isinstance(each, (int, float, np.number)) for each in parts):
        return np.asarray(parts, np.float64)
    return np.array(parts, dtype=object)


def _state(value: Any) -> Iterator[tuple[str, Any]]:
    """What a pickle would hold of an object in C: trees, and trees of neighbours."""
    try:
        made = value.__reduce_ex__(2)
    except Exception:
        # Objects that can't be pickled raise errors of many kinds.
        return
    if isinstance(made, tuple):
        # `__reduce_ex__` gives a function, what the object is made from, and its state.
        for part in made[1:3]:
            if isinstance(part, dict):
                yield from ((str(name), each) for name, each in part.items())
            elif isinstance(part, tuple):
                yield from ((f"[{at}]", each) for at, each in enumerate(part))
        # Then the items of sequences and of mappings that are an object's own class.
        for part in made[3:5]:
            if part is not None:
                yield "[items]", list(part)


def as_given(estimator: Any, rows: Any) -> list[np.ndarray]:
    """The known rows as every part of an estimator got them.

    Args:
      estimator: a fitted estimator, with or without parts.
      rows: (known, features), as they were given to its `fit`.
    Returns: (known, features) each, float64, without repetitions; parts that can't
      transform them are left out.
    """
    found: dict[tuple, np.ndarray] = {}
    _given(estimator, rows, found, 0)
    return list(found.values())


def _given(estimator: Any, rows: Any, found: dict, depth: int) -> None:
    table = numbers(rows)
    if table is not None:
        found.setdefault((table.shape, hash(table.tobytes())), table)
    if depth > _DEEP:
        return
    if hasattr(estimator, "steps"):
        _through(estimator.steps, rows, found, depth)
        return
    if hasattr(estimator, "transformers_"):
        for name, part, columns in estimator.transformers_:
            if isinstance(part, str) and part != "passthrough":
                continue
            some = _columns(rows, columns, estimator, name)
            if some is not None:
                _given(part, some, found, depth + 1)
        return
    width = np.shape(rows)[1] if np.ndim(rows) == 2 else None
    for part in estimators(estimator):
        if getattr(part, "n_features_in_", width) == width:
            _given(part, rows, found, depth + 1)


def _through(steps: list, rows: Any, found: dict, depth: int) -> None:
    """Through the steps of a pipeline, as far as they transform."""
    for _, step in steps:
        if step is None or isinstance(step, str):
            continue
        _given(step, rows, found, depth + 1)
        try:
            rows = step.transform(rows)
        except Exception:
            # The last step has no `transform`; others may take other rows.
            return


def _columns(rows: Any, columns: Any, transformer: Any, name: str) -> Any:
    """Some columns; None where they can't be taken."""
    try:
        taken = transformer._transformer_to_input_indices[name]
        return _safe_indexing(rows, np.asarray(taken, int), axis=1)
    except Exception:
        return None


def estimators(estimator: Any) -> list[Any]:
    """Fitted estimators in the attributes of one, settings apart, each once."""
    settings: set[str] = set()
    if isinstance(estimator, BaseEstimator):
        settings = set(estimator.get_params(deep=False))
    found: dict[int, Any] = {}
    for name, value in getattr(estimator, "__dict__", {}).items():
        if name not in settings:
            found |= {id(each): each for _, each in inner(value, name)}
    return list(found.values())


def inner(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Estimators in a field: itself, in lists, dicts, in tuples with their names."""
    if isinstance(value, BaseEstimator):
        yield name, value
    elif type(value).__name__ == "_CalibratedClassifier":
        yield f"{name}.estimator", value.estimator
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from inner(each, f"{name}[{key!r}]")
    elif isinstance(value, np.ndarray) and value.dtype.kind == "O":
        for at, each in enumerate(value.ravel()):
            yield from inner(each, f"{name}[{at}]")
    elif isinstance(value, (list, tuple)):
        named = (
            len(value) >= 2
            and isinstance(value[0], str)
            and not isinstance(value[1], str)
        )
        if named and isinstance(value[1], BaseEstimator):
            yield value[0], value[1]
            return
        for at, each in enumerate(value):
            yield from inner(each, f"{name}[{at}]")


def numbers(rows: Any) -> np.ndarray | None:
    """(rows, features) float64, or None where rows are no table of numbers."""
    made = rows.toarray() if hasattr(rows, "toarray") else rows
    try:
        table = np.asarray(made, np.float64)
    except (ValueError, TypeError):
        return None
    return table if table.ndim == 2 and table.size else None


class Training:
    """The known rows, as parts got them, to compare arrays with.

    Args:
      tables: (known, features) each, the known rows as every part got them, from
        `as_given`.
      counts: numbers of rows that the training set may have.
      texts: words and categories that occur in the known rows.
    """

    def __init__(
        self,
        tables: list[np.ndarray],
        counts: set[int],
        texts: frozenset[str] = frozenset(),
    ) -> None:
        self.tables = tables
        self.counts = {count for count in counts if count > 1}
        self.texts = texts
        flat = [table.ravel() for table in tables]
        self.values = _telling(np.concatenate(flat)) if flat else np.zeros(0)
        self.columns = {
            tuple(each)
            for table in tables
            for each in map(np.unique, table.T)
            if 3 <= len(each) <= 1000
        }

    def held(self, array: np.ndarray, path: str) -> Held | None:
        """What an array holds of the training set; None: nothing."""
        count = any(length in self.counts for length in array.shape)
        if array.size > _MOST:
            return Held(path=path, count=True) if count else None
        rows = values = 0
        if array.dtype.kind in "fiu":
            rows, values = self._rows(array), self._values(array)
        elif array.dtype.kind in "OU" and self.texts:
            values = sum(isinstance(e, str) and e in self.texts for e in array.ravel())
        if not (rows or values or count):
            return None
        return Held(path=path, rows=rows, values=values, count=count)

    def _rows(self, array: np.ndarray) -> int:
        """How many rows of a table are rows of the training set."""
        if array.ndim != 2 or array.shape[1] < 2:
            return 0
        stored = np.asarray(array, np.float64)
        # Rows of one number, zeros above all, are equal by chance.
        telling = stored.max(axis=1) > stored.min(axis=1)
        some = stored[telling | np.isnan(stored).any(axis=1)]
        best = 0
        for table in self.tables:
            same = table.shape[1] == stored.shape[1]
            if same and len(some) and np.isfinite(spread(table)).all():
                best = max(best, len(some) - len(unmatched(some, table)))
        return best

    def _values(self, array: np.ndarray) -> int:
        """How many entries are values of the training set that tell something."""
        short = array.ndim == 1 and 3 <= array.size <= 1000
        if short and tuple(np.unique(array.astype(np.float64))) in self.columns:
            return int(array.size)
        if array.dtype.kind != "f" or not len(self.values):
            return 0
        known = self.values
        if array.dtype != np.float64:
            known = known.astype(array.dtype)
        return int(np.isin(array, known).sum())


def _telling(values: np.ndarray) -> np.ndarray:
    """Distinct numbers of more than three digits, which are nowhere by chance."""
    values = np.unique(values[np.isfinite(values) & (values != 0)])
    with np.errstate(all="ignore"):
        scaled = values * 10.0 ** (2 - np.floor(np.log10(np.abs(values))))
    return values[np.abs(scaled - np.round(scaled)) > 1e-9]


def training(estimator: Any, rows: Any, *, counts: set[int] | None = None) -> Training:
    """What arrays of an estimator are compared with.

    Args:
      estimator: a fitted estimator, with or without parts.
      rows: known rows as they were given to `fit`: all, or all but one; None: none are
        at hand, and only numbers of rows are looked for.
      counts: numbers of rows that the training set may have; looked at only where no
        known rows are given.
    """
    if rows is None:
        return Training([], set() if counts is None else counts)
    size = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    return Training(as_given(estimator, rows), {size, size + 1}, _texts(rows))


def _texts(rows: Any) -> frozenset[str]:
    """Texts in the known rows, and the words in them."""
    cells = np.asarray(rows, dtype=object) if not sparse.issparse(rows) else np.zeros(0)
    found: set[str] = set()
    for each in cells.ravel():
        if isinstance(each, str):
            found.add(each)
            found.update(each.lower().split())
    return frozenset(found)


def holdings(estimator: Any, rows: Any) -> list[Held]:
    """All arrays of an estimator that hold known rows as they are, equal ones once.

    Args:
      estimator: a fitted estimator, or any other object.
      rows: (known, features), as they were given to `fit`.
    """
    compared = training(estimator, rows)
    found: list[Held] = []
    seen: set[tuple] = set()
    for path, array in arrays(estimator):
        told = compared.held(array, path)
        if told is None or not told.rows:
            continue
        content = (array.shape, hash(np.ascontiguousarray(array).tobytes()))
        if content not in seen:
            seen.add(content)
            found.append(told)
    return found
