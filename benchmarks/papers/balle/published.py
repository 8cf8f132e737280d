"""MNIST at the paper's size: Table V's recipe and ours, Figures 5 and 21."""

from benchmarks.papers.balle import default
from benchmarks.papers.balle.common import ORACLES, grid, line, number, with_models
from benchmarks.papers.lab import Lab, Run
from benchmarks.papers.row import Found, Picture, measures

_PAPER = 0.0089
_SHOWN = 8
# Sizes of `mnist.py`; both attack the same models.
_SIZES = {"published": "Table V's recipe", "paper": "ours"}
_COUNTS = (2000, 4000, 8000, 16_000, 32_000, 59_000)
# What two cores make of 59,000 in an hour.
_FEWER = 20_000


def ours(lab: Lab, *fields: str) -> Run:
    """Table V's victims, attacked by our recipe."""
    return lab.run(_SIZES["paper"], "mnist.py:paper", *fields)


@measures("balle/table-5-mnist-third")
def table_5_fewer(lab: Lab) -> Found:
    """The same with a third of the shadow models."""
    return table_5(lab, f"shadow.count={_FEWER}")


@measures("balle/table-5-mnist")
def table_5(lab: Lab, *fields: str) -> Found:
    """The recipe as published, and beside it what the toolkit does by default.

    Args:
      fields: "field=value" of both runs that deviate.
    """
    published = lab.run(_SIZES["published"], "mnist.py:published", *fields)
    own = ours(lab, *fields)
    attacks = {
        "as published": (published, "reconn"),
        "our recipe": (own, "reconn"),
        "kernel": (own, "kernel"),
    }
    of = {name: run.of(attack) for name, (run, attack) in attacks.items()}
    rows, errors = {"target": own.truth.images[:_SHOWN]}, {}
    for name, (run, attack) in attacks.items():
        rows[name] = run.guesses(attack)[:_SHOWN]
        errors[name] = run.errors(attack)[:_SHOWN]
    theirs = {"MSE": _PAPER, "NN oracle": ORACLES["mnist"]}
    return Found(
        holds=of["as published"] < 1.25 * _PAPER,
        verdict=f"Table V's recipe has {number(of['as published'])} where the paper has"
        f" {number(_PAPER)}; on the same models our recipe has"
        f" {number(of['our recipe'])} and the kernel {number(of['kernel'])}. Oracle"
        f" {number(own.oracle)}.",
        theirs=f"{number(_PAPER)}, oracle 0.0232",
        ours=f"{number(of['as published'])} as published,"
        f" {number(of['our recipe'])} by our recipe, kernel {number(of['kernel'])}",
        lines=[line(published, theirs=theirs), line(own, theirs=theirs)],
        pictures=[Picture(grid(rows, errors), "The first targets, MSE below each.")],
    )


@measures("balle/notebook")
def notebook(lab: Lab) -> Found:
    """The settings of the authors' notebook, and ours."""
    runs = lab.sweep("notebook", "evaluation.lpips=false", kl=False)
    both = [run.of("reconn", "mae") + run.of("reconn") for run in runs]
    verdict = f"MAE + MSE {both[0]:.4f} with its settings, {both[1]:.4f} with ours."
    lines, theirs = [line(run) for run in runs], "0.0583 (MAE + MSE)"
    few = f"{both[0]:.4f}; ours {both[1]:.4f}"
    holds = both[0] < 1.1 * 0.0583
    return Found(holds=holds, verdict=verdict, theirs=theirs, ours=few, lines=lines)


@measures("balle/figure-5a-full")
def figure_5a(lab: Lab) -> Found:
    """MSE against LPIPS."""
    return default.mse_and_lpips(ours(lab))


@measures("balle/figure-5b-full")
def figure_5b(lab: Lab) -> Found:
    """MSE against KL."""
    return default.mse_and_kl(ours(lab))


@measures("balle/figure-5c-full")
def figure_5c(lab: Lab) -> Found:
    """Error against the number of shadow models."""
    return default.by_count(with_models(lab, "mnist.py:paper", _COUNTS))


@measures("balle/figure-21-full")
def figure_21(lab: Lab) -> Found:
    """Gradient norms of targets, summed over all epochs, against their errors."""
    return default.gradient_norms(lab, ours(lab))
