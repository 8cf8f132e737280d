"""Private training: Figures 9 and 10."""

import numpy as np

from benchmarks.papers.balle.common import curves, grid, line, number
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Picture, measures

_SHOWN = 8


def sweep(lab: Lab) -> list[Run]:
    """No noise, and epsilon from 1 to 10,000 at delta 1e-5."""
    return lab.sweep("privacy")


@measures("balle/figure-9")
def figure_9(lab: Lab) -> Found:
    """Error and accuracy against epsilon."""
    runs = sweep(lab)
    noisy = [run for run in runs if run.results["epsilon"]]
    epsilons = [run.results["epsilon"] for run in noisy]
    plain, strong = runs[0], noisy[1]
    drawn = curves(
        epsilons,
        {
            name: [run.of(attack) for run in noisy]
            for name, attack in (
                ("network", "reconn"),
                ("kernel", "kernel"),
                ("inversion", "inversion"),
            )
        },
        xlabel="epsilon, delta 1e-5",
        oracle=plain.oracle,
    )
    lines = [
        line(run, more={"test accuracy": run.results["released_accuracy"]})
        for run in runs
    ]
    defeated = [
        run for run in noisy if min(run.of("reconn"), run.of("kernel")) > run.oracle
    ]
    largest = max((run.results["epsilon"] for run in defeated), default=None)
    kept = strong.results["released_accuracy"] / plain.results["released_accuracy"]
    return Found(
        holds=largest is not None and largest >= 10,
        verdict=f"Both learned attacks stay above the oracle up to epsilon"
        f" {largest:g}; at epsilon 10 the test accuracy is {kept:.0%} of that without"
        " noise."
        if largest
        else "A learned attack is below the oracle at every epsilon.",
        theirs="large epsilons mitigate the attack at a negligible loss of accuracy",
        ours=f"both learned attacks above the oracle up to epsilon {largest:g}; there"
        f" the kernel has {number(defeated[-1].of('kernel'))}, at epsilon 1"
        f" {number(noisy[0].of('kernel'))}"
        if largest
        else "a learned attack below the oracle at every epsilon",
        lines=lines,
        pictures=[Picture(drawn, "Error against epsilon; inversion on few targets.")],
    )


@measures("balle/figure-10")
def figure_10(lab: Lab) -> Found:
    """Reconstructions as the network gives them, not drawn towards the mean image."""
    runs = lab.sweep(
        "privacy",
        "attacks.reconn.shrink=false",
        "attacks.inversion.targets=0",
        only=lambda name: name in ("no noise", "epsilon 1", "epsilon 100"),
    )
    truth = runs[0].truth.images
    rows, errors, lines, shares = {"target": truth[:_SHOWN]}, {}, [], {}
    for run in runs:
        found = run.guesses("reconn")
        rows[run.name], errors[run.name] = found[:_SHOWN], run.errors("reconn")[:_SHOWN]
        # Realistic: the classifier is as sure of its label as it is of real images.
        # Wrong: the label isn't the target's.
        sure, right = _seen(run, found)
        shares[run.name] = sure, right
        lines.append(
            line(
                run,
                more={
                    "taken for a digit with 90 %": sure,
                    "of these, the target's label": right,
                },
            )
        )
    sure, right = shares["epsilon 1"]
    return Found(
        holds=sure > 0.5 and right < 0.5,
        verdict=f"At epsilon 1 a classifier is sure (90 %) of {sure:.0%} of the"
        f" reconstructions, and names the target's label for {right:.0%} of these.",
        theirs="realistic but wildly incorrect at high levels of privacy",
        ours=f"{sure:.0%} look like a digit, {right:.0%} of them the right one",
        lines=lines,
        pictures=[Picture(grid(rows, errors), "The first targets, MSE below each.")],
    )


def _seen(run: Run, images: np.ndarray) -> tuple[float, float]:
    """Share that the classifier is sure of; of these, share with the target's label."""
    assert run.judge is not None
    of_images = np.exp(run.judge.log_probabilities(images))
    sure = of_images.max(axis=1) > 0.9
    right = of_images.argmax(axis=1) == run.truth.labels
    return float(sure.mean()), float(right[sure].mean()) if sure.any() else 0.0
