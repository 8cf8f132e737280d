"""Rows of Balle et al. that were not measured yet: what each needs."""

from benchmarks.papers.row import needing

_row = needing("balle")

ROWS = (
    _row(
        "table-5-mnist",
        "Table V, MNIST",
        "RMSProp 1e-3, 100 epochs, fixed set 10,000, 59,000 shadow models: 0.0089.",
        "five and a half hours of two cores for the models (`informed shadow"
        " --config=mnist:paper`), 25 minutes for the RecoNN",
    ),
)
