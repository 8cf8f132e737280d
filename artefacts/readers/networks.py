"""Multilayer perceptrons: whether the artefact holds what running training again takes.

A network's weights determine the missing row through its whole training, which can be
run again if its seed is stored: `random_state` as a whole number. The reader says
whether the artefact allows it, and what is missing. The search itself, hundreds of
fits of a clone of the estimator, is the `retrain` column of the registry, which
`informed.attacks.artefact_networks` fills: it takes the inversion of trainings.
"""

import numbers

from artefacts import registry
from artefacts.findings import Finding, Leaf, ReconstructionImpossibleError
from artefacts.registry import register

FIELDS = "coefs_, intercepts_, random_state"


def read(leaf: Leaf) -> list[Finding]:
    """What inversion by runs needs, and whether it is in the artefact.

    Raises: ReconstructionImpossibleError: `retrain` is asked for and nothing is
      registered that does it.
    """
    missing = _missing(leaf)
    if leaf.retrain and not missing:
        name = type(leaf.estimator).__name__
        search = registry.kind_of(name).retrain
        if search is None:
            raise ReconstructionImpossibleError(
                f"{leaf.path or name}: its weights tell the row only by training again;"
                " use informed.reconstruct_sklearn, which does."
            )
        return search(leaf)
    what = "; ".join(missing)
    note = (
        "coefs_ determine the row if training is run again, some hundred times:"
        " informed.reconstruct_sklearn with retrain=True"
        + (f". Missing: {what}" if missing else ". Everything it needs is stored")
    )
    return [
        Finding(
            field=FIELDS,
            tells="the row, to who runs training again"
            + (" and knows what is missing" if missing else ": the seed is stored"),
            notes=(note,),
        )
    ]


def _missing(leaf: Leaf) -> list[str]:
    """What isn't in the artefact and has to be told, each with what to do about it."""
    model = leaf.estimator
    batch = min(200, leaf.count) if model.batch_size == "auto" else model.batch_size
    whole = batch >= leaf.count or model.solver == "lbfgs"
    missing = []
    if not isinstance(model.random_state, numbers.Integral):
        missing.append(
            "its seed (random_state is no whole number): try seeds, or let the weights"
            " that training never touched tell it"
        )
    if not whole and leaf.position is None:
        missing.append("the missing row's place in the batches (position)")
    if model.early_stopping:
        missing.append("early stopping draws its validation rows: tell position")
    if not hasattr(model, "classes_") and leaf.label is None:
        missing.append("the missing row's output (target_label)")
    return missing


register(("MLPClassifier", "MLPRegressor"), read)
