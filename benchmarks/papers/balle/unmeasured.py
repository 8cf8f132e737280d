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
    _row(
        "tables-7-8",
        "Tables VII and VIII",
        "LPIPS and a discriminator improve the look of reconstructions.",
        "the network on CIFAR-10 with each loss, 35 minutes each",
    ),
    _row(
        "figure-15",
        "Figure 15",
        "On CIFAR-10 too a large epsilon defeats the attack (clipping norm 10).",
        "private models of the CNN at five epsilons, 15 minutes each at fixed set 100",
    ),
    _row(
        "table-9",
        "Table IX",
        "Epochs and fixed set decide on CIFAR-10, whatever the optimiser.",
        "24 stores of CIFAR-10, four to eight hours at 300 models each",
    ),
)
