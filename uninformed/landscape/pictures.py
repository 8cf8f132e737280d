"""Figures 1 to 12 of Runkel et al. 2024, of our runs; and ROC curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.figure
import numpy as np
from sklearn.metrics import roc_curve

from informed import report
from shadow import files
from uninformed import candidates
from uninformed.landscape import quantities, starts
from uninformed.landscape.detection import Scores
from uninformed.landscape.quantities import Measured
from uninformed.landscape.starts import Sets, StartsConfig

_COLUMNS = 10
_TINY = 1e-12  # of distances on a logarithmic scale


def maps(
    config: StartsConfig,
    names: Sequence[str],
    measured: Mapping[str, Measured],
    path: Path,
) -> None:
    """Figure 10: distances at all mixtures."""
    kinds = ("truth", "partition", "noise", "distance_relative")
    figure = matplotlib.figure.Figure(
        figsize=(3.4 * len(kinds), 3 * len(measured)), layout="constrained"
    )
    axes = figure.subplots(len(measured), len(kinds), squeeze=False)
    size = len(config.shares)
    rows = [
        [names.index(starts.name(l1, l2)) for l2 in config.shares]
        for l1 in config.shares
    ]
    for row, (method, values) in zip(axes, measured.items(), strict=True):
        grid = np.array(rows)
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
            panel.set(
                xlabel="l2: share of images",
                ylabel="l1: share of truth",
                xticks=range(size),
                yticks=range(size),
                xticklabels=config.shares,
                yticklabels=config.shares,
            )
            panel.set_title(title, fontsize=8)
    files.write_bytes(path, report.png(figure))


def curves(
    config: StartsConfig,
    names: Sequence[str],
    measured: Mapping[str, Measured],
    path: Path,
) -> None:
    """Figures 11 and 12: along two edges of the map."""
    figure = matplotlib.figure.Figure(
        figsize=(3.4 * len(measured), 5.6), layout="constrained"
    )
    axes = figure.subplots(2, len(measured), squeeze=False, sharey=True)
    edges = {
        "partition": [(share, 1.0) for share in config.shares],
        "noise": [(1.0, share) for share in config.shares],
    }
    for column, (method, values) in zip(axes.T, measured.items(), strict=True):
        for panel, (other, pairs) in zip(column, edges.items(), strict=True):
            rows = [names.index(starts.name(*pair)) for pair in pairs]
            for kind, colour in (("truth", "tab:red"), (other, "tab:green")):
                panel.plot(
                    config.shares, values[kind][rows], color=colour, label=f"to {kind}"
                )
            panel.set(xlabel=f"share of truth against {other}")
            panel.set_title(method, fontsize=9)
            panel.legend(fontsize=7)
    for panel in axes[:, 0]:
        panel.set_ylabel("mean L2 distance")
    files.write_bytes(path, report.png(figure))


def images(
    sets: Sets, names: Sequence[str], ends: np.ndarray, method: str, path: Path
) -> None:
    """Figures 1 to 9: what was found, above its nearest training image.

    For the partition its nearest there as well. SSIM below the pictures.
    """
    shown = [name for name in names if name in (*starts.CORNERS, starts.COLLAPSED)]
    shown += [name for name in names if name.startswith("normal")]
    rows: list[tuple[str, np.ndarray, np.ndarray | None]] = []
    for name in shown:
        found = ends[names.index(name)].astype(np.float64)
        pick = np.linspace(0, len(found) - 1, min(_COLUMNS, len(found))).astype(int)
        found = found[pick]
        rows.append((f"from {name}", _visible(found), None))
        kinds = ["truth", "partition"] if name == "partition" else ["truth"]
        for kind in kinds:
            others = getattr(sets, kind)
            alike = quantities.similarities(found, others)
            label = "nearest training image" if kind == "truth" else "nearest of start"
            rows.append((label, others[alike.argmax(axis=1)], alike.max(axis=1)))
    columns = len(rows[0][1])
    figure = matplotlib.figure.Figure(
        figsize=(0.8 * columns + 2, 0.95 * len(rows) + 0.3), layout="constrained"
    )
    figure.suptitle(method, fontsize=9)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for row, (label, pictures, alike_or_none) in zip(axes, rows, strict=True):
        for number, (panel, image) in enumerate(zip(row, pictures, strict=True)):
            report.show(panel, image)
            panel.set(xticks=[], yticks=[])
            if alike_or_none is not None:
                panel.set_xlabel(f"{alike_or_none[number]:.2f}", fontsize=6, labelpad=1)
        row[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=7)
    files.write_bytes(path, report.png(figure))


def _visible(found: np.ndarray) -> np.ndarray:
    """Stretched, unless in range already."""
    outside = (found.min(axis=(1, 2, 3)) < -0.1) | (found.max(axis=(1, 2, 3)) > 1.1)
    return np.where(outside[:, None, None, None], candidates.stretched(found), found)


def roc(scores: Mapping[str, Mapping[str, Scores]], path: Path) -> None:
    """True against false positives, a panel a method."""
    figure = matplotlib.figure.Figure(
        figsize=(3.2 * len(scores), 3.2), layout="constrained"
    )
    axes = figure.subplots(1, len(scores), squeeze=False)[0]
    for panel, (method, each) in zip(axes, scores.items(), strict=True):
        for name, score in each.items():
            if score.true.any() and not score.true.all():
                false, true, _ = roc_curve(score.true, score.values)
                auc = score.summary()["auc"]
                panel.plot(false, true, label=f"{name}: AUC {auc:.3f}")
        panel.plot([0, 1], [0, 1], color="grey", linewidth=0.6)
        panel.set(xlabel="false positives", ylabel="true positives", aspect="equal")
        panel.set_title(method, fontsize=9)
        panel.legend(fontsize=7, loc="lower right")
    files.write_bytes(path, report.png(figure))
