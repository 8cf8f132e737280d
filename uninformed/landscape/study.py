"""The commands `informed landscape` and `bilevel`: runs, measurements, pictures.

`informed.cli.run_commands` calls `execute`; `bilevel` is `landscape` with that method
alone. Results and pictures go into the work folder. Batches of starts are kept there in
`ends/`, so that an interrupted run resumes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shadow import checks, files, records
from uninformed import candidates
from uninformed.landscape import conclusions, detection, maps, mixtures, runs
from uninformed.landscape.quantities import Measured, measure
from uninformed.landscape.runs import LandscapeConfig, Outcomes

# The quantities that the printed table shows, see `measure`.
_COLUMNS = (
    "distance",
    "distance_relative",
    "truth",
    "partition",
    "ssim",
    "held_out_ssim",
    "similar",
    "held_out_similar",
    "recovered",
    "held_out_recovered",
    "distinct",
    "held_out_distinct",
)


def execute(
    fields: Mapping[str, Any], workdir: Path, data_dir: str | None, *, progress: bool
) -> tuple[dict[str, Any], str, list[Path]]:
    """Run the landscape of a `LandscapeConfig` for the command line.

    Returns: results for JSON; the same as lines of text; files of pictures.
    Raises: FieldError: a field of the configuration is wrong.
    """
    config = checks.build(LandscapeConfig, fields)
    results = run(config, workdir, data_dir, progress=progress)
    names = ["maps.png", "curves.png"]
    names += [f"images_{method}.png" for method in config.methods]
    lines = _table(results, config.methods)
    return results, lines, [workdir / name for name in names]


def run(
    config: LandscapeConfig,
    workdir: Path,
    data_dir: str | None = None,
    *,
    progress: bool = True,
) -> dict[str, Any]:
    """Write results.json and pictures; return what results.json holds.

    Raises: ConfigurationMismatchError: the folder holds another landscape.
    """
    sets = mixtures.load(config.data, config.seed, data_dir)
    starts = mixtures.make(config.starts, sets, config.seed)
    names, images = list(starts), np.stack(list(starts.values()))
    clock = records.Clock(workdir / "seconds.json")
    outcomes: dict[str, Outcomes] = {}
    measured: dict[str, Measured] = {}
    for method in config.methods:
        with clock.running(method):
            outcomes[method] = runs.run(
                config, method, sets, starts, workdir, progress=progress
            )
            if not np.isfinite(outcomes[method].images).all():
                rate = "kkt.rate" if method == "kkt" else "attack.rate"
                raise checks.FieldError(
                    rate, f"Expected {{}} at which {method} ends at finite images."
                )
            measured[method] = measure(sets, outcomes[method])
    scores = {
        method: detection.uninformed(names, outcomes[method], measured[method]["true"])
        for method in config.methods
    }
    if config.victim.kind == "affine":
        retrained = detection.informed(sets, starts, config.victim.decay)
        scores["informed"] = {"retraining": retrained}
    detected: dict[str, Any] = {
        method: {name: score.summary() for name, score in by_name.items()}
        for method, by_name in scores.items()
    }
    if config.victim.kind == "affine":
        detected["informed"]["retraining"] |= detection.gap(retrained)
    ended = {method: outcomes[method].images for method in config.methods}
    results = {
        "verdict": "\n".join(
            f"{method}: {_verdict(names, values, len(sets.truth))}"
            for method, values in measured.items()
        ),
        "seconds": {method: clock.seconds[method] for method in config.methods},
        "starts": names,
        **{
            method: _rounded(
                {name: v.tolist() for name, v in values.items() if v.ndim == 1}
            )
            for method, values in measured.items()
        },
        "conclusions": _rounded(
            conclusions.conclude(
                config.starts.perturbed, names, images, ended, measured
            )
        ),
        "detection": detected,
    }
    maps.maps(names, measured, workdir / "maps.png")
    maps.curves(names, measured, workdir / "curves.png")
    for method in config.methods:
        file = workdir / f"images_{method}.png"
        maps.images(sets, names, ended[method], method, file)
    files.write_json(workdir / "results.json", results)
    return results


def _verdict(names: Sequence[str], measured: Measured, count: int) -> str:
    """Say what came out of starts that an adversary has, without mixtures."""
    looks = {}
    for name in mixtures.unmixed(names):
        if not mixtures.holds_truth(name):
            row = {
                n: int(v[names.index(name)]) for n, v in measured.items() if v.ndim == 1
            }
            looks[f"begun at {name}, "] = row | {
                "targets": count,
                "held_out_targets": count,
                "recovered": row["distinct"],
                "candidates_recovered": row["distinct"],
                "held_out_recovered": row["held_out_distinct"],
            }
    return candidates.verdict(looks)


def _rounded(value: Any) -> Any:
    """Round every float in nested dictionaries and lists to four digits."""
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _table(results: Mapping[str, Any], methods: Sequence[str]) -> str:
    """Return results as lines: Table 1 and more columns, conclusions, AUC."""
    shown = mixtures.unmixed(results["starts"])
    lines = [results["verdict"], candidates.NO_PROTECTION, ""]
    for method in methods:
        head = "".join(f"{name:>19}" for name in _COLUMNS)
        lines.append(f"{method + ' from':<24}{head}")
        for index, name in enumerate(results["starts"]):
            if name in shown:
                row = "".join(f"{results[method][c][index]:>19.4g}" for c in _COLUMNS)
                lines.append(f"  {name:<22}{row}")
    for kind, letters in results["conclusions"].items():
        verdicts = ", ".join(
            f"{letter} {'yes' if conclusion['confirmed'] else 'no'}"
            for letter, conclusion in sorted(letters.items())
        )
        lines.append(f"{'conclusions, ' + kind:<40}{verdicts}")
    for kind, scores in results["detection"].items():
        areas = ", ".join(f"{name} {score['auc']}" for name, score in scores.items())
        lines.append(f"{'AUC, ' + kind:<40}{areas}")
    return "\n".join(lines)
