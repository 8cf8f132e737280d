"""MNIST at its default settings: Figures 3 to 5, 8, 11 and 21."""

import itertools

import numpy as np

from benchmarks.papers.balle.common import (
    ORACLES,
    both,
    curves,
    grid,
    line,
    number,
    picture,
)
from benchmarks.papers.balle.factors import DEFAULT, SIZE, default
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Found, Line, Row


def figure_5c(lab: Lab) -> Found:
    """Error against the number of shadow models; Figure 5d: KL."""
    runs = lab.sweep("attack_size")
    counts = [run.experiment.attacks["kernel"].settings.models for run in runs]
    network = [run.of("reconn") for run in runs]
    kernel = [run.of("kernel") for run in runs]
    drawn = curves(
        counts,
        {"network": network, "kernel": kernel},
        xlabel="shadow models",
        oracle=runs[0].oracle,
        theirs=([8000, 59_000], [ORACLES["mnist"], 0.0089]),
    )
    falls = all(b < a for a, b in itertools.pairwise(network))
    below = next(
        (k for k, e in zip(counts, network, strict=True) if e < runs[0].oracle), None
    )
    with_kernel = next(
        (k for k, e in zip(counts, kernel, strict=True) if e < runs[0].oracle), None
    )
    return Found(
        holds=falls and below is not None and below <= 8000,
        verdict=f"The error falls with every doubling; the network is below the oracle"
        f" from {below} shadow models on (the paper: 8,000), the kernel from"
        f" {with_kernel} on.",
        theirs="below the oracle with 8,000",
        ours=f"below the oracle with {below} (network), {with_kernel} (kernel)",
        lines=[line(run) for run in runs],
        pictures=[
            picture(
                drawn,
                "Error against shadow models (the paper's points: the"
                " oracle at 8,000, Table II at 59,000).",
            )
        ],
    )


def figure_5d(lab: Lab) -> Found:
    """KL against the number of shadow models."""
    runs = lab.sweep("attack_size")
    counts = [run.experiment.attacks["kernel"].settings.models for run in runs]
    network = [run.of("reconn", "kl") for run in runs]
    kernel = [run.of("kernel", "kl") for run in runs]
    drawn = curves(
        counts,
        {"network": network, "kernel": kernel},
        xlabel="shadow models",
        ylabel="KL, nats",
    )
    falls = all(b < a for a, b in itertools.pairwise(network))
    accuracy = runs[0].results["classifier_accuracy"]
    return Found(
        holds=falls,
        verdict="KL falls monotonically with the number of shadow models"
        if falls
        else "KL doesn't fall at every step.",
        theirs="a monotonic decrease",
        ours=f"network {network[0]:.2f} to {network[-1]:.3f} nats",
        lines=[
            Line(name=f"k={k}", ours={"network KL": a, "kernel KL": b})
            for k, a, b in zip(counts, network, kernel, strict=True)
        ],
        pictures=[
            picture(
                drawn,
                "KL of a classifier's answers, accuracy"
                f" {accuracy:.1%} on held-out images.",
            )
        ],
    )


def figure_4(lab: Lab) -> Found:
    """Reconstructions at the oracle's error and at the first percentile's."""
    good = default(lab)
    weak = [
        lab.run(
            f"{k} shadow models",
            "mnist.py:cpu",
            *DEFAULT,
            f"attacks.reconn.models={k}",
            f"attacks.kernel.models={k}",
            "attacks.reconn.epochs=200",
            "attacks.reconn.shrink=false",
            "attacks.kernel.shrink=false",
            metrics=False,
        )
        for k in (100, 500, 1000, 2000)
    ]
    truth = good.truth.images
    percentile = good.results["distance_percentiles"]["1"]
    candidates = np.concatenate(
        [run.guesses(a)[None] for run in weak for a in ("reconn", "kernel")]
    )
    errors = np.mean((candidates - truth[None]) ** 2, axis=(2, 3, 4))
    shown = np.arange(6)

    def nearest(level: float) -> tuple[np.ndarray, np.ndarray]:
        which = np.abs(errors[:, shown] - level).argmin(axis=0)
        return candidates[which, shown], errors[which, shown]

    at_oracle, at_oracle_error = nearest(good.oracle)
    at_first, at_first_error = nearest(percentile)
    rows = {
        "target": truth[shown],
        "kernel": good.guesses("kernel")[shown],
        "network": good.guesses("reconn")[shown],
        "at the oracle's": at_oracle,
        "at 1st percentile": at_first,
    }
    below = {
        "kernel": good.errors("kernel")[shown],
        "network": good.errors("reconn")[shown],
        "at the oracle's": at_oracle_error,
        "at 1st percentile": at_first_error,
    }
    share = float((good.errors("kernel") < good.oracle).mean())
    return Found(
        holds=good.of("kernel") < good.oracle,
        verdict=f"{share:.1%} of the kernel's reconstructions are below the oracle's"
        f" mean error of {number(good.oracle)}; the first percentile is"
        f" {number(percentile)}.",
        theirs="good overall quality; pictures",
        ours=f"{both(good)}; pictures",
        lines=[line(good)],
        pictures=[
            picture(
                grid(rows, below),
                "The first six targets (not chosen), MSE"
                " below each; rows four and five are of weaker attackers, with 100 to"
                " 2,000 shadow models, of the error nearest to the oracle's and to"
                " the first percentile.",
            )
        ],
    )


ROWS = (
    Row(
        paper="balle",
        name="figure-4",
        title="Figure 4",
        claim="Reconstructions are of good quality; at the oracle's error and at the"
        " first percentile's they are visibly worse.",
        size=SIZE,
        decides="the kernel's mean error is below the oracle's",
        measure=figure_4,
    ),
    Row(
        paper="balle",
        name="figure-5c",
        title="Figure 5c",
        claim="More shadow models make the attack better; 8,000 suffice to be below the"
        " oracle.",
        size="fixed set 1,000, 500 to 20,000 shadow models, 1,000 targets",
        decides="the network's error falls at every step, and is below the oracle with"
        " 8,000 or fewer",
        measure=figure_5c,
    ),
    Row(
        paper="balle",
        name="figure-5d",
        title="Figure 5d",
        claim="KL falls monotonically with the number of shadow models.",
        size="fixed set 1,000, 500 to 20,000 shadow models, 1,000 targets",
        decides="the network's mean KL falls at every step",
        measure=figure_5d,
    ),
)
