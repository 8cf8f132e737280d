"""The uninformed adversary's job in one piece: victim, search, counts, pictures.

`informed kkt --config=configs/kkt.py --workdir=DIR`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shadow import files
from uninformed.kkt import evaluation
from uninformed.kkt.experiment import Uninformed, attacked

PICTURES = (evaluation.RECONSTRUCTIONS, evaluation.OUTPUTS)


def run(
    experiment: Uninformed,
    workdir: Path,
    data_dir: str | None = None,
    *,
    progress: bool = True,
) -> dict[str, Any]:
    """Train, attack, evaluate. Returns what `results.json` holds.

    Args:
      progress: whether bars are shown.
    Raises: ConfigurationMismatchError: the folder holds another victim or search.
    """
    made = attacked(experiment, workdir, data_dir, progress=progress)
    results = evaluation.evaluate(experiment, made, workdir) | dict(made.seconds)
    files.write_json(workdir / "results.json", results)
    return results


def table(results: Mapping[str, Any]) -> str:
    """Results as lines of a name and a value."""
    return "\n".join(f"{name:<32}{value}" for name, value in results.items())
