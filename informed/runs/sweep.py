"""Grids of experiments: every point a run, stores shared, one table, one figure.

    <workdir>/stores/<fingerprint>/   shadow and released models
    <workdir>/points/<name>/          one run of the pipeline, attacking such a store
    <workdir>/sweep.csv, sweep.png    a row per point, as far as the sweep has come

Points whose models are the same (their view, their RecoNN, or how many of the shadow
models they use differ) attack one store. Finished points do nothing when the sweep is
run again; an interrupted one goes on.
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

import matplotlib.figure

from informed import report
from informed.runs import pipeline
from informed.runs.experiment import Experiment
from informed.runs.pools import Pools
from informed.runs.stages import Paths
from shadow import checks, files, records
from shadow.records import Record

_METRICS = (
    "nn_oracle_mse",
    "mean_image_mse",
    "released_accuracy",
    "epsilon",
    "label_bound",
    "shadow_models",
    "wall_s",
)
# Of every attack of a point, as "attacks.NAME.FIELD".
_OF_ATTACKS = (
    "mse",
    "mse_standard_error",
    "mse_median",
    "mae",
    "lpips",
    "kl",
    "labels_right",
    "certified",
    "success",
    "label_violation",
    "roc_violations",
    "shadow_models",
)
_PAPER = "paper"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """A grid.

    Attributes:
      title: what stands above the figure.
      base: configuration file of all points, relative to the sweep's own file.
      overrides: "field=value" of all points; values are JSON or plain words.
      points: of each its name and its own "field=value"; "paper=0.0089" isn't a field,
        but the paper's figure for this point, which goes into the table.
      x: the field along the axis, or a column of the table, such as epsilon, which some
        points may lack; "" draws a bar per point.
      series: fields whose values are drawn as lines of their own.
      metrics: what is drawn, each as lines or bars of its own: a field of the table, or
        "attacks.NAME.mse" and the like.
    """

    title: str
    base: str
    overrides: tuple[str, ...] = ()
    points: tuple[tuple[str, ...], ...]
    x: str = ""
    series: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("attacks.reconn.mse",)

    def __post_init__(self) -> None:
        if not self.points:
            raise checks.FieldError(
                "points", "Expected {} to hold at least one, got none."
            )
        if not self.metrics:
            raise checks.FieldError(
                "metrics", "Expected {} to hold at least one, got none."
            )
        for metric in self.metrics:
            if not metric.startswith("attacks."):
                checks.choice("metrics", metric, _METRICS)
            elif metric.endswith(".success"):
                raise checks.FieldError(
                    "metrics", f"Expected {{}} to be numbers; {metric!r} is a word."
                )
        fields = {field for point in self.points for field in _own(point)}
        for field in filter(None, (self.x, *self.series)):
            if field not in fields and not (field == self.x and field in _METRICS):
                raise checks.FieldError(
                    "x" if field == self.x else "series",
                    f"Expected {{}} to be a field that the points set, got {field!r}.",
                )
        names = [point[0] for point in self.points]
        if len({_slug(name) for name in names}) < len(names):
            raise checks.FieldError(
                "points", f"Expected distinct names of {{}}, got {names}."
            )


@dataclasses.dataclass(frozen=True)
class Point:
    """One experiment of a sweep.

    Attributes:
      name: how the table calls the point.
      fields: what the sweep sets, dotted field -> value; the columns of the table.
      paper: the paper's figure, where it has one.
      experiment: the whole configuration of the point.
    """

    name: str
    fields: Mapping[str, Any]
    paper: float | None
    experiment: Experiment


def points(config: SweepConfig, base: Mapping[str, Any]) -> list[Point]:
    """All points, checked before anything is computed.

    Args:
      config: the grid of points.
      base: what `config.base` holds, as nested plain values.
    Raises: ValueError: a point sets an unknown field or a wrong value; names the point.
    """
    found = []
    for point in config.points:
        name, values = point[0], json.loads(json.dumps(base))
        fields = _own(point)
        paper = fields.pop(_PAPER, None)
        common = dict(_assignment(text) for text in config.overrides)
        with _named(name):
            for field, value in (common | fields).items():
                _set(values, field, value)
            experiment = Experiment.from_mapping(values)
        found.append(Point(name, fields, paper, experiment))
    return found


def run(
    config: SweepConfig,
    base: Mapping[str, Any],
    workdir: Path,
    *,
    data_dir: str | None = None,
    progress: bool = True,
    on_point: Callable[[Mapping[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """Run what isn't finished, one point after the other.

    Args:
      config, base: the grid, and what its points start from; see `points`.
      workdir: folder of the sweep, laid out as the module's docstring says.
      data_dir: TFDS folder; None: TFDS_DATA_DIR.
      progress: whether bars are shown.
      on_point: called with the row of each point, finished before or now.
    Returns: the rows of sweep.csv.
    Raises:
      ValueError: a point that couldn't be run to its end; names it, before any is.
      ConfigurationMismatchError, VersionMismatchError: the folder holds a sweep of
        another base; or of a point made otherwise.
    """
    todo = points(config, base)
    pools = Pools(data_dir)
    for point in todo:
        with _named(point.name):
            pipeline.require(point.experiment, pools)
    record = Record.of({"overrides": list(config.overrides), "base": dict(base)})
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
        row |= _of_attacks(results, config.metrics) | {_PAPER: point.paper}
        rows.append(row)
        files.write_bytes(workdir / "sweep.csv", _csv(rows).encode())
        files.write_bytes(workdir / "sweep.png", _figure(config, rows))
        on_point(row)
    return rows


@contextlib.contextmanager
def _named(point: str) -> Iterator[None]:
    """Says of which point of the sweep an error is."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Point {point!r} of the sweep: {error}") from error


def _own(point: Sequence[str]) -> dict[str, Any]:
    """The fields of a point of the configuration."""
    return dict(_assignment(text) for text in point[1:])


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
    """Set a dotted field of nested values; it must be there."""
    *groups, last = field.split(".")
    for group in groups:
        values = values.get(group, {})
    if last not in values:
        raise ValueError(f"unknown field {field!r}.{checks.nearest(last, values)}")
    values[last] = value


def _value(experiment: Experiment, field: str) -> Any:
    """A dotted field of an experiment; several values as text."""
    value: Any = experiment.values
    for name in field.split("."):
        value = value[name]
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def store_name(experiment: Experiment) -> str:
    """The same for experiments whose models are the same."""
    shadow = [experiment.shadow.count, experiment.shadow.block_size]
    return checks.fingerprint([experiment.model_configuration, shadow])[:16]


def _slug(name: str) -> str:
    """A name as a folder; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9.=-]+", "_", name)
    if plain == name:
        return plain
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table; what is None stays empty."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _figure(config: SweepConfig, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Lines over a field, or a bar per point."""
    if config.x:
        figure = matplotlib.figure.Figure(figsize=(6.4, 4.0), dpi=120)
        _lines(figure.subplots(), config, rows)
    else:
        height = 1.4 + 0.34 * len(rows) * len(config.metrics)
        figure = matplotlib.figure.Figure(figsize=(6.8, height), dpi=120)
        _bars(figure.subplots(), config, rows)
    figure.suptitle(config.title, fontsize=11)
    figure.tight_layout()
    return report.png(figure)


def _lines(axis: Any, config: SweepConfig, rows: Sequence[Mapping[str, Any]]) -> None:
    """The metrics over x, a line a value of the series, with the paper's points."""
    for number, (name, metric, part) in enumerate(_series(config, rows)):
        colour = f"C{number}"
        for row in part:
            if row[config.x] is None:  # along no axis, such as epsilon without noise
                label = f"{name}, {row['point']}"
                axis.axhline(row[metric], ls=":", c=colour, label=label)
        part = [row for row in part if row[config.x] is not None]
        part = sorted(part, key=lambda row: row[config.x])
        xs = [row[config.x] for row in part]
        axis.plot(xs, [row[metric] for row in part], "o-", c=colour, label=name)
        theirs = [(row[config.x], row[_PAPER]) for row in part if row[_PAPER]]
        if theirs and metric == config.metrics[0]:
            axis.plot(
                *zip(*theirs, strict=True), "x:", c=colour, label=f"{name}, paper"
            )
    positive = [row[config.x] for row in rows if row[config.x]]
    if positive and min(positive) > 0 and max(positive) > 10 * min(positive):
        axis.set_xscale("log")
    if config.metrics[0].endswith(".mse"):
        _oracle(axis.axhline, rows)
    axis.set_yscale("log")
    axis.set_xlabel(config.x)
    axis.set_ylabel(_title(config.metrics))
    axis.legend(fontsize=8, framealpha=0.9, edgecolor="none")


def _series(
    config: SweepConfig, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, list[Mapping[str, Any]]]]:
    """(name, metric, rows that have it) of every line."""

    def name(row: Mapping[str, Any]) -> str:
        return ", ".join(f"{f.split('.')[-1]} {row[f]}" for f in config.series)

    for metric in config.metrics:
        drawn = [row for row in rows if row.get(metric) is not None]
        for value in dict.fromkeys(map(name, drawn)):
            parts = [_short(metric)] if len(config.metrics) > 1 or not value else []
            whole = ", ".join([*parts, *filter(None, [value])])
            yield whole, metric, [row for row in drawn if name(row) == value]


def _bars(axis: Any, config: SweepConfig, rows: Sequence[Mapping[str, Any]]) -> None:
    """Bars of every point, the first on top, with the paper's figure as a mark."""
    places = [-i for i in range(len(rows))]
    height = 0.7 / len(config.metrics)
    for number, metric in enumerate(config.metrics):
        shift = height * ((len(config.metrics) - 1) / 2 - number)
        drawn = [
            (place + shift, row[metric])
            for place, row in zip(places, rows, strict=True)
            if row.get(metric) is not None
        ]
        if drawn:
            at, values = zip(*drawn, strict=True)
            label = _short(metric) if len(config.metrics) > 1 else "here"
            axis.barh(at, values, color=f"C{number}", height=height, label=label)
        for place, value in drawn:
            axis.annotate(f" {value:.4f}", (value, place), va="center", fontsize=8)
    theirs = [(row[_PAPER], p) for row, p in zip(rows, places, strict=True)]
    theirs = [(value, place) for value, place in theirs if value]
    if theirs:
        axis.plot(*zip(*theirs, strict=True), "kx", label="paper")
    if config.metrics[0].endswith(".mse"):
        _oracle(axis.axvline, rows)
    axis.set_yticks(places, [row["point"] for row in rows])
    axis.set_xlabel(_title(config.metrics))
    axis.margins(x=0.15)
    axis.legend(fontsize=8, framealpha=0.9, edgecolor="none")


def _short(metric: str) -> str:
    """A metric as legends call it: an attack's name where it is its MSE."""
    return metric.removeprefix("attacks.").removesuffix(".mse")


def _title(metrics: Sequence[str]) -> str:
    """What the axis says of the metrics."""
    if all(metric.endswith(".mse") for metric in metrics):
        return "MSE per pixel"
    return ", ".join(map(_short, metrics))


def _oracle(draw: Callable[..., Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """The nearest-neighbour oracle, averaged over the points."""
    mean = sum(row["nn_oracle_mse"] for row in rows) / max(1, len(rows))
    draw(mean, color="0.5", ls="--", label=f"NN oracle {mean:.4f}")


def _of_attacks(results: Mapping[str, Any], metrics: Sequence[str]) -> dict[str, Any]:
    """The fields of every attack of a point, as "attacks.NAME.FIELD".

    Raises: FieldError: none of the metrics is among them.
    """
    found = {
        f"attacks.{name}.{field}": each[field]
        for name, each in results["attacks"].items()
        for field in _OF_ATTACKS
    }
    if not any(metric in found or metric in _METRICS for metric in metrics):
        known = [name for name in found if name.endswith(".mse")]
        raise checks.FieldError(
            "config.metrics",
            f"{{}} is {', '.join(metrics)}, which this run doesn't give; it gives, for"
            f" example, {', '.join(known)}.",
        )
    return found
