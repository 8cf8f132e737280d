"""Numbers of runs that take hours, kept in the repository: a file a run, in kept/.

A row of many such runs can then be measured in parts, on several machines. They count
for the same configuration alone, on the same images, by code of the same revisions; by
which versions of JAX and NumPy, the file says. Models and guesses are not kept, so that
such a row takes numbers alone.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from informed.experiment import stored
from informed.experiment.settings import Experiment
from informed.experiment.stored import Paths
from shadow import checks, files, sources

FOLDER = Path(__file__).parent / "kept"
_REVISION = "revision of "


def read(experiment: Experiment, paths: Paths) -> Mapping[str, Any] | None:
    """What is kept of a run: "made_at" and "results".

    Returns: None where nothing is, or where today's code or other images would give
      something else; then it is said.
    """
    file = _file(paths)
    if not file.exists():
        return None
    there = json.loads(file.read_text())
    differ = checks.differences(
        _decided(there["results"]["versions"]) | {"images": there["images"]},
        _revisions(experiment) | {"images": _images(experiment, paths)},
    )
    if differ:
        print(f"{file.name} is not counted: {'; '.join(differ)}", flush=True)
        return None
    return there


def write(
    experiment: Experiment, paths: Paths, results: Mapping[str, Any], made_at: str
) -> None:
    """Keep the numbers of a run; its picture isn't kept."""
    numbers = {name: value for name, value in results.items() if name != "picture"}
    values = {
        "made_at": made_at,
        "images": _images(experiment, paths),
        "results": numbers,
    }
    files.write_json(_file(paths), values)


def _file(paths: Paths) -> Path:
    return FOLDER / f"{paths.workdir.name}.json"


def _decided(versions: Mapping[str, Any]) -> dict[str, Any]:
    """The revisions that a results.json names, of all stages."""
    parts = [versions["models"], versions["evaluation"], *versions["attacks"].values()]
    return {
        name: value
        for part in parts
        for name, value in part.items()
        if name.startswith(_REVISION)
    }


def _revisions(experiment: Experiment) -> dict[str, Any]:
    """Those of today's code."""
    found = {"evaluation": stored.REVISION}
    for name in experiment.played:
        found |= experiment.attacks[name].revisions
    named = {f"{_REVISION}{name}": value for name, value in found.items()}
    return named | _decided(
        {
            "models": stored.shadow_record(experiment).versions,
            "evaluation": {},
            "attacks": {},
        }
    )


def _images(experiment: Experiment, paths: Paths) -> dict[str, str]:
    """SHA-256 of the images and labels of each data set, by its name."""
    found = {}
    for name in (experiment.data.name, experiment.data.shadow_name):
        if name:
            pool = sources.load(name, data_dir=paths.data_dir)
            digest = hashlib.sha256(pool.images.tobytes())
            digest.update(pool.labels.tobytes())
            found[name] = digest.hexdigest()
    return found
