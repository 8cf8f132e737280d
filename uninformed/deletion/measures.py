"""How near a guess is to a row; guesses that need no difference, or only its effect."""

import numpy as np
from jaxtyping import Float

from uninformed.deletion.data import LabelledRows
from uninformed.deletion.services import Service

# Relative error up to which a guess counts as the row itself: a hundredth of its norm.
EXACT = 0.01


def cosine(guess: np.ndarray, row: np.ndarray) -> float:
    """Cosine of the angle between two vectors; 0 if one is 0 or not finite."""
    size = float(np.linalg.norm(guess) * np.linalg.norm(row))
    return float(guess @ row / size) if np.isfinite(size) and size > 0 else 0.0


def nearness(
    guess: Float[np.ndarray, " inputs"],
    row: Float[np.ndarray, " inputs"],
    mean: Float[np.ndarray, " inputs"],
) -> dict[str, float]:
    """Cosine similarity, the same after the mean is subtracted, relative error."""
    return {
        "cosine": cosine(guess, row),
        "centred": cosine(guess - mean, row - mean),
        "error": float(np.linalg.norm(guess - row) / np.linalg.norm(row)),
    }


def average(public: LabelledRows) -> Float[np.ndarray, " inputs"]:
    """The mean public row."""
    return public.x.mean(axis=0)


def largest_difference(
    service: Service, without: np.ndarray, public: LabelledRows
) -> Float[np.ndarray, " inputs"]:
    """The public row whose loss the deletion raises most."""
    raised = service.losses(without, public) - service.losses(service.theta, public)
    return public.x[int(np.argmax(raised))]


def nearer_to_undeleted(
    guess: Float[np.ndarray, " inputs"], undeleted: LabelledRows, held_out: LabelledRows
) -> float:
    """Whether a guess is nearer to a row that stays than to one of nobody's; 0.5: tie.

    As many of either are compared, so that guesses that tell nothing of them give 0.5.
    """
    most = min(len(undeleted), len(held_out))
    ours, others = (
        float((rows.x[:most] @ guess / np.linalg.norm(rows.x[:most], axis=1)).max())
        for rows in (undeleted, held_out)
    )
    return float(ours > others) if ours != others else 0.5
