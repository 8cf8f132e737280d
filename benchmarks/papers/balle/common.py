"""What the rows of Balle et al. have in common: lines of tables, small figures."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np

import reconn
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Line
from informed import metrics, report
from shadow import sources
from shadow.data import Examples
from shadow.models import ShadowModels
from shadow.threat import Knowledge, publish

# An attack of a run -> how tables call it.
CALLED = {name: name for name in ("kernel", "refined", "inversion")}
CALLED["reconn"] = "network"
METRICS = {"mse": "MSE", "lpips": "LPIPS", "kl": "KL"}
# The oracle's mean distance, as the paper has it (Figure 3).
ORACLES = {"mnist": 0.0232, "cifar10": 0.0291}


def line(
    run: Run,
    name: str | None = None,
    *,
    theirs: Mapping[str, float] | None = None,
    exact: Run | None = None,
    more: Mapping[str, Any] | None = None,
) -> Line:
    """A run as a line: three metrics of each attack, the oracle, success.

    Args:
      run: the run.
      name: of the line; None: the run's.
      theirs: the paper's numbers; None: its MSE as the sweep has it.
      exact: an inversion of the same models.
      more: further columns.
    """
    ours: dict[str, Any] = {}
    for attack, found in run.results["attacks"].items():
        for metric, title in METRICS.items():
            if found.get(metric) is not None:
                ours[f"{CALLED[attack]} {title}"] = found[metric]
    ours["NN oracle"] = run.oracle
    if exact is not None:
        found = exact.results["attacks"]["inversion"]
        ours["inversion, median MSE"] = found["mse_median"]
        ours["certified exact"] = f"{found['certified']} of {found['targets']}"
    if theirs is None:
        theirs = {} if run.paper is None else {"MSE": run.paper}
    return Line(name=name or run.name, theirs=theirs, ours=ours | dict(more or {}))


def number(value: float) -> str:
    """Four decimals, as the paper prints errors."""
    return f"{value:.4f}"


def both(run: Run) -> str:
    """The errors of network and kernel in a few words."""
    return f"network {number(run.of('reconn'))}, kernel {number(run.of('kernel'))}"


def with_models(
    lab: Lab, config: str, counts: Sequence[int], *fields: str
) -> list[Run]:
    """A configuration attacked with so many of its shadow models, a run a count."""
    return [
        lab.run(
            f"k={count}",
            config,
            *fields,
            f"attacks.reconn.models={count}",
            f"attacks.kernel.models={count}",
        )
        for count in counts
    ]


def unused(lab: Lab, run: Run) -> tuple[Examples, np.ndarray]:
    """MNIST, and the indices of its images that no part of a run has."""
    pool = sources.load("mnist", data_dir=lab.data_dir)
    used = [run.shadows.array(f"{part}_indices") for part in ("fixed", "shadow")]
    used.append(run.released.array("test_indices"))
    return pool, np.setdiff1d(np.arange(len(pool)), np.concatenate(used))


def falls(errors: Sequence[float]) -> bool:
    """Whether each is smaller than the one before."""
    return all(b < a for a, b in itertools.pairwise(errors))


def below_from(
    counts: Sequence[int], errors: Sequence[float], level: float
) -> int | None:
    """The count from which on all errors are below a level; None: there is none."""
    found = None
    for count, error in zip(counts, errors, strict=True):
        found = (found or count) if error < level else None
    return found


def since(count: int | None) -> str:
    """From how many shadow models on."""
    return "nowhere" if count is None else f"from {count:,} shadow models on"


def curves(
    x: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str = "MSE per pixel",
    oracle: float | None = None,
    theirs: tuple[Sequence[float], Sequence[float]] | None = None,
    logx: bool = True,
    logy: bool = True,
) -> bytes:
    """Lines over a common axis, the paper's points as crosses."""
    figure = matplotlib.figure.Figure(figsize=(6.0, 3.8), dpi=120)
    axis = figure.subplots()
    for name, values in lines.items():
        axis.plot(x, values, "o-", label=name)
    if theirs is not None:
        axis.plot(*theirs, "kx", label="paper")
    if oracle is not None:
        axis.axhline(oracle, color="0.5", ls="--", label=f"NN oracle {oracle:.4f}")
    if logx:
        axis.set_xscale("log")
    if logy:
        axis.set_yscale("log")
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    axis.legend(fontsize=8, framealpha=0.9, edgecolor="none")
    figure.tight_layout()
    return report.png(figure)


def grid(rows: Mapping[str, np.ndarray], errors: Mapping[str, np.ndarray]) -> bytes:
    """Images in rows, with the error of each below it where there is one."""
    count = max(len(images) for images in rows.values())
    figure = matplotlib.figure.Figure(
        figsize=(0.9 * count + 1.3, 1.12 * len(rows) + 0.2), dpi=110
    )
    axes = figure.subplots(len(rows), count, squeeze=False)
    for cells, (name, images) in zip(axes, rows.items(), strict=True):
        for i, axis in enumerate(cells):
            axis.set_xticks([])
            axis.set_yticks([])
            if i >= len(images):
                axis.axis("off")
                continue
            report.show(axis, np.clip(images[i], 0, 1))
            if name in errors:
                axis.set_xlabel(f"{errors[name][i]:.4f}", fontsize=7, labelpad=2)
        cells[0].set_ylabel(name, fontsize=8)
    figure.tight_layout(pad=0.4)
    return report.png(figure)


def attacked(
    lab: Lab, run: Run, models: ShadowModels, released: np.ndarray, folder: Path
) -> dict[str, np.ndarray]:
    """Network and kernel of a run, trained on other models.

    Args:
      run: whose targets, settings and keys are taken.
      models: shadow models in memory.
      released: (targets, params), weights of the released models.
      folder: where the two are kept.
    Returns: by attack, MSE at each target.
    """
    truth, found = run.truth.images, {}
    for attack in ("reconn", "kernel"):
        trained = reconn.train(
            models,
            run.experiment.attacks[attack].settings.method(),
            key=run.experiment.attack_key(attack),
            workdir=folder / attack,
            progress=lab.progress,
        )
        guess = trained(publish(released), Knowledge())
        found[attack] = metrics.mse(truth, guess.images)
    return found
