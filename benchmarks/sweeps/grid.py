"""Grids of experiments: each point is a run, points share stores, one table.

    <workdir>/stores/<fingerprint>/   shadow and released models
    <workdir>/points/<name>/          one run of the pipeline, attacking such a store
    <workdir>/sweep.csv               a row per point that has been run

Points with the same models attack one store: they differ in the view, in the RecoNN,
or in how many of the shadow models they use. Running a sweep again skips its finished
points; an interrupted one resumes.
"""

import contextlib
import csv
import dataclasses
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from informed.cli import configuration
from informed.experiment import pipeline
from informed.experiment.pools import Pools
from informed.experiment.settings import Experiment
from informed.experiment.stored import Paths
from shadow import checks, files, records
from shadow.records import Record

_CONFIGS = Path(__file__).resolve().parents[2] / "configs"
_METRICS = (
    *("nn_oracle_mse", "mean_image_mse", "released_accuracy", "epsilon"),
    *("label_bound", "shadow_models", "wall_s"),
)
# Of every attack of a point, as "attacks.NAME.FIELD".
_OF_ATTACKS = (
    *("mse", "mse_standard_error", "mse_median", "mae", "lpips", "labels_right"),
    *("certified", "success", "label_violation", "roc_violations", "shadow_models"),
)
_PAPER = "paper"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """A grid of experiments.

    Attributes:
      base: configuration of all points, a file of `configs/`, such as "mnist.py:cpu".
      overrides: "field=value" of all points; values are JSON or plain words.
      points: the name of each point and its own "field=value". "paper=0.0089" is not a
        field but the paper's error for this point, a column of the table.
    """

    base: str
    overrides: tuple[str, ...] = ()
    points: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        names = [point[0] for point in self.points]
        if not names or len({_slug(name) for name in names}) < len(names):
            raise ValueError(f"Expected points with distinct names, got {names}.")


@dataclasses.dataclass(frozen=True)
class Point:
    """One experiment of a sweep.

    Attributes:
      name: its name in the table.
      fields: what the sweep sets, dotted field -> value; columns of the table.
      paper: the paper's error, where it has one.
      experiment: the whole configuration of the point.
    """

    name: str
    fields: Mapping[str, Any]
    paper: float | None
    experiment: Experiment


def points(sweep: Sweep) -> list[Point]:
    """All points, checked before anything is computed.

    Raises: ValueError: a point sets an unknown field or a wrong value; names the point.
    """
    base = _base(sweep)
    common = dict(_assignment(text) for text in sweep.overrides)
    checked = []
    for name, *assignments in sweep.points:
        values = json.loads(json.dumps(base))
        fields = dict(_assignment(text) for text in assignments)
        paper = fields.pop(_PAPER, None)
        with _naming(name):
            for field, value in (common | fields).items():
                _set(values, field, value)
            experiment = Experiment.from_mapping(values)
        checked.append(Point(name, fields, paper, experiment))
    return checked


def run(
    sweep: Sweep,
    workdir: Path,
    *,
    data_dir: str | None = None,
    progress: bool = True,
    on_point: Callable[[Mapping[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """Run the unfinished points, one after the other.

    Args:
      sweep: the grid.
      workdir: folder of the sweep, laid out as the module's docstring says.
      data_dir: TFDS folder; None: TFDS_DATA_DIR.
      progress: whether bars are shown.
      on_point: called with the row of each point, finished before or now.
    Returns: the rows of sweep.csv.
    Raises:
      ValueError: a point that can't be run to its end; names it, before any is run.
      ConfigurationMismatchError, VersionMismatchError: the folder holds a sweep of
        another base, or a point that was made otherwise.
    """
    todo = points(sweep)
    pools = Pools(data_dir)
    for point in todo:
        with _naming(point.name):
            pipeline.factories(point.experiment, pools)
    record = Record.of({"overrides": list(sweep.overrides), "base": _base(sweep)})
    records.claim(workdir / "sweep.json", record, f"The sweep in {workdir}")
    fields = list(dict.fromkeys(name for point in todo for name in point.fields))
    rows: list[dict[str, Any]] = []
    for number, point in enumerate(todo):
        if progress:
            print(f"[{number + 1}/{len(todo)}] {point.name}", flush=True)
        paths = Paths(
            workdir=workdir / "points" / _slug(point.name),
            shadow=workdir / "stores" / store_name(point.experiment),
            data_dir=data_dir,
        )
        results = pipeline.run(point.experiment, paths, progress=progress)
        row: dict[str, Any] = {"point": point.name}
        row |= {name: _value(point.experiment, name) for name in fields}
        row |= {name: results[name] for name in _METRICS}
        row |= {
            f"attacks.{name}.{field}": attack[field]
            for name, attack in results["attacks"].items()
            for field in _OF_ATTACKS
        }
        rows.append(row | {_PAPER: point.paper})
        files.write_bytes(workdir / "sweep.csv", _csv(rows).encode())
        on_point(rows[-1])
    return rows


def store_name(experiment: Experiment) -> str:
    """The same for experiments whose models are the same."""
    shadow = [experiment.shadow.count, experiment.shadow.block_size]
    return checks.fingerprint([experiment.model_configuration, shadow])[:16]


def _base(sweep: Sweep) -> dict[str, Any]:
    """The configuration that all points start from, as nested plain values."""
    return configuration.values([f"--config={_CONFIGS / sweep.base}"])


@contextlib.contextmanager
def _naming(point: str) -> Iterator[None]:
    """Name the point of the sweep that an error belongs to."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Point {point!r} of the sweep: {error}") from error


def _assignment(text: str) -> tuple[str, Any]:
    """("training.epochs", 250) of "training.epochs=250"."""
    field, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"Expected 'field=value' in a sweep, got {text!r}.")
    try:
        return field, json.loads(value)
    except json.JSONDecodeError:
        return field, value


def _set(values: dict[str, Any], field: str, value: Any) -> None:
    """Set a dotted field of nested values; it must exist."""
    *groups, last = field.split(".")
    for group in groups:
        values = values.get(group, {})
    if last not in values:
        raise ValueError(f"unknown field {field!r}.{checks.nearest(last, values)}")
    values[last] = value


def _value(experiment: Experiment, field: str) -> Any:
    """A dotted field of an experiment; a tuple as text."""
    value: Any = experiment.values
    for name in field.split("."):
        value = value[name]
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def _slug(name: str) -> str:
    """A name as a folder; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9.=-]+", "_", name)
    if plain == name:
        return plain
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table; None is an empty cell."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
