"""Haim et al. 2022: reconstruction from weights alone.

None of its rows is measured here yet at the paper's size; docs/kkt.md has what exists.
"""

from benchmarks.papers.row import needing

_row = needing("haim")

_HERE = "[the page on it](kkt.md) has what was measured at smaller size"
_N500 = "hours of two cores: a victim to a loss of 4e-6, 50,000 steps of the attack"


ROWS = (
    _row(
        "theorem-3-1",
        "Theorem 3.1",
        "Gradient flow on a homogeneous network converges to a KKT point.",
        f"a victim trained until its stationarity is small; {_HERE}",
    ),
    _row(
        "figure-1",
        "Figure 1",
        "Training images of CIFAR-10 come out, n = 50.",
        f"1000 units; at 256 eight of 50 came out, of a control none: {_HERE}",
    ),
    _row(
        "figure-2",
        "Figure 2",
        "All points of a circle come out, 1,000 units.",
        "1,000 units; at 200 all 20 came out (`python -m benchmarks.kkt_circle`)",
    ),
    _row("figure-3-mnist", "Figure 3, MNIST", "45 images of n = 500.", _N500),
    _row("figure-3-cifar", "Figure 3, CIFAR-10", "45 images of n = 500.", _N500),
    _row("figure-4-top", "Figure 4, top", "SSIM against output.", _N500),
    _row(
        "figure-4-bottom",
        "Figure 4, bottom",
        "Deeper networks and hidden biases.",
        "victims of 100-100, 1000-500-100 and 1000-500-100-50 units, and with biases",
    ),
    _row(
        "figure-5a",
        "Figure 5a",
        "Model inversion shows class means.",
        f"40,000 images, as published; {_HERE}",
    ),
    _row(
        "figure-5b",
        "Figure 5b",
        "First-layer weights show few training images.",
        "the victim of Figure 3",
    ),
    _row("figures-6-7", "Figures 6 and 7", "n = 100 and 1,000.", _N500),
    _row("figures-8-11", "Figures 8 to 11", "Deeper networks.", "as Figure 4, bottom"),
    _row("figures-12-13", "Figures 12 and 13", "Model inversion.", "as Figure 5a"),
    _row("figures-14-15", "Figures 14 and 15", "First layers.", "as Figure 5b"),
    _row("table-1", "Table 1", "Losses and accuracies of the victims.", _N500),
    _row("table-2", "Table 2", "The same of deeper victims.", _N500),
    _row(
        "search",
        "Appendix B.2",
        "100 runs with random hyper-parameters.",
        "the search as published; its ranges are in `uninformed.kkt.config`",
    ),
    _row(
        "voting",
        "Appendix B.3",
        "Candidates of several runs are merged by votes.",
        "several runs of one victim",
    ),
    _row(
        "c-3-1",
        "Appendix C.3.1",
        "With the standard initialisation few images come out.",
        "a victim of that initialisation after plain gradient descent",
    ),
    _row("c-3-2", "Appendix C.3.2", "10,000 epochs suffice for some.", _N500),
    _row(
        "c-3-3",
        "Appendix C.3.3",
        "Mini-batches of 50 change little.",
        "a victim trained in mini-batches",
    ),
)
