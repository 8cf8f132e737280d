"""The command `informed deletion --config=configs/deletion.py`."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.figure
import numpy as np

from informed import report
from shadow import bars, files
from uninformed.deletion import attack, measures, remedies, services
from uninformed.deletion.config import DeletionConfig
from uninformed.deletion.data import Sides, split
from uninformed.results import ImageRow, draw_rows, rounded

# The numbers that the printed table shows, see `_summary`.
_COLUMNS = ("cosine", "centred", "over_0.95", "exact")
# Deleted rows for which a network is trained from another seed: each is a training.
_OTHER_SEEDS = 10
# Images in a row of a picture: more are too small to be looked at.
_SHOWN = 10
_STYLES = {"average": ":", "largest difference": "--"}
PICTURES = ("similarities.png",)


def run(
    config: DeletionConfig,
    workdir: Path,
    data_dir: str | None = None,
    *,
    progress: bool = True,
) -> dict[str, Any]:
    """Write results.json and pictures; return what results.json holds.

    Args:
      progress: whether bars show the rows that are deleted.
    """
    sides = split(config, data_dir)
    results: dict[str, Any] = {
        "data": config.data,
        "rows": len(sides.service),
        "public": len(sides.public),
        "targets": len(sides.targets),
        "features": sides.service.x.shape[1],
        "models": {},
    }
    curves: dict[str, dict[str, list[float]]] = {}
    shown: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name in config.models:
        begun = time.perf_counter()
        of_one, curves[name], shown[name] = of_model(
            config, name, sides, progress=progress
        )
        seconds = round(time.perf_counter() - begun, 1)
        results["models"][name] = of_one | {"seconds": seconds}
    results = rounded(results)
    _draw_similarities(config.data, curves, workdir / PICTURES[0])
    if sides.shape is not None:
        _draw_images(sides.shape, shown, workdir / "images.png")
    files.write_json(workdir / "results.json", results)
    return results


def of_model(
    config: DeletionConfig, name: str, sides: Sides, *, progress: bool = True
) -> tuple[dict[str, Any], dict[str, list[float]], tuple[np.ndarray, np.ndarray]]:
    """Attack one model, deleted rows one by one.

    Returns: results for JSON; cosine similarities of each way of deleting and of each
      baseline; the guesses (targets, inputs) of the first way, and the true rows.
    """
    service = services.make(name, config, sides)
    mean = measures.average(sides.public)
    results: dict[str, Any] = {
        "score": service.score(service.theta, sides.held_out),
        "methods": {},
    }
    deletions: dict[str, list[_Deletion]] = {method: [] for method in config.methods}
    total = len(deletions) * len(sides.targets)
    with bars.bar(total=total, desc=name, unit=" rows", show=progress) as bar:
        for method, each in deletions.items():
            for target in sides.targets:
                each.append(_attacked(service, method, int(target), sides, mean))
                bar.update()
    cosines: dict[str, list[float]] = {}
    for method, each in deletions.items():
        results["methods"][method] = _summary([one.nearness for one in each]) | {
            "nearer_to_undeleted": float(np.mean([one.beside for one in each])),
            "largest_difference": _summary([one.baseline for one in each]),
        }
        cosines[method] = [one.nearness["cosine"] for one in each]
    first = deletions[config.methods[0]]
    cosines["largest difference"] = [one.baseline["cosine"] for one in first]
    rows = sides.service.x[sides.targets]
    averages = [measures.nearness(mean, row, mean) for row in rows]
    cosines["average"] = [one["cosine"] for one in averages]
    results["average"] = _summary(averages)
    if name != "network":
        results["informed"] = _informed(service, sides, mean)
    if "retrain" in config.methods:
        retrained = {one.target: one.theta for one in deletions["retrain"]}
        results["remedies"] = _remedies(config, service, sides, retrained)
    return results, cosines, (np.array([one.guess for one in first]), rows)


class _Deletion(NamedTuple):
    """One row deleted in one way, and the attack on it.

    Attributes:
      target: index of the row in the service's training set.
      theta: the model without the row, (params,).
      guess: the row as the attack has it, (inputs,).
      nearness: how near the guess is, see `measures.nearness`.
      beside: 1 if the guess is nearer to a row that stays than to nobody's, else 0.
      baseline: how near the public row is whose loss rises most.
    """

    target: int
    theta: np.ndarray
    guess: np.ndarray
    nearness: dict[str, float]
    beside: float
    baseline: dict[str, float]


def _attacked(
    service: services.Service, method: str, target: int, sides: Sides, mean: np.ndarray
) -> _Deletion:
    """Delete a row, and attack the difference of the two models."""
    theta = service.without(np.array([target]), method)
    gradient = attack.gradient_of_deleted(
        service, theta - service.theta, method, sides.public, len(sides.service)
    )
    guess = attack.row_of(service, gradient, sides.public)
    row, stay = sides.service.x[target], sides.service.without(target)
    other = measures.largest_difference(service, theta, sides.public)
    return _Deletion(
        target=target,
        theta=theta,
        guess=guess,
        nearness=measures.nearness(guess, row, mean),
        beside=measures.nearer_to_undeleted(guess, stay, sides.held_out),
        baseline=measures.nearness(other, row, mean),
    )


def _informed(service: Any, sides: Sides, mean: np.ndarray) -> dict[str, float]:
    """Summary of the attack by who knows all other rows."""
    found = []
    for target in sides.targets:
        gradient = attack.informed_gradient(service, sides.service.without(int(target)))
        guess = attack.row_of(service, gradient, sides.public)
        found.append(measures.nearness(guess, sides.service.x[target], mean))
    return _summary(found)


def _remedies(
    config: DeletionConfig,
    service: Any,
    sides: Sides,
    retrained: Mapping[int, np.ndarray],
) -> dict[str, Any]:
    """Each remedy against the attack on retraining."""

    def read(difference: np.ndarray) -> np.ndarray:
        gradient = attack.gradient_of_deleted(
            service, difference, "retrain", sides.public, len(sides.service)
        )
        return attack.row_of(service, gradient, sides.public)

    made: dict[str, Any] = {
        "batches": remedies.batches(config, service, sides, read),
        "noise": remedies.noise(config, service, sides, read, dict(retrained)),
    }
    if isinstance(service, services.NetworkService):
        made["other_seed"] = remedies.other_seed(
            service, sides, read, sides.targets[:_OTHER_SEEDS]
        )
    return made


def _summary(found: list[dict[str, float]]) -> dict[str, float]:
    """Medians over deleted rows, and counts of near guesses."""
    table = {name: np.array([each[name] for each in found]) for name in found[0]}
    return {
        "cosine": float(np.median(table["cosine"])),
        "centred": float(np.median(table["centred"])),
        "error": float(np.median(table["error"])),
        "over_0.95": int((table["cosine"] > 0.95).sum()),
        "exact": int((table["error"] < measures.EXACT).sum()),
    }


def table(results: Mapping[str, Any]) -> str:
    """Results as lines: a block for each model."""
    head = f"{results['data']}, {results['rows']} rows, {results['public']} public"
    lines = [f"{head:<44}" + "".join(f"{name:>12}" for name in _COLUMNS)]

    def line(name: str, values: Mapping[str, Any]) -> str:
        row = "".join(f"{values[column]:>12.4g}" for column in _COLUMNS)
        return f"{name:<44}{row}"

    for model, on_model in results["models"].items():
        for method, values in on_model["methods"].items():
            lines.append(line(f"{model}, {method}", values))
            other = values["largest_difference"]
            lines.append(line("  largest difference", other))
        lines.append(line("  average", on_model["average"]))
        if "informed" in on_model:
            lines.append(line("  who knows all other rows", on_model["informed"]))
        for name, each in on_model.get("remedies", {}).items():
            said = ", ".join(
                f"{level}: not tried, too few rows"
                if value is None
                else f"{level}: {next(iter(value.values())):.3g}"
                if isinstance(value, Mapping)
                else f"{value:.3g}"
                for level, value in each.items()
            )
            lines.append(f"  {name:<42}{said}")
    return "\n".join(lines)


# Pictures


def _draw_similarities(
    data: str, curves: Mapping[str, Mapping[str, Sequence[float]]], path: Path
) -> None:
    """For each model, the share of deleted rows below a cosine similarity."""
    figure = matplotlib.figure.Figure(
        figsize=(3.2 * len(curves), 3.0), dpi=120, layout="constrained"
    )
    axes = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0]
    for axis, (model, each) in zip(axes, curves.items(), strict=True):
        for name, cosines in each.items():
            shares = np.arange(1, len(cosines) + 1) / len(cosines)
            axis.step(
                np.sort(cosines),
                shares,
                where="post",
                label=name.replace("_", "-"),
                linestyle=_STYLES.get(name, "-"),
                color={"average": "grey", "largest difference": "black"}.get(name),
            )
        axis.set(xlabel="cosine similarity", xlim=(min(0.0, axis.get_xlim()[0]), 1.02))
        axis.set_title(f"{data}: {model}", fontsize=9)
    axes[0].set_ylabel("share of deleted rows at most")
    axes[0].legend(fontsize=7, loc="upper left")
    files.write_bytes(path, report.png(figure))


def _draw_images(
    shape: tuple[int, ...],
    shown: Mapping[str, tuple[np.ndarray, np.ndarray]],
    path: Path,
) -> None:
    """Deleted images, and what the differences of the models show of them."""
    truth = next(iter(shown.values()))[1]
    rows = {"deleted": truth} | {model: each[0] for model, each in shown.items()}
    draw_rows(
        [
            ImageRow(name, images[:_SHOWN].reshape(-1, *shape))
            for name, images in rows.items()
        ],
        path,
    )
