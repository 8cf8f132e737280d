"""Rows of Haim et al. 2022 that have no run here yet."""

from benchmarks.papers.row import needing

_row = needing("haim")

ROWS = (
    _row(
        "figures-6-7",
        "Figures 6 and 7",
        "n = 100 and 1,000.",
        "n = 1,000: a GPU, or ten hours of two cores for 2,000 candidates",
    ),
    _row(
        "search",
        "Appendix B.2",
        "100 runs with random hyper-parameters.",
        "a hundred runs of Figure 3:"
        " `informed kkt --config=configs/kkt.py:cifar10_published`, 50 hours of a V100"
        " by the paper's account",
    ),
)
