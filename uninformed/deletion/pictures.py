"""How many deleted rows are how near: curves, as Bertran et al. draw them; images."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.figure
import numpy as np

from informed import report
from shadow import files
from uninformed.deletion.data import Sides

_COLUMNS = 10
_STYLES = {"average": ":", "largest difference": "--"}


def similarities(
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


def images(
    sides: Sides, shown: Mapping[str, tuple[np.ndarray, np.ndarray]], path: Path
) -> None:
    """Deleted images, and what the differences of the models show of them."""
    assert sides.shape is not None
    truth = next(iter(shown.values()))[1]
    columns = min(_COLUMNS, len(truth))
    figure = matplotlib.figure.Figure(
        figsize=(0.9 * columns + 1.2, 0.95 * (len(shown) + 1)), layout="constrained"
    )
    axes = figure.subplots(len(shown) + 1, columns, squeeze=False)
    rows = {"deleted": truth} | {model: each[0] for model, each in shown.items()}
    for row, (name, pictures) in zip(axes, rows.items(), strict=True):
        for axis, picture in zip(row, pictures[:columns], strict=True):
            report.show(axis, np.clip(picture, 0, 1).reshape(sides.shape))
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    files.write_bytes(path, report.png(figure))
