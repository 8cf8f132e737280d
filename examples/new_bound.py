"""A new bound: a class with a method `bounds`, in log space.

Here a lottery: with probability p the record itself is published, otherwise nothing.
An attacker who gets the record is right. Any other is right with probability kappa:

    gamma = p + (1 - p) kappa

`dp.rero_bound` takes the least of the bounds that are returned, so each of them has to
hold for every attack: a bound that is too small flatters whoever publishes. The test of
this example plays the lottery.

To add a bound for the toolkit's own mechanisms, register a function under a name:

    informed bound --bounds examples/new_bound.py --noise-multiplier 2 --steps 1 \\
        --kappa 0.1
"""

import dataclasses

import numpy as np
from scipy import special

import dp


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lottery:
    """Publish the record with probability `chance`, which is in (0, 1)."""

    chance: float

    def bounds(self, log_kappa: np.ndarray) -> dict[str, np.ndarray]:
        """Return log gamma by the name of the bound; log_kappa of any shape."""
        lost = np.log1p(-self.chance) + log_kappa
        return {"lottery": np.logaddexp(np.log(self.chance), lost)}


def total_variation(mechanism, log_kappa):
    """Bound gamma by kappa + 2 Phi(mu / 2) - 1, the total variation."""
    if not isinstance(mechanism, dp.PoissonGaussian):
        return None
    mu = 2 * mechanism.steps**0.5 / mechanism.noise_multiplier  # for all relations
    gain = 2 * special.ndtr(mu / 2) - 1
    return np.log(np.minimum(1.0, np.exp(log_kappa) + gain))


dp.register_bound("total variation", total_variation)


def main() -> dict:
    """Bound three priors, the last far below the smallest float."""
    log_kappa = np.array([np.log(0.5), np.log(0.01), -1e6])
    bound = dp.rero_bound(Lottery(chance=0.1), log_kappa=log_kappa)
    return {"gamma": bound.gamma.tolist(), "by": bound.by.tolist()}


if __name__ == "__main__":
    print(main())
