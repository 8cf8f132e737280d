"""Rows of Balle et al. that were not measured yet: what each needs."""

from benchmarks.papers.row import needing

_row = needing("balle")

_CIFAR = "22 min of two cores for each 2,200 models of the CNN at fixed set 200"


ROWS = (
    _row(
        "attribute-inference",
        "Section II-C",
        "An adversary who knows a part of the target infers the rest.",
        "an attack that is told pixels or columns; the bound exists"
        " (`dp.priors.gaussian_given`)",
    ),
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
        "figure-5-cifar",
        "Section VI-B a), CIFAR-10",
        "5,000 shadow models are below the first percentile, 10,000 below the oracle.",
        f"a store that grows, {_CIFAR}",
    ),
    _row(
        "figure-15",
        "Figure 15",
        "On CIFAR-10 too a large epsilon defeats the attack (clipping norm 10).",
        "private models of the CNN at five epsilons, 15 minutes each at fixed set 100",
    ),
    _row(
        "figure-22",
        "Figure 22",
        "With ReLU most gradients of the convolutions are zero.",
        "a store of the CNN with ReLU; `informed diagnose` draws it",
    ),
    _row(
        "table-9",
        "Table IX",
        "Epochs and fixed set decide on CIFAR-10, whatever the optimiser.",
        "24 stores of CIFAR-10, four to eight hours at 300 models each",
    ),
)
