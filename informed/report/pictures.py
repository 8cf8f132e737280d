"""Pictures and tables of a finished attack."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np

from informed.metrics import PERCENTILES, Neighbours
from shadow import files

ATTACKS = {"network": "RecoNN", "kernel": "kernel regression"}  # reconn.kind, to read


def reconstruction_grid(
    path: Path,
    *,
    targets: np.ndarray,
    reconstructions: np.ndarray,
    neighbours: np.ndarray,
    errors: np.ndarray,
    neighbour_errors: np.ndarray,
    others: Mapping[str, tuple[np.ndarray, np.ndarray]],
    attack: str = "RecoNN",
) -> None:
    """Draw targets, reconstructions and nearest neighbours in rows.

    Args:
      path: PNG file.
      targets, reconstructions, neighbours: (columns, height, width, channels), [0, 1].
      errors, neighbour_errors: (columns,), MSE per pixel, written below each image.
      others: name -> (images, errors) of other attacks, on the first targets.
      attack: what the reconstructions are called.
    """
    columns = len(targets)
    rows: list[tuple[str, np.ndarray, np.ndarray | None]] = [
        ("target", targets, None),
        (attack.replace(" ", "\n"), reconstructions, errors),
        ("nearest\nneighbour", neighbours, neighbour_errors),
    ]
    for name, (images, found) in others.items():
        rows.insert(1, (name.replace(" ", "\n"), images, found))
    figure = matplotlib.figure.Figure(
        figsize=(1.05 * columns + 1.3, 1.0 + 1.05 * len(rows)), dpi=120
    )
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for row, (name, images, values) in enumerate(rows):
        for column in range(columns):
            axis = axes[row, column]
            if column < len(images):
                show(axis, images[column])
            axis.set_xticks([])
            axis.set_yticks([])
            for spine in axis.spines.values():
                spine.set_visible(False)
            if values is not None and column < len(values):
                value = values[column]
                form = ".4f" if value >= 1e-4 else _small(value)
                axis.set_xlabel(f"{value:{form}}", fontsize=8)
        axes[row, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    figure.suptitle(
        "The first test targets, what the attacks read out of the released weights,"
        "\nand the nearest image the adversary already had (MSE per pixel below)",
        fontsize=10,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    _save(figure, path)


def show(axis: matplotlib.axes.Axes, image: np.ndarray) -> None:
    """Draw an image (height, width, channels), grey where it has one channel."""
    image = image[..., 0] if image.shape[-1] == 1 else image
    axis.imshow(np.clip(image, 0, 1), cmap="gray", vmin=0, vmax=1)


def distance_histogram(
    path: Path, neighbours: Neighbours, attack_mse: float, attack: str = "RecoNN"
) -> None:
    """Draw Figure 3 of the paper: distances between targets and the adversary's data.

    Args:
      path: PNG file.
      neighbours: of all targets.
      attack_mse, attack: mean MSE and name of the attack, drawn for comparison.
    """
    figure = matplotlib.figure.Figure(figsize=(6.4, 3.4), dpi=120)
    axis = figure.subplots()
    widths = np.diff(neighbours.edges)
    axis.bar(
        neighbours.edges[:-1],
        neighbours.histogram,
        width=widths,
        align="edge",
        color="0.8",
    )
    lines = [(attack, attack_mse, "C3"), ("NN oracle", neighbours.mse.mean(), "C2")]
    for number, percentile in enumerate(PERCENTILES):
        value = neighbours.percentiles[:, number].mean()
        lines.append((f"percentile {percentile}", value, f"C{4 + number}"))
    for name, value, colour in lines:
        axis.axvline(value, color=colour, label=f"{name} {value:.4f}")
    axis.set_xlabel("MSE per pixel to a point of the adversary's data")
    axis.set_ylabel("share of the data")
    axis.set_xlim(left=0)
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    _save(figure, path)


def table(results: Mapping[str, Any]) -> str:
    """The results as text, for people."""
    attack = ATTACKS[results["configuration"]["reconn"]["kind"]]
    better = results["closer_than_oracle"]
    rows = [
        (attack, f"{results['reconn_mse']:.5f}"),
        ("nearest-neighbour oracle", f"{results['nn_oracle_mse']:.5f}"),
        ("mean image", f"{results['mean_image_mse']:.5f}"),
    ]
    for name, found in results["attacks"].items():
        if name not in ("reconn", "inversion"):
            rows.append((f"{name}, {found['targets']} targets", f"{found['mse']:.3g}"))
    if results["inversion_targets"]:
        count = results["inversion_targets"]
        name = f"inversion, median of {count}"
        median = results["inversion_mse_median"]
        rows.insert(0, (name, f"{median:{_small(median)}}"))
    lines = [f"{'average MSE per pixel':<28}{results['num_targets']} test targets"]
    lines += [f"  {name:<26}{value:>8}" for name, value in rows]
    if results["reconn_labels_right"] is not None:
        right = 100 * results["reconn_labels_right"]
        lines.append(f"labels recovered            {right:.1f} %")
    if results["reconn_lpips"] is not None:
        lines.append(f"{attack + ', LPIPS':<28}{results['reconn_lpips']:.4f}")
    if results["reconn_kl"] is not None:
        lines.append(
            f"{attack + ', KL':<28}{results['reconn_kl']:.4f} (classifier:"
            f" {100 * results['classifier_accuracy']:.1f} %)"
        )
    if results["inversion_targets"]:
        lines.append(
            f"certified as exact          {results['inversion_certified']} of"
            f" {results['inversion_targets']} inversions"
        )
    if results["epsilon"] is not None:
        lines += [
            f"differential privacy        epsilon {results['epsilon']:.4g} at delta"
            f" {results['delta']:g}",
            f"  of the target's place     epsilon {results['epsilon_of_target']:.4g}",
            f"  accounted                 {results['accounted']}",
        ]
        lines.append(
            f"label: bound                {100 * results['label_bound']:.1f} % (always"
            " valid, whatever the attack)"
        )
    lines += [
        f"closer than the oracle      {100 * better['rate']:.1f} % of targets"
        f" (95 %: {100 * better['low']:.1f} to {100 * better['high']:.1f})",
        *_copied(results),
        f"shadow models               {results['shadow_models']}",
        f"released models' accuracy   {100 * results['released_accuracy']:.1f} %",
        f"wall time                   {results['wall_s']:.0f} s",
    ]
    return "\n".join(lines)


def _copied(results: Mapping[str, Any]) -> list[str]:
    """Targets that are known without any attack, if there are some."""
    found = results["copies"]
    return [
        f"{what:<28}{found[part]['exact']} exact, {found[part]['near']} near"
        for part, what in (
            ("fixed", "targets with copies in D_-"),
            ("shadow", "  among shadow targets"),
        )
        if found[part]["exact"] or found[part]["near"]
    ]


def _small(error: float) -> str:
    """How a tiny error is written; 0 is exact to the last bit."""
    return ".0e" if error else ".0f"


def png(figure: matplotlib.figure.Figure) -> bytes:
    """A figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _save(figure: matplotlib.figure.Figure, path: Path) -> None:
    """Write a PNG in one step."""
    files.write_bytes(path, png(figure))
