"""Pictures of where attacks on weights alone end, as in Runkel et al. 2024.

`study` calls these functions, each of which writes the PNG file that it is told.
"Truth" means the training images, "partition" others of their classes (`mixtures`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.figure
import numpy as np

from informed import report
from shadow import files
from uninformed import candidates
from uninformed.landscape import mixtures, quantities
from uninformed.landscape.mixtures import SHARES, Sets
from uninformed.landscape.quantities import Measured
from uninformed.montage import ImageRow, draw_rows

# Images in a row of a picture; more would be too small to see.
_COLUMNS = 10
# Least relative distance on the logarithmic scale of a map, because exact fits have no
# logarithm.
_TINY = 1e-12


def maps(names: Sequence[str], measured: Mapping[str, Measured], path: Path) -> None:
    """Draw Figure 10: distances at all mixtures."""
    kinds = ("truth", "partition", "noise", "distance_relative")
    figure = matplotlib.figure.Figure(
        figsize=(3.4 * len(kinds), 3 * len(measured)), layout="constrained"
    )
    axes = figure.subplots(len(measured), len(kinds), squeeze=False)
    ticks = range(len(SHARES))
    grid = np.array(
        [[names.index(mixtures.name(l1, l2)) for l2 in SHARES] for l1 in SHARES]
    )
    for row, (method, values) in zip(axes, measured.items(), strict=True):
        most = max(values[kind][grid].max() for kind in kinds[:3])
        for panel, kind in zip(row, kinds, strict=True):
            shown = values[kind][grid]
            scale = {"vmin": 0, "vmax": most}
            title = f"{method}: L2 to {kind}"
            if kind == "distance_relative":
                shown, scale = np.log10(np.maximum(shown, _TINY)), {}
                title = f"{method}: log10 |theta - theta*|^2 / |theta*|^2"
            image = panel.imshow(shown, origin="lower", cmap="viridis", **scale)
            figure.colorbar(image, ax=panel, shrink=0.8)
            panel.set(xlabel="l2: share of images", ylabel="l1: share of truth")
            panel.set_xticks(ticks, SHARES)
            panel.set_yticks(ticks, SHARES)
            panel.set_title(title, fontsize=8)
    files.write_bytes(path, report.png(figure))


def curves(names: Sequence[str], measured: Mapping[str, Measured], path: Path) -> None:
    """Draw Figures 11 and 12: distances along two edges of the map."""
    figure = matplotlib.figure.Figure(
        figsize=(3.4 * len(measured), 5.6), layout="constrained"
    )
    axes = figure.subplots(2, len(measured), squeeze=False, sharey=True)
    edges = {
        "partition": [(share, 1.0) for share in SHARES],
        "noise": [(1.0, share) for share in SHARES],
    }
    for column, (method, values) in zip(axes.T, measured.items(), strict=True):
        for panel, (other, pairs) in zip(column, edges.items(), strict=True):
            rows = [names.index(mixtures.name(*pair)) for pair in pairs]
            for kind, colour in (("truth", "tab:red"), (other, "tab:green")):
                panel.plot(SHARES, values[kind][rows], color=colour, label=f"to {kind}")
            panel.set(xlabel=f"share of truth against {other}")
            panel.set_title(method, fontsize=9)
            panel.legend(fontsize=7)
    for panel in axes[:, 0]:
        panel.set_ylabel("mean L2 distance")
    files.write_bytes(path, report.png(figure))


def images(
    sets: Sets, names: Sequence[str], ends: np.ndarray, method: str, path: Path
) -> None:
    """Draw Figures 1 to 9: the outcomes above their nearest training images.

    The partition's outcomes also have its nearest images. SSIM is printed below images.
    """
    rows = []
    for name in mixtures.unmixed(names):
        ended = ends[names.index(name)].astype(np.float64)
        pick = np.linspace(0, len(ended) - 1, min(_COLUMNS, len(ended))).astype(int)
        ended = ended[pick]
        # Images are stretched unless they lie in [0, 1] already.
        low, high = ended.min(axis=(1, 2, 3)), ended.max(axis=(1, 2, 3))
        outside = ((low < -0.1) | (high > 1.1))[:, None, None, None]
        visible = np.where(outside, candidates.stretched(ended), ended)
        rows.append(ImageRow(f"from {name}", visible))
        labels = {"truth": "nearest training image", "partition": "nearest of start"}
        for kind in ("truth", "partition") if name == "partition" else ("truth",):
            others = getattr(sets, kind)
            alike = quantities.similarities(ended, others)
            nearest = others[alike.argmax(axis=1)]
            rows.append(ImageRow(labels[kind], nearest, alike.max(axis=1)))
    draw_rows(rows, path, title=method)
