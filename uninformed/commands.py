"""`informed kkt` and `informed landscape`: experiments of papers.

The command line finds this module by name when one of them is asked for.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shadow import checks
from uninformed.kkt import command as kkt
from uninformed.kkt.experiment import Uninformed
from uninformed.landscape import command as landscape
from uninformed.landscape.runs import LandscapeConfig


def execute(
    command: str,
    fields: Mapping[str, Any],
    workdir: Path,
    data_dir: str | None,
    *,
    progress: bool,
) -> tuple[dict[str, Any], str, list[Path]]:
    """Run one of the experiments.

    Args:
      command: "kkt" or "landscape".
      fields: the configuration of the experiment.
      workdir: folder that results, pictures and what a later call goes on with are
        written to.
      data_dir: folder of TensorFlow Datasets; None: the usual one.
      progress: whether bars are shown.
    Returns: results for JSON; the same as lines of text; files of pictures.
    Raises: FieldError: a field of the configuration is wrong.
    """
    if command == "kkt":
        experiment = checks.build(Uninformed, fields)
        results = kkt.run(experiment, workdir, data_dir, progress=progress)
        return results, kkt.table(results), [workdir / name for name in kkt.PICTURES]
    grid = checks.build(LandscapeConfig, fields)
    results = landscape.run(grid, workdir, data_dir, progress=progress)
    names = [*landscape.PICTURES, *(f"images_{m}.png" for m in grid.methods)]
    lines = landscape.table(results, grid.methods)
    return results, lines, [workdir / name for name in names]
