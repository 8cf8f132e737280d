"""Registry rows of the attacks on weights alone, with the knowledge that they need.

Importing it registers them. `informed attacks` lists them and the contract test plays
them; `informed kkt` and `landscape` call the same code directly. They can't be among a
run's `config.attacks`, because they know no record and return many candidates.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from informed.attacks.registry import Row, register
from shadow.threat import Release, require_told
from uninformed import bilevel, kkt, model_inversion
from uninformed.knowledge import Architecture, Candidates
from uninformed.model_inversion import InversionOfModel

# Mean and standard deviation, in pixels, of the bilevel attack's initial noise: grey
# favours no class, and the noise makes points of one class differ.
_GREY, _SPREAD = 0.5, 0.1


@dataclasses.dataclass(frozen=True)
class WeightsAttack:
    """An attack on weights alone: `run` gives points and scores of one release.

    It needs the fields `knows` of `Architecture`.
    """

    config: Any
    knows: tuple[str, ...]
    run: Callable[[Any, Array, Architecture, Array], tuple[Any, Any]]

    def __call__(
        self, release: Release, architecture: Architecture, *, key: Array
    ) -> Candidates:
        """Return the candidates of each release; refuse if knowledge is lacking."""
        require_told(architecture, *self.knows)
        ends = [
            self.run(self.config, jnp.asarray(theta), architecture, key)
            for theta in release.weights
        ]
        points, scores = (np.stack(parts) for parts in zip(*ends, strict=True))
        return Candidates(points=points, scores=scores)


def _bilevel(
    config: bilevel.BilevelConfig, theta: Array, known: Architecture, key: Array
) -> tuple[Any, Any]:
    """Run the bilevel attack from noise around grey; scores are minus distances."""
    targets = jnp.asarray(known.targets)
    shape = (len(targets), known.lower.inputs)
    start = _GREY + _SPREAD * jax.random.normal(key, shape, targets.dtype)
    theta = theta.astype(targets.dtype)
    attack = jax.jit(bilevel.attack, static_argnums=(0, 1))
    end = attack(config, known.lower, theta, start, targets, theta)
    return end.points, np.full(len(targets), -float(end.distance))


def _invert(
    config: InversionOfModel, theta: Array, known: Architecture, key: Array
) -> tuple[Any, Any]:
    """Run model inversion; scores are equal, because nothing ranks the points."""
    assert known.victim is not None
    points = model_inversion.invert(config, known.victim.unflatten(theta), key=key)
    return points, np.ones(config.count)


_row = functools.partial(
    Row, protocol="candidates", sees="weights", gives=("points", "scores")
)
for row in (
    _row(
        name="kkt",
        about="many candidates, from the weights of a homogeneous network alone",
        config=kkt.KktConfig,
        make=lambda settings, _: kkt.Attack(config=settings),
        knows=("victim",),
        uses=("mean",),
        revision=kkt.REVISION,
    ),
    _row(
        name="bilevel",
        about="points whose training ends at the released weights (Runkel et al. 2024)",
        config=bilevel.BilevelConfig,
        make=lambda settings, _: WeightsAttack(
            settings, ("lower", "targets"), _bilevel
        ),
        knows=("lower", "targets"),
        revision=bilevel.REVISION,
    ),
    _row(
        name="model_inversion",
        about="points of extreme output; a baseline",
        config=InversionOfModel,
        make=lambda settings, _: WeightsAttack(settings, ("victim",), _invert),
        knows=("victim",),
    ),
):
    register(row)
