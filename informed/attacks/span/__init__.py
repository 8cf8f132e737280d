"""Reconstruct the missing record from its part orthogonal to all known records.

A dense first layer shows the direction of the missing row's part off (orthogonal to)
the span of the known rows. This needs more features than known rows; networks also need
code and seed. Runs and audits play `SpanAttack` as `span`, `closed_form.pipelines`
reads linear models by `linear_fit`, users call the rest. docs/span.md has the proof.

direction      `read`: the direction and its error; `rank`: candidates by angle to it
basis          projections off the span
lattice        `complete`: from the direction to a row of integers (with columns,
               uniqueness and completion)
linear_fit     the row of a fitted linear model
span_attack    the attack on networks: first_layers, and guess_search by training
"""

from typing import TYPE_CHECKING

from dp import lazy

if TYPE_CHECKING:
    from informed.attacks.span.completion import Completion
    from informed.attacks.span.direction import Direction, rank, read
    from informed.attacks.span.lattice import complete
    from informed.attacks.span.span_attack import SpanAttack, SpanConfig, applies

# The attack imports JAX, which the others do without.
__getattr__, __dir__, __all__ = lazy.names(
    __name__,
    {
        "informed.attacks.span.completion": "Completion",
        "informed.attacks.span.direction": "Direction rank read",
        "informed.attacks.span.lattice": "complete",
        "informed.attacks.span.span_attack": "SpanAttack SpanConfig applies",
    },
)
