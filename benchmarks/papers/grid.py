"""Grids of experiments: each point is a run, and points share stores.

Points with the same models attack one store: they differ in the view, in the attacks,
or in how many of the shadow models they use.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from informed.cli import configuration
from informed.experiment.settings import Experiment
from shadow import checks

_CONFIGS = Path(__file__).resolve().parents[2] / "configs"
_PAPER = "paper"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep:
    """A grid of experiments.

    Attributes:
      base: configuration of all points, a file of `configs/`, such as "mnist.py:cpu".
      overrides: "field=value" of all points; values are JSON or plain words.
      points: the name of each point and its own "field=value". "paper=0.0089" is not a
        field but the paper's error for this point.
    """

    base: str
    overrides: tuple[str, ...] = ()
    points: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        names = [point[0] for point in self.points]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"Expected points with distinct names, got {names}.")


@dataclasses.dataclass(frozen=True)
class Point:
    """One experiment of a sweep.

    Attributes:
      name: its name in tables.
      paper: the paper's error, where it has one.
      experiment: the whole configuration of the point.
    """

    name: str
    paper: float | None
    experiment: Experiment


def points(sweep: Sweep) -> list[Point]:
    """All points, checked before anything is computed.

    Raises: ValueError: a point sets an unknown field or a wrong value; names the point.
    """
    base = configuration.values([f"--config={_CONFIGS / sweep.base}"])
    common = dict(_assignment(text) for text in sweep.overrides)
    checked = []
    for name, *assignments in sweep.points:
        values = json.loads(json.dumps(base))
        fields = dict(_assignment(text) for text in assignments)
        paper = fields.pop(_PAPER, None)
        try:
            for field, value in (common | fields).items():
                _set(values, field, value)
            experiment = Experiment.from_mapping(values)
        except ValueError as error:
            raise ValueError(f"Point {name!r} of the sweep: {error}") from error
        checked.append(Point(name, paper, experiment))
    return checked


def store_name(experiment: Experiment) -> str:
    """The same for experiments whose models are the same."""
    shadow = [experiment.shadow.count, experiment.shadow.block_size]
    return checks.fingerprint([experiment.model_configuration, shadow])[:16]


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
