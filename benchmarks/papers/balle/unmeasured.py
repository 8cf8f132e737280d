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
        "nearest-of-z",
        "Section IV-A",
        "Whoever could enumerate Z would take the candidate whose model is nearest.",
        "models of all candidates; membership of two candidates is Algorithm 2's row",
    ),
    _row(
        "permutation-invariant",
        "Section IV-B",
        "An invariant representation of hidden units brings no improvement.",
        "features with hidden units in a canonical order",
    ),
    _row(
        "table-5-mnist",
        "Table V, MNIST",
        "RMSProp 1e-3, 100 epochs, fixed set 10,000, 59,000 shadow models: 0.0089.",
        "five and a half hours of two cores for the models (`informed shadow"
        " --config=mnist:paper`), 25 minutes for the RecoNN",
    ),
    _row(
        "table-2-cifar",
        "Table II, CIFAR-10",
        "As on MNIST; ReLU fails as well.",
        f"seven stores of models, {_CIFAR}",
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
        "figure-6",
        "Figure 6",
        "Shadow targets of CIFAR-100 do as well as those of CIFAR-10.",
        f"one store of models with targets of CIFAR-100, {_CIFAR}",
    ),
    _row(
        "figure-9",
        "Figure 9",
        "Large epsilons already defeat the attack.",
        "private models at six epsilons; numbers of an earlier version are in"
        " [privacy](privacy.md#private-victims)",
    ),
    _row(
        "figure-10",
        "Figure 10",
        "Under privacy reconstructions are realistic and wrong.",
        "the runs of Figure 9 with `attacks.reconn.shrink=false`",
    ),
    _row(
        "figure-13",
        "Figure 13",
        "Where A starts near convergence, reconstruction is harder.",
        "an initialisation that is trained on 10,000 other points",
    ),
    _row(
        "figure-15",
        "Figure 15",
        "On CIFAR-10 too a large epsilon defeats the attack (clipping norm 10).",
        "private models of the CNN at five epsilons, 15 minutes each at fixed set 100",
    ),
    _row(
        "figure-20",
        "Figure 20",
        "The error grows with the epochs of the CNN, steeply at 240 to 250.",
        f"four stores of up to 80 epochs, {_CIFAR} and 20 epochs",
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
    _row(
        "five-million",
        "Section VI-B e), 5 million models",
        "Many initialisations for each shadow target don't help where the"
        " initialisation is unknown.",
        "a store of targets x initialisations",
    ),
)
