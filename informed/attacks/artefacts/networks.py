"""Multilayer perceptrons: training is inverted by running it again.

A network's weights determine the missing row through its whole training, which can be
run again if its seed is stored: `random_state` as a whole number. The inversion itself
is `informed.TrainingInversion` on `shadow.PythonFunction` (docs/inversion.md, and
examples/own_training_sklearn.py), which takes hundreds of trainings; the reader says
whether the artefact allows it, and what is missing.
"""

from typing import Any

from informed.attacks.artefacts.findings import Finding, Leaf, Removed


def read(leaf: Leaf) -> list[Finding]:
    """What inversion by runs needs, and whether it is in the artefact."""
    model = leaf.estimator
    seeded = isinstance(model.random_state, int)
    batch = min(200, leaf.count) if model.batch_size == "auto" else model.batch_size
    whole = batch >= leaf.count or model.solver == "lbfgs"
    missing = []
    if not seeded:
        missing.append(
            "its seed (random_state is no whole number): try seeds, or let the weights"
            " that training never touched tell it"
        )
    if not whole and leaf.position is None:
        missing.append("the missing row's place in the batches (position)")
    if model.early_stopping:
        missing.append("early stopping draws its validation rows: tell position")
    what = "; ".join(missing)
    note = (
        "coefs_ determine the row if training is run again, some hundred times:"
        " informed.TrainingInversion, see examples/own_training_sklearn.py"
        + (f". Missing: {what}" if missing else ". Everything it needs is stored")
    )
    return [
        Finding(
            field="coefs_, intercepts_, random_state",
            tells="the row, to who runs training again"
            + (" and knows what is missing" if missing else ": the seed is stored"),
            notes=(note,),
        )
    ]


def strip(estimator: Any) -> list[Removed]:
    """The seed, the optimiser's state and the learning curve."""
    removed = []
    fields = (
        "_optimizer",
        "_random_state",
        "loss_curve_",
        "best_loss_",
        "loss_",
        "t_",
        "_no_improvement_count",
        "validation_scores_",
        "best_validation_score_",
    )
    for field in fields:
        if getattr(estimator, field, None) is not None:
            delattr(estimator, field)
            removed.append(
                Removed(
                    field=field,
                    action="removed",
                    helps=None,
                    why="not used by predictions; the optimiser's state and the"
                    " learning curve tell of training",
                )
            )
    if estimator.random_state is not None:
        estimator.random_state = None
        removed.append(
            Removed(
                field="random_state",
                action="removed",
                helps=None,
                why="without the seed training cannot simply be run again; 32 bits can"
                " be tried",
            )
        )
    return removed


READERS = dict.fromkeys(("MLPClassifier", "MLPRegressor"), read)
STRIPPERS = dict.fromkeys(READERS, strip)
