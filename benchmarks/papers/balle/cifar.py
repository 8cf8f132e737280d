"""CIFAR-10 at the size of `cifar10.py:cpu`: the default run, Figures 14 and 19."""

import numpy as np
from scipy import stats

from benchmarks.papers.balle.common import (
    CALLED,
    both,
    grid,
    line,
    number,
    picture,
)
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Line, Row
from informed.runs import evaluation

SIZE = "fixed set 200, 20 epochs, 2,000 shadow models, 200 targets"
_SHOWN = 6


def default(lab: Lab) -> Run:
    """Table VI's victim and Table V's training, at a size for two cores."""
    return lab.run("default", "cifar10.py:cpu")


def table_5(lab: Lab) -> Found:
    """The default attack."""
    run = default(lab)
    return Found(
        holds=run.of("kernel") < run.oracle and run.of("reconn") < run.oracle,
        verdict=f"Oracle {number(run.oracle)}; {both(run)}, at a twenty-seventh of the"
        " paper's shadow models.",
        theirs="0.0049, oracle 0.0291",
        ours=f"{both(run)}, oracle {number(run.oracle)}",
        lines=[line(run, theirs={"MSE": 0.0049, "NN oracle": 0.0291})],
    )


def figure_14(lab: Lab) -> Found:
    """The six easiest and the six hardest targets."""
    run = default(lab)
    truth, errors = run.truth.images, run.errors("kernel")
    order = np.argsort(errors)
    # How much of a picture is a constant: the variance of its pixels.
    varied = truth.reshape(len(truth), -1).var(axis=1)
    rho = float(stats.spearmanr(varied, errors).statistic)
    pictures = []
    for what, chosen in (("easiest", order[:_SHOWN]), ("hardest", order[-_SHOWN:])):
        rows = {"target": truth[chosen], "kernel": run.guesses("kernel")[chosen]}
        drawn = grid(rows, {"kernel": errors[chosen]})
        pictures.append(picture(drawn, f"The six {what} of {len(truth)} targets."))
    return Found(
        holds=rho > 0.3,
        verdict="Error and variance of a target's pixels have a rank correlation of"
        f" {rho:.2f}; from {errors.min():.4f} to {errors.max():.4f}.",
        theirs="simple pictures on a constant background are the easiest",
        ours=f"Spearman of variance and error {rho:.2f}",
        lines=[Line(name="kernel", ours={"Spearman of variance and error": rho})],
        pictures=pictures,
    )


def figure_19(lab: Lab) -> Found:
    """MSE, LPIPS and KL over targets."""
    run = default(lab)
    truth, lines, of_lpips = run.truth.images, [], []
    for attack in ("kernel", "reconn"):
        errors = run.errors(attack)
        others = evaluation.other_metrics(
            run.experiment, run.paths, run.released, truth, run.guesses(attack)
        )
        rho = {
            f"MSE, {name.upper()}": float(stats.spearmanr(errors, each).statistic)
            for name, each in others.items()
        }
        of_lpips.append(rho["MSE, LPIPS"])
        lines.append(Line(name=CALLED[attack], ours=rho))
    accuracy = run.results["classifier_accuracy"]
    return Found(
        holds=min(of_lpips) > 0.3,
        verdict=f"Spearman of MSE and LPIPS {of_lpips[1]:.2f} (network) and"
        f" {of_lpips[0]:.2f} (kernel); the classifier behind KL is right on"
        f" {accuracy:.1%} of held-out images.",
        theirs="correlated, MSE and LPIPS more weakly than on MNIST",
        ours=f"Spearman {of_lpips[1]:.2f} (network), {of_lpips[0]:.2f} (kernel)",
        lines=lines,
    )


ROWS = (
    Row(
        paper="balle",
        name="table-5-cifar",
        title="Table V, CIFAR-10",
        claim="The default attack has an error of 0.0049, below the oracle.",
        size=SIZE,
        decides="both attacks are below the oracle",
        measure=table_5,
        needs="22 minutes of two cores for the models, 40 for the network and the"
        " classifier; the paper's 54,000 models of fixed set 5,000 are 78 days",
    ),
    Row(
        paper="balle",
        name="figure-14",
        title="Figure 14",
        claim="Simple pictures on a constant background are the easiest.",
        size=SIZE,
        decides="the rank correlation of error and variance of the target's pixels is"
        " above 0.3",
        measure=figure_14,
        needs="the run of Table V, CIFAR-10",
    ),
    Row(
        paper="balle",
        name="figure-19",
        title="Figure 19",
        claim="On CIFAR-10 the three metrics are correlated.",
        size=SIZE,
        decides="Spearman's correlation of MSE and LPIPS is above 0.3 for both attacks",
        measure=figure_19,
        needs="the run of Table V, CIFAR-10",
    ),
)
