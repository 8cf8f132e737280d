"""The KKT attack as a call, on weights of any program.

    network = weights_file.read("victim.safetensors", inputs=784)
    release, knowledge = kkt.released(network, (28, 28, 1))
    candidates = kkt.Attack()(release, knowledge, key=jax.random.key(0))

Candidates can be judged by those who have the training images alone, beside a control:
`informed kkt --weights FILE --data FILE`.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from shadow import bars
from shadow.threat import Release, publish, require_told
from uninformed import homogeneous
from uninformed.homogeneous import DenseLayers
from uninformed.kkt.descent import attack_many
from uninformed.kkt.loss_terms import KktConfig
from uninformed.knowledge import Architecture, Candidates


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attack:
    """The KKT attack, one run on each release; scores are multipliers.

    Attributes:
      config: settings of the attack.
      progress: whether a bar shows steps and the time left.
    """

    config: KktConfig = dataclasses.field(default_factory=KktConfig)
    progress: bool = False

    def __call__(
        self, release: Release, knowledge: Architecture, *, key: Array
    ) -> Candidates:
        """Attack each release, or refuse an architecture that isn't known."""
        require_told(knowledge, "victim")
        assert knowledge.victim is not None
        runs, total = [], len(release) * self.config.steps
        with bars.bar(
            total=total, desc="kkt", unit=" steps", show=self.progress
        ) as bar:
            for theta in release.weights:
                network = knowledge.victim.unflatten(jnp.asarray(theta))
                runs += attack_many(
                    self.config,
                    network,
                    keys=key[None],
                    mean=knowledge.mean,
                    tick=bar.update,
                )
        return Candidates(
            points=np.stack([run.points for run in runs]),
            scores=np.stack([run.multipliers for run in runs]),
        )


def released(
    network: DenseLayers,
    image_shape: tuple[int, ...],
    mean: Float[np.ndarray, " inputs"] | None = None,
) -> tuple[Release, Architecture]:
    """Return what an adversary sees of a network and knows of it.

    Args:
      mean: what was subtracted from the training points, where that is known.
    """
    theta = np.asarray(ravel_pytree(network)[0])
    victim = homogeneous.victim_of(network, image_shape)
    return publish(theta[None]), Architecture(victim=victim, mean=mean)
