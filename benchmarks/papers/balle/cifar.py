"""CIFAR-10 at the size of `cifar10.py:cpu`: the default run, Figures 14 and 19."""

import itertools

import numpy as np
from scipy import stats

from benchmarks.papers.balle.common import (
    CALLED,
    both,
    grid,
    line,
    number,
)
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Line, Picture, Row
from informed.runs import evaluation

SIZE = "fixed set 200, 20 epochs, 2,000 shadow models, 200 targets"
_SHOWN = 6
_STORE = "22 min of two cores each"


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


def table_2(lab: Lab) -> Found:
    """Table II's factors."""
    runs = lab.sweep("table_2_cifar10")
    fails = ("ReLU", "random initialisation")
    lines, agree = [], {"kernel": 0, "reconn": 0}
    for run in runs:
        success = {"Success": "no" if run.name in fails else "yes"}
        for attack in agree:
            agree[attack] += (run.of(attack) < run.oracle) == (run.name not in fails)
        ours = {f"success, {CALLED[a]}": run.of(a, "success") for a in agree}
        theirs = {"MSE": run.paper or 0.0} | success
        lines.append(line(run, theirs=theirs, more=ours))
    return Found(
        holds=agree["kernel"] == len(runs),
        verdict=f"By kernel the success of {agree['kernel']} of {len(runs)} rows is the"
        f" paper's, by network of {agree['reconn']}.",
        theirs="0.0049 (default); ReLU and random initialisation fail",
        ours=f"{both(runs[0])}; as the paper in {agree['kernel']} of {len(runs)} rows",
        lines=lines,
    )


def figure_6(lab: Lab) -> Found:
    """Shadow targets of CIFAR-100."""
    runs = lab.sweep("out_of_distribution")
    half = len(runs) // 2
    pairs = list(zip(runs[:half], runs[half:], strict=True))
    worse = [b.of("kernel") / a.of("kernel") for a, b in pairs]
    return Found(
        holds=worse[-1] < 1.25,
        verdict="With all shadow models, targets of CIFAR-100 give the kernel"
        f" {worse[-1]:.2f} times the error that those of CIFAR-10 give.",
        theirs="a negligible difference",
        ours=f"kernel: {', '.join(f'{w:.2f}' for w in worse)} times the error",
        lines=[line(run) for run in runs],
    )


def figure_20(lab: Lab) -> Found:
    """Epochs of the victim."""
    runs = lab.sweep("epochs")
    epochs = [run.experiment.training.epochs for run in runs]
    kernel = [run.of("kernel") for run in runs]
    return Found(
        holds=all(b > a for a, b in itertools.pairwise(kernel)),
        verdict="The kernel's error at "
        + ", ".join(f"{e}: {number(v)}" for e, v in zip(epochs, kernel, strict=True))
        + " epochs. The paper's steep rise lies at 240 to 250, beyond these.",
        theirs="a slow rise up to about 240 epochs",
        ours=f"kernel {number(kernel[0])} to {number(kernel[-1])}",
        lines=[line(run) for run in runs],
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
        pictures.append(Picture(drawn, f"The six {what} of {len(truth)} targets."))
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
    Row(
        paper="balle",
        name="table-2-cifar",
        title="Table II, CIFAR-10",
        claim="As on MNIST; with ReLU the attack fails as well.",
        size=SIZE,
        decides="kernel regression is below the oracle in the rows where the paper says"
        " success, and above it where not",
        measure=table_2,
        needs=f"six stores of models, {_STORE}, and 40 minutes a row for the network",
    ),
    Row(
        paper="balle",
        name="figure-6",
        title="Figure 6",
        claim="Shadow targets of CIFAR-100 do as well as those of CIFAR-10.",
        size="fixed set 200, 20 epochs, 500 to 2,000 shadow models, 200 targets",
        decides="with all models the kernel's error is at most a quarter larger",
        measure=figure_6,
        needs=f"a store with targets of CIFAR-100, {_STORE}; two hours of networks",
    ),
    Row(
        paper="balle",
        name="figure-20",
        title="Figure 20",
        claim="The error grows with the epochs of the victim.",
        size="fixed set 200, 10 to 80 epochs, 2,000 shadow models, 200 targets",
        decides="the kernel's error grows from point to point",
        measure=figure_20,
        needs=f"four stores of up to 80 epochs, {_STORE} at 20",
    ),
)
