"""Show a run's results: as PNG pictures (`evaluation`), as a table (`run_commands`).

`reconstruction_grid` and `distance_histogram` write to the path that is given; the
first shows true targets. `uninformed` and benchmarks use `show` and `png`.
"""

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np

from dp import rero
from informed.metrics import PERCENTILES, Neighbours
from informed.report import words
from shadow import files


def reconstruction_grid(
    path: Path,
    *,
    targets: np.ndarray,
    attacks: Mapping[str, tuple[np.ndarray, np.ndarray]],
    neighbours: np.ndarray,
    neighbour_errors: np.ndarray,
) -> None:
    """Draw targets, every attack's guesses, and nearest neighbours in rows of a PNG.

    Args:
      targets, neighbours: (columns, height, width, channels), pixels in [0, 1].
      attacks: name -> (images, errors) for the first targets.
      neighbour_errors: (columns,), MSE per pixel; errors are written below images.
    """
    columns = len(targets)
    rows: list[tuple[str, np.ndarray, np.ndarray | None]] = [
        ("target", targets, None),
        *((name.replace("_", "\n"), *pair) for name, pair in attacks.items()),
        ("nearest\nneighbour", neighbours, neighbour_errors),
    ]
    figure = matplotlib.figure.Figure(
        figsize=(1.05 * columns + 1.3, 1.0 + 1.05 * len(rows)), dpi=120
    )
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for row, (name, images, values) in enumerate(rows):
        for column in range(columns):
            axis = axes[row, column]
            if column < len(images):
                show(axis, images[column])
            axis.set(xticks=[], yticks=[])
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
    files.write_bytes(path, png(figure))


def show(axis: matplotlib.axes.Axes, image: np.ndarray) -> None:
    """Draw an image (height, width, channels), in grey if it has one channel."""
    image = image[..., 0] if image.shape[-1] == 1 else image
    axis.imshow(np.clip(image, 0, 1), cmap="gray", vmin=0, vmax=1)


def distance_histogram(
    path: Path, neighbours: Neighbours, attacks: Mapping[str, float]
) -> None:
    """Draw Figure 3 of Balle et al. 2022: targets' distances to the adversary's data.

    Mean errors of attacks, by name, are drawn for comparison, in a PNG at `path`.
    """
    figure = matplotlib.figure.Figure(figsize=(6.4, 3.4), dpi=120)
    axis = figure.subplots()
    edges, shares = neighbours.edges, neighbours.histogram
    axis.bar(edges[:-1], shares, width=np.diff(edges), align="edge", color="0.8")
    lines = [*attacks.items(), ("NN oracle", neighbours.mse.mean())]
    means = neighbours.percentiles.mean(axis=0)
    for percentile, value in zip(PERCENTILES, means, strict=True):
        lines.append((f"percentile {percentile}", value))
    for number, (name, value) in enumerate(lines):
        axis.axvline(value, color=f"C{number}", label=f"{name} {value:.4f}")
    axis.set_xlabel("MSE per pixel to a point of the adversary's data")
    axis.set_ylabel("share of the data")
    axis.set_xlim(left=0)
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    files.write_bytes(path, png(figure))


def table(results: Mapping[str, Any]) -> str:
    """Return the contents of a run's results.json as a text table."""
    lines = [f"{'average MSE per pixel':<28}{results['num_targets']} test targets"]
    for name, row in results["attacks"].items():
        lines += _of_attack(name, row, results["num_targets"])
        if words.above_bound(row, len(results["attacks"])):
            lines.append("    ABOVE ITS BOUND: training doesn't add the declared noise")
    lines += [
        f"  {'nearest-neighbour oracle':<26}{results['nn_oracle_mse']:>8.5f}",
        f"  {'mean image':<26}{results['mean_image_mse']:>8.5f}",
    ]
    if results["epsilon"] is not None:
        epsilon = rero.rounded_up(results["epsilon"], 4)
        of_target = rero.rounded_up(results["epsilon_of_target"], 4)
        label_bound = rero.rounded_up(100 * results["label_bound"], 4)
        lines += [
            f"differential privacy        epsilon {epsilon} at delta"
            f" {results['delta']:g}",
            f"  of the target's place     epsilon {of_target}",
            f"  accounted                 {results['accounted']}",
            f"label: bound                {label_bound} % of any"
            " attack that isn't told the label or the noise (99 % confidence)",
        ]
    for part, what in (
        ("fixed", "targets with copies in D_-"),
        ("shadow", "  among shadow targets"),
    ):
        copies = results["copies"][part]
        if copies["exact"] or copies["near"]:
            lines.append(f"{what:<28}{copies['exact']} exact, {copies['near']} near")
    accuracy = results["released_accuracy"]
    said = "cannot be told" if accuracy is None else f"{100 * accuracy:.1f} %"
    lines += [
        f"shadow models               {results['shadow_models']}",
        f"released models' accuracy   {said}",
        f"wall time                   {results['wall_s']:.0f} s",
    ]
    return "\n".join(lines)


def _of_attack(name: str, row: Mapping[str, Any], targets: int) -> list[str]:
    """Return the lines of one attack: its error, then further results.

    Exact attacks are summarised by their median, since one miss dominates their mean.
    """
    count, exact = row["targets"], row["certified"] is not None
    value = row["mse_median" if exact else "mse"]
    what = f"{name}, median of {count}" if exact else name
    if not exact and count < targets:
        what = f"{name}, {count} targets"
    form = _small(value) if value < 1e-4 else ".5f"
    lines = [f"  {what:<26}{value:>8{form}}"]
    if exact:
        lines.append(f"    certified as exact        {row['certified']} of {count}")
    if row["labels_right"] is not None:
        share = 100 * row["labels_right"] / count
        lines.append(f"    labels recovered          {share:.1f} %")
    if "known_rows" in row:
        what = f"{row['known_rows']} rows known, others"
        lines.append(f"    {what:<24}{row['mse_of_unknown']:>8.5f}")
    if row["lpips"] is not None:
        lines.append(f"    {'LPIPS':<26}{row['lpips']:.4f}")
    closer = row["closer_than_oracle"]
    lines.append(
        f"    closer than the oracle    {100 * closer['rate']:.1f} % of targets (95 %:"
        f" {100 * closer['low']:.1f} to {math.ceil(1000 * closer['high'] - 1e-8) / 10})"
    )
    return lines


def _small(error: float) -> str:
    """Return the format of a tiny error; 0, exact to the last bit, has no exponent."""
    return ".0e" if error else ".0f"


def png(figure: matplotlib.figure.Figure) -> bytes:
    """Return a figure as the bytes of a PNG file; for `uninformed` too."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
