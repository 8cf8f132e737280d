"""The command `informed landscape --config=configs/landscape.py`.

Batches of starts are kept in `ends/`, so that a run that was cut off goes on.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shadow import files, records
from uninformed.landscape import (
    conclusions,
    detection,
    pictures,
    quantities,
    runs,
    starts,
)
from uninformed.landscape.quantities import Measured
from uninformed.landscape.runs import Ends, LandscapeConfig
from uninformed.results import rounded

# The quantities that the printed table shows, see `quantities.measure`.
_COLUMNS = (
    "distance",
    "distance_relative",
    "truth",
    "partition",
    "ssim",
    "held_out_ssim",
    "recovered",
    "distinct",
)
# Beside these there is one picture of images for each method.
PICTURES = ("maps.png", "curves.png", "roc.png")
# Starts that have a line in the printed table; those of normal noise have one, too.
_SHOWN = (*starts.CORNERS, starts.COLLAPSED)


def run(
    config: LandscapeConfig,
    workdir: Path,
    data_dir: str | None = None,
    *,
    progress: bool = True,
) -> dict[str, Any]:
    """Write results.json, what was found and pictures; return what results.json holds.

    Args:
      progress: whether bars are shown.
    Raises: ConfigurationMismatchError: the folder holds another landscape.
    """
    sets = starts.load(config.data, config.seed, data_dir)
    begun = starts.make(config.starts, sets, config.seed)
    names, images = list(begun), np.stack(list(begun.values()))
    clock, ends, measured = records.Clock(workdir / "seconds.json"), {}, {}
    for method in config.methods:
        with clock.running(method):
            ends[method] = runs.run(
                config, method, sets, begun, workdir, progress=progress
            )
            measured[method] = quantities.measure(sets, images, ends[method])
    scores = {
        method: detection.uninformed(names, ends[method], measured[method]["true"])
        for method in config.methods
    }
    detected: dict[str, Any] = {
        method: {name: each.summary() for name, each in of_method.items()}
        for method, of_method in scores.items()
    }
    if config.victim.kind == "affine":
        retrained = detection.informed(sets, begun, config.victim.decay)
        scores["informed"] = {"retraining": retrained}
        detected["informed"] = {
            "retraining": retrained.summary() | detection.gap(retrained)
        }
    results = {
        "seconds": {method: clock.seconds[method] for method in config.methods},
        "starts": names,
        **{method: _lists(values) for method, values in measured.items()},
        "conclusions": _concluded(config, names, images, ends, measured),
        "detection": detected,
    }
    pictures.maps(config.starts, names, measured, workdir / "maps.png")
    pictures.curves(config.starts, names, measured, workdir / "curves.png")
    pictures.roc(scores, workdir / "roc.png")
    for method in config.methods:
        file = workdir / f"images_{method}.png"
        pictures.images(sets, names, ends[method].images, method, file)
    files.write_json(workdir / "results.json", results)
    return results


def _concluded(
    config: LandscapeConfig,
    names: Sequence[str],
    begun: np.ndarray,
    ends: Mapping[str, Ends],
    measured: Mapping[str, Measured],
) -> dict[str, Any]:
    """All conclusions of each method, and those that compare two."""
    found: dict[str, Any] = {
        method: conclusions.of_method(config.starts, names, values)
        for method, values in measured.items()
    }
    if config.starts.perturbed > 1:
        spreads = {
            method: conclusions.contractions(config.starts, names, begun, each.images)
            for method, each in ends.items()
        }
    others = [other for other in measured if other != "bilevel"]
    for other in others if "bilevel" in measured else ():
        pair = f"bilevel against {other}"
        found[pair] = conclusions.compared(
            config.starts, names, measured["bilevel"], measured[other]
        )
        if config.starts.perturbed > 1:
            found[pair]["h"] = conclusions.smoother(spreads["bilevel"], spreads[other])
    return rounded(found)


def _lists(values: Measured) -> dict[str, list]:
    """The quantities that are one number for each start, as lists for JSON."""
    return {
        name: rounded(each.tolist()) for name, each in values.items() if each.ndim == 1
    }


def table(results: Mapping[str, Any], methods: Sequence[str]) -> str:
    """Results as lines: Table 1 with what stands behind it, conclusions, ROC."""
    lines = []
    for method in methods:
        head = "".join(f"{name:>19}" for name in _COLUMNS)
        lines.append(f"{method + ' from':<24}{head}")
        for index, name in enumerate(results["starts"]):
            if name in _SHOWN or name.startswith("normal"):
                row = "".join(f"{results[method][c][index]:>19.4g}" for c in _COLUMNS)
                lines.append(f"  {name:<22}{row}")
    for kind, letters in results["conclusions"].items():
        said = ", ".join(
            f"{letter} {'yes' if each['confirmed'] else 'no'}"
            for letter, each in sorted(letters.items())
        )
        lines.append(f"{'conclusions, ' + kind:<40}{said}")
    for kind, scores in results["detection"].items():
        said = ", ".join(f"{name} {each['auc']}" for name, each in scores.items())
        lines.append(f"{'AUC, ' + kind:<40}{said}")
    return "\n".join(lines)
