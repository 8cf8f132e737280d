"""Tables VII and VIII: the losses beside the pixels', on CIFAR-10."""

from benchmarks.papers.balle.cifar import default
from benchmarks.papers.balle.common import grid, line, number
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Found, Picture, measures

_LPIPS = "attacks.reconn.loss.lpips=1.0"
# The discriminator's term is about 1 and the pixels' 0.2, so this makes it a quarter of
# theirs. The paper doesn't say; not tuned.
_DISCRIMINATOR = "attacks.reconn.loss.adversarial=0.05"
_SHOWN = 8


@measures("balle/tables-7-8")
def tables_7_8(lab: Lab) -> Found:
    """The network with pixels alone, with LPIPS, and with a discriminator as well."""
    runs = [
        default(lab),
        lab.run("LPIPS", "cifar10.py:cpu", _LPIPS),
        lab.run("LPIPS, discriminator", "cifar10.py:cpu", _LPIPS, _DISCRIMINATOR),
    ]
    minutes = [run.results["stage_wall_s"]["attack-reconn"] / 60 for run in runs]
    of_lpips = [run.of("reconn", "lpips") for run in runs]
    truth = runs[0].truth.images[:_SHOWN]
    rows = {"target": truth}
    rows |= {run.name: run.guesses("reconn")[:_SHOWN] for run in runs}
    errors = {run.name: run.errors("reconn")[:_SHOWN] for run in runs}
    return Found(
        holds=of_lpips[2] < of_lpips[0],
        verdict=f"LPIPS falls from {number(of_lpips[0])} to {number(of_lpips[1])}, and"
        f" {number(of_lpips[2])} with the discriminator; MSE from"
        f" {number(runs[0].of('reconn'))} to {number(runs[1].of('reconn'))} and"
        f" {number(runs[2].of('reconn'))}. Training takes {minutes[1] / minutes[0]:.1f}"
        f" and {minutes[2] / minutes[0]:.1f} times as long.",
        theirs="both were added to the loss; no number without them",
        ours=f"LPIPS {', '.join(map(number, of_lpips))}",
        lines=[
            line(run, more={"minutes of the network": of})
            for run, of in zip(runs, minutes, strict=True)
        ],
        pictures=[Picture(grid(rows, errors), "The first targets, MSE below each.")],
    )
