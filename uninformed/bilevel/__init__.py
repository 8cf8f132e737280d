"""The bilevel attack: points whose training ends at the released weights.

THREAT: uninformed, with labels. Knows theta*, the architecture, loss and weight decay
of the victim, and the labels of the training points; not the points.

    min_x 1/2 |theta(x) - theta*|^2   s.t.   theta(x) = argmin_theta E(x, y; theta),

E the mean squared error halved plus mu/2 |theta|^2. The lower problem is solved to a
stated tolerance, in closed form where the victim is affine. With v = theta(x) - theta*
and H p = v, H the Hessian of E, the gradient of the upper problem is

    - grad_x <grad_theta E(x, y; theta(x)), p>,

p and theta(x) held fixed: with this sign x moves by plus the step times grad_x. The
paper prints the other one. `matching` is its problem (3), min_x |grad_theta E(x, y;
theta*)|^2.

lower   the victim and its training problem, solved and differentiated
upper   the attack and gradient matching

Source: Runkel et al. 2024, equations (2), (3), (7).
Checked: tests/uninformed/test_bilevel.py (autodiff through the closed form to 1e-6;
finite differences; an affine victim's updates stay in a span of two directions).
"""

from uninformed.bilevel.lower import (
    INVERSES,
    Lower,
    Solution,
    inverse_hessian,
    ridge,
    solve,
)
from uninformed.bilevel.upper import (
    REVISION,
    BilevelAttack,
    BilevelConfig,
    Ended,
    attack,
    hypergradient,
    matching,
)

__all__ = [
    "INVERSES",
    "REVISION",
    "BilevelAttack",
    "BilevelConfig",
    "Ended",
    "Lower",
    "Solution",
    "attack",
    "hypergradient",
    "inverse_hessian",
    "matching",
    "ridge",
    "solve",
]
