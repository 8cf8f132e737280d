"""The target off the span of the known rows, out of weights as they are.

Where inputs first meet a dense layer, a released model holds the direction of the
missing row off the span of the known ones, converged or not: no training code, no seed,
no loss. It needs more features than known rows. docs/span.md has the proof.

direction   `read`: the direction, its error, the number of missing rows
basis       projections off the span, dense or sparse;  precision: rounding of weights
single      `complete`: the row, by what the known rows are made of:
levels      a row of whole numbers (space, message_passing, uniqueness, columns)
sparse      a bag of words
gallery     `rank`: which of some candidates it is
several     `complete_all`: several missing rows, where there are outputs enough
probe       whether a training leaves its weights in the span: by a small one
estimators  the row of a fitted linear model
attack      the attack on networks: layers, and a search by training on guesses
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from informed.attacks.span.attack import SpanAttack, SpanConfig, applies
    from informed.attacks.span.completion import Completion
    from informed.attacks.span.direction import Direction, read
    from informed.attacks.span.gallery import rank
    from informed.attacks.span.several import complete_all
    from informed.attacks.span.single import complete

# The attack imports JAX, which the others do without.
__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "informed.attacks.span.attack": "SpanAttack SpanConfig applies",
        "informed.attacks.span.completion": "Completion",
        "informed.attacks.span.direction": "Direction read",
        "informed.attacks.span.gallery": "rank",
        "informed.attacks.span.several": "complete_all",
        "informed.attacks.span.single": "complete",
    },
)
