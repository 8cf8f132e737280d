"""How many unknown points a release holds: predicted from public ones, then measured.

    python -m benchmarks.phase --out=runs/phase.jsonl [--figure=phase.png]

Digits, fixed set 300, Table V with 5, 10 and 20 hidden units; 1 to 20 points unknown,
weights published in float32, float16 and bfloat16. Prediction, which needs no release:
the Jacobian of training at as many public points, the noise of rounding, a Gaussian
prior; the spread that this leaves says how far pixels are from their levels
(`levels.expected_mse`), and exact is predicted where fewer than one pixel of all is
expected to be wrong. Measurement: `Inversion.several`, labels told, one release
a cell. One JSON line a cell, and at the end how many were predicted rightly.
"""

import argparse
import dataclasses
import itertools
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import informed
import shadow
from benchmarks import resumed
from benchmarks.developers import developer
from benchmarks.inversion_table import matched
from informed.attacks.inversion import pixel_levels
from informed.attacks.inversion.certificate import noise_of
from informed.attacks.inversion.problem import Published, Start
from informed.attacks.inversion.shared_measurements import SharedMeasurements
from shadow import devices
from shadow.views import EVERYTHING

UNKNOWN = (1, 2, 5, 10, 15, 20)
WIDTHS = (5, 10, 20)
FORMS = ("float32", "float16", "bfloat16")
LEVELS = 16  # above zero, of a digit's pixels
CONFIG = informed.InversionConfig(engine="derivatives", starts=2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, default=10, help="unknowns measured")
    parser.add_argument("--out", type=Path, default=None, help="a file of JSON lines")
    parser.add_argument("--figure", type=Path, default=None)
    arguments = parser.parse_args()
    devices.one_a_core()
    done = {
        (line["width"], line["unknown"], line["form"]): line
        for line in resumed.lines(arguments.out, {"seed": arguments.seed})
    }
    for which in itertools.product(WIDTHS, UNKNOWN, FORMS):
        run = which[1] <= arguments.largest
        if which in done and (done[which]["exact"] is not None or not run):
            continue
        line = done[which] = cell(arguments.seed, *which, run)
        resumed.append(arguments.out, line)
        print(json.dumps(line), flush=True)
    if arguments.figure is not None:
        draw(list(done.values()), arguments.figure)
    measured = [line for line in done.values() if line["exact"] is not None]
    right = sum(line["predicted"] == (line["exact"] == 1) for line in measured)
    print(json.dumps({"cells": len(measured), "predicted_rightly": right}))


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """One panel a width: what is expected as colour, what was found as a mark."""
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    panels = figure.subplots(1, len(WIDTHS), sharey=True)
    for panel, width in zip(panels, WIDTHS, strict=True):
        for line in lines:
            if line["width"] != width:
                continue
            x, y = UNKNOWN.index(line["unknown"]), FORMS.index(line["form"])
            share = line["pixels_expected_wrong"] / line["numbers"]
            colour = (
                "#1b7837" if line["predicted"] else ("#fdae61", "#d73027")[share > 0.3]
            )
            panel.add_patch(Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, color=colour))
            if line["exact"] is not None:
                text = f"{line['exact']:.0%}"
                ink = "black" if colour == "#fdae61" else "white"
                panel.text(x, y, text, ha="center", va="center", color=ink, size=8)
        panel.set(
            xlim=(-0.5, len(UNKNOWN) - 0.5),
            ylim=(len(FORMS) - 0.5, -0.5),
            xticks=range(len(UNKNOWN)),
            xticklabels=UNKNOWN,
            yticks=range(len(FORMS)),
            yticklabels=FORMS,
            xlabel="unknown points",
            title=f"{width} hidden units",
        )
    figure.savefig(path, dpi=120)


def cell(seed: int, width: int, unknown: int, form: str, run: bool) -> dict[str, Any]:
    """One line."""
    split = shadow.split(
        shadow.load("digits"), num_fixed=300, num_shadow=1200, num_test=20, seed=seed
    )
    points, rest = split.test.take(slice(0, unknown)), split.fixed
    known = rest.joined(points.take(slice(0, -1)))
    factory = developer(known, seed=seed, victim={"widths": (width,)})
    layout = factory.descent.victim.layout
    knowledge = dataclasses.replace(factory.knowledge(public=split.shadow), fixed=rest)
    view: shadow.Layers = EVERYTHING
    if form != "float32":
        view = shadow.Layers.of(layout, precision=form)
    release = shadow.publish(factory.train(points.take(slice(-1, None))), view)
    shared = SharedMeasurements(CONFIG, knowledge, jax.random.key(1))
    wrong = expected_wrong(
        shared, Published.of(release, 0), split.shadow.take(slice(0, unknown))
    )
    line: dict[str, Any] = {
        "width": width,
        "unknown": unknown,
        "form": form,
        "numbers": unknown * 64,
        "weights": layout[-1].stop,
        "pixels_expected_wrong": float(f"{wrong:.2g}"),
        "predicted": wrong < 1,
        "exact": None,
    }
    if not run:
        return line
    start = time.perf_counter()
    (found,) = informed.Inversion(config=CONFIG).several(
        release, knowledge, points.labels[None], key=jax.random.key(1)
    )
    errors = matched(points.images, found.images)
    line["exact"] = float(np.mean(errors <= CONFIG.exact_mse))
    line["median_mse"] = float(f"{np.median(errors):.2g}")
    line["certified"] = bool(np.asarray(found.certified).all())
    line["seconds"] = round(time.perf_counter() - start, 1)
    return line


def expected_wrong(
    shared: SharedMeasurements, published: Published, public: shadow.Examples
) -> float:
    """Expect so many pixels of unknown points off their level; at public points."""
    images = public.images.astype(np.float64)
    start = Start(labels=public.labels, images=images, patient=False)
    rounding = shared.runs.rounding(images, start.labels)
    noise = noise_of(published, rounding)
    basis = shared.known.coordinates.basis
    slopes = noise.whiten(shared.runs.slopes(images, public.labels, basis).T)
    # Residuals have unit noise, unknowns a standard normal prior.
    covariance = np.linalg.inv(slopes @ slopes.T + np.eye(len(slopes)))
    blocks = np.split(np.arange(len(slopes)), len(public))
    variances = [
        np.einsum("ip,ij,jp->p", basis, covariance[np.ix_(rows, rows)], basis)
        for rows in blocks
    ]
    mse = pixel_levels.expected_mse(np.stack(variances), LEVELS)
    return mse * LEVELS**2 * len(public) * basis.shape[1]


if __name__ == "__main__":
    main()
