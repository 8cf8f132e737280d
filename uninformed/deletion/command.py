"""All of it: `informed deletion --config=configs/deletion.py`."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shadow import files
from uninformed.deletion import attack, measures, pictures, remedies, services
from uninformed.deletion.config import DeletionConfig
from uninformed.deletion.data import Sides, split

_COLUMNS = ("cosine", "centred", "over_0.95", "exact")
PICTURES = ("similarities.png",)


def run(
    config: DeletionConfig, workdir: Path, data_dir: str | None = None
) -> dict[str, Any]:
    """Writes results.json and pictures; returns what is in the former."""
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
        told, cosines, guesses = of_model(config, name, sides)
        results["models"][name] = told | {
            "seconds": round(time.perf_counter() - begun, 1)
        }
        curves[name] = cosines
        shown[name] = guesses
    results = _rounded(results)
    pictures.similarities(config.data, curves, workdir / PICTURES[0])
    if sides.shape is not None:
        pictures.images(sides, shown, workdir / "images.png")
    files.write_json(workdir / "results.json", results)
    return results


def of_model(
    config: DeletionConfig, name: str, sides: Sides
) -> tuple[dict[str, Any], dict[str, list[float]], tuple[np.ndarray, np.ndarray]]:
    """(results, cosines of each way and baseline, guesses and rows to look at)."""
    service = services.make(name, config, sides)
    mean = measures.average(sides.public)
    told: dict[str, Any] = {
        "score": service.score(service.theta, sides.held_out),
        "methods": {},
    }
    cosines: dict[str, list[float]] = {}
    looked: tuple[np.ndarray, np.ndarray] | None = None
    retrained: dict[int, np.ndarray] = {}
    for method in config.methods:
        found, beside, baselines = [], [], []
        guesses = []
        for target in sides.targets:
            without = service.without(np.array([target]), method)
            if method == "retrain":
                retrained[int(target)] = without
            gradient = attack.gradient_of_deleted(
                service,
                without - service.theta,
                method,
                sides.public,
                len(sides.service),
            )
            guess = attack.row_of(service, gradient, sides.public)
            row = sides.service.x[target]
            found.append(measures.nearness(guess, row, mean))
            stay = sides.service.without(int(target))
            beside.append(measures.nearer_to_undeleted(guess, stay, sides.held_out))
            other = measures.largest_difference(service, without, sides.public)
            baselines.append(measures.nearness(other, row, mean))
            guesses.append(guess)
        told["methods"][method] = _summary(found) | {
            "nearer_to_undeleted": float(np.mean(beside)),
            "largest_difference": _summary(baselines),
        }
        cosines[method] = [each["cosine"] for each in found]
        if method == config.methods[0]:
            cosines["largest difference"] = [each["cosine"] for each in baselines]
            looked = np.array(guesses), sides.service.x[sides.targets]
    plain = [
        measures.nearness(mean, sides.service.x[target], mean)
        for target in sides.targets
    ]
    cosines["average"] = [each["cosine"] for each in plain]
    told["average"] = _summary(plain)
    if name != "network":
        told["informed"] = _informed(service, sides, mean)
    if "retrain" in config.methods:
        told["remedies"] = _remedies(config, service, sides, retrained)
    assert looked is not None
    return told, cosines, looked


def _informed(service: Any, sides: Sides, mean: np.ndarray) -> dict[str, float]:
    """Who knows all other rows."""
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
            service, sides, read, sides.targets[:10]
        )
    return made


def _summary(found: list[dict[str, float]]) -> dict[str, float]:
    """Medians, and how many are near."""
    table = {name: np.array([each[name] for each in found]) for name in found[0]}
    return {
        "cosine": float(np.median(table["cosine"])),
        "centred": float(np.median(table["centred"])),
        "error": float(np.median(table["error"])),
        "over_0.95": int((table["cosine"] > 0.95).sum()),
        "exact": int((table["error"] < measures.EXACT).sum()),
    }


def _rounded(value: Any) -> Any:
    """Numbers to four digits."""
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def table(results: Mapping[str, Any]) -> str:
    """Results as lines."""
    head = f"{results['data']}, {results['rows']} rows, {results['public']} public"
    lines = [f"{head:<44}" + "".join(f"{name:>12}" for name in _COLUMNS)]

    def line(name: str, values: Mapping[str, Any]) -> str:
        row = "".join(f"{values[column]:>12.4g}" for column in _COLUMNS)
        return f"{name:<44}{row}"

    for model, told in results["models"].items():
        for method, values in told["methods"].items():
            lines.append(line(f"{model}, {method}", values))
            other = values["largest_difference"]
            lines.append(line("  largest difference", other))
        lines.append(line("  average", told["average"]))
        if "informed" in told:
            lines.append(line("  who knows all other rows", told["informed"]))
        for name, each in told.get("remedies", {}).items():
            said = ", ".join(
                f"{level}: {next(iter(value.values())):.3g}"
                if isinstance(value, Mapping)
                else f"{value:.3g}"
                for level, value in each.items()
            )
            lines.append(f"  {name:<42}{said}")
    return "\n".join(lines)
