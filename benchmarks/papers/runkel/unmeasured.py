"""Rows of Runkel et al. 2024 that have no run here yet.

The affine row is on docs/landscape.md, measured before there was a register.
"""

from benchmarks.papers.row import needing

_row = needing("runkel")

_HERE = "[the page on it](landscape.md) has an earlier measurement"


ROWS = (
    _row(
        "table-1-affine",
        "Table 1, affine",
        "Several starts fit the weights equally well.",
        f"`python -m benchmarks.landscape` again at this commit; {_HERE}",
    ),
    _row(
        "table-1-hidden",
        "Table 1, one hidden layer",
        "The same with 6,144 ReLU units.",
        f"ReLU, and a lower level that fits; softplus fits nowhere: {_HERE}",
    ),
    _row("figures-1-4", "Figures 1 to 4", "Corners of the landscape.", _HERE),
    _row("figure-10", "Figure 10", "Maps of uncertainty.", _HERE),
    _row("figure-11", "Figure 11", "Curves of the upper level.", _HERE),
    _row("figure-12", "Figure 12", "Curves of the lower level.", _HERE),
)
