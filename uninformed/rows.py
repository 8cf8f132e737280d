"""Registry rows of the attacks on weights alone, with the knowledge that they need.

`informed attacks` lists them and the contract test plays them. They can't be among
`config.attacks`, because they don't know D_- and return many candidates, not one guess.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from informed.attacks.registry import Row, register
from shadow.threat import Release, require_told
from shadow.victims import Victim
from uninformed import bilevel, kkt, model_inversion

# Mean and standard deviation, in pixels, of the bilevel attack's initial noise: grey
# favours no class, and the noise makes points of one class differ.
_GREY, _SPREAD = 0.5, 0.1


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """The knowledge of an adversary who sees weights alone; None: unknown.

    Attributes:
      victim: the architecture of a homogeneous network, and the layout of its theta
        (`uninformed.homogeneous.victim`).
      lower: the victim's training problem (`uninformed.bilevel.Lower`).
      targets: labels of the training points as numbers, (points,).
      mean: the mean training point, which was subtracted from all of them, (inputs,).
    """

    victim: Victim | None = None
    lower: Any = None
    targets: Float[np.ndarray, " points"] | None = None
    mean: Float[np.ndarray, " inputs"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """The points that attacks on weights alone return for each release, in no order.

    Attributes:
      points: (releases, candidates, inputs), as the network sees points.
      scores: (releases, candidates), larger for candidates that explain more of theta.
    """

    points: Float[np.ndarray, "releases candidates inputs"]
    scores: Float[np.ndarray, "releases candidates"]


@dataclasses.dataclass(frozen=True)
class WeightsAttack:
    """An attack on weights alone, run on each release.

    Attributes:
      config: settings of the attack.
      knows: fields of `Architecture` that it needs.
      run: (config, theta, architecture, key) -> points and scores of one release.
    """

    config: Any
    knows: tuple[str, ...]
    run: Callable[[Any, Array, Architecture, Array], tuple[Any, Any]]

    def __call__(
        self, release: Release, architecture: Architecture, *, key: Array
    ) -> Candidates:
        """Attack each release; refuse an architecture that lacks needed knowledge."""
        require_told(architecture, *self.knows)
        ends = [
            self.run(self.config, jnp.asarray(theta), architecture, key)
            for theta in release.weights
        ]
        points, scores = (np.stack(parts) for parts in zip(*ends, strict=True))
        return Candidates(points=points, scores=scores)


def _kkt(
    config: kkt.KktConfig, theta: Array, known: Architecture, key: Array
) -> tuple[Any, Any]:
    """Run the KKT attack; scores are multipliers."""
    assert known.victim is not None
    network = known.victim.unflatten(theta)
    (run,) = kkt.attack_many(config, network, keys=key[None], mean=known.mean)
    return run.points, run.multipliers


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
    config: model_inversion.InversionOfModel,
    theta: Array,
    known: Architecture,
    key: Array,
) -> tuple[Any, Any]:
    """Run model inversion; scores are equal, because nothing ranks the points."""
    assert known.victim is not None
    points = model_inversion.invert(config, known.victim.unflatten(theta), key=key)
    return points, np.ones(config.count)


def _register(name: str, about: str, config: type, run: Callable, **facts: Any) -> None:
    register(
        Row(
            name=name,
            about=about,
            protocol="candidates",
            config=config,
            make=lambda settings, _: WeightsAttack(settings, facts["knows"], run),
            sees="weights",
            gives=("points", "scores"),
            **facts,
        )
    )


_register(
    "kkt",
    "many candidates, from the weights of a homogeneous network alone",
    kkt.KktConfig,
    _kkt,
    knows=("victim",),
    uses=("mean",),
    revision=kkt.REVISION,
)
_register(
    "bilevel",
    "points whose training ends at the released weights (Runkel et al. 2024)",
    bilevel.BilevelConfig,
    _bilevel,
    knows=("lower", "targets"),
    revision=bilevel.REVISION,
)
_register(
    "model_inversion",
    "points of extreme output; a baseline",
    model_inversion.InversionOfModel,
    _invert,
    knows=("victim",),
)
