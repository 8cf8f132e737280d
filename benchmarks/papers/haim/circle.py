"""Figure 2: points of a circle, at the paper's width."""

from benchmarks import kkt_circle
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Found, Line, Picture, measures

_WIDTH, _RUNS, _STEPS = 1000, 2, 20_000


@measures("haim/figure-2")
def figure_2(lab: Lab) -> Found:
    """Train, attack, draw."""
    made = kkt_circle.play(seed=0, runs=_RUNS, steps=_STEPS, width=_WIDTH)
    line = made.line
    lab.note(
        f"kkt_circle --width={_WIDTH} --runs={_RUNS} --steps={_STEPS}", line["seconds"]
    )
    count, found = line["points"], line["recovered"]
    return Found(
        holds=found == count,
        verdict=f"{found} of {count} points have a candidate within"
        f" {kkt_circle.NEAR} in the run that an adversary would choose,"
        f" {line['candidates']} candidates are kept; model inversion comes near"
        f" {line['model_inversion_recovered']}.",
        theirs="all points",
        ours=f"{found} of {count}",
        lines=[
            Line(
                name=f"two hidden layers of {_WIDTH}",
                ours={
                    "found by the chosen run": found,
                    "by each run": ", ".join(map(str, line["all_runs_recovered"])),
                    "candidates kept": line["candidates"],
                    "of theta unexplained": line["residual"],
                    "model inversion": line["model_inversion_recovered"],
                },
            )
        ],
        pictures=[
            Picture(
                kkt_circle.picture(made),
                "Training points in circles; candidates and prototypes as dots.",
            )
        ],
    )
