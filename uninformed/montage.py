"""Draw labelled rows of images as a PNG.

`kkt.scoring` and `landscape.maps` show candidates beside training images by it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.figure
import numpy as np

from informed import report
from shadow import files


class ImageRow(NamedTuple):
    """A row of images (columns, height, width, channels), pixels in [0, 1].

    Its label is to the left, and captions are numbers below the images.
    """

    label: str
    images: np.ndarray
    captions: np.ndarray | None = None


def draw_rows(rows: Sequence[ImageRow], path: Path, *, title: str = "") -> None:
    """Draw images in rows of equal length, and write them to `path` as PNG."""
    columns = len(rows[0].images)
    figure = matplotlib.figure.Figure(
        figsize=(0.8 * columns + 2, 0.95 * len(rows) + 0.3), layout="constrained"
    )
    if title:
        figure.suptitle(title, fontsize=9)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for panels, row in zip(axes, rows, strict=True):
        for number, (panel, image) in enumerate(zip(panels, row.images, strict=True)):
            report.show(panel, image)
            panel.set(xticks=[], yticks=[])
            if row.captions is not None:
                panel.set_xlabel(f"{row.captions[number]:.2f}", fontsize=6, labelpad=1)
        panels[0].set_ylabel(row.label, rotation=0, ha="right", va="center", fontsize=7)
    files.write_bytes(path, report.png(figure))
