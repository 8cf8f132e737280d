"""Private steps of gradient descent (DP-SGD): noisy sums of clipped gradients.

`gradient_descent` trains by `PrivateSteps`. `informed.attacks.prior_aware` computes by
it the releases of every step, which the strongest adversary of differential privacy
sees. `dp.gradient` clips and adds the noise.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dp import gradient
from dp.gradient import PrivacyConfig
from shadow.training import grouped_gradients as grouped
from shadow.training.algorithm import AnyArray
from shadow.victims import Params, Victim

Losses = Callable[[Array, Array], Array]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PrivateSteps:
    """The noisy gradient sum of a private step, for a victim and its privacy settings.

    Attributes:
      victim, privacy: the network that is trained; its clipping and noise.
      losses: (logits (examples, classes), labels (examples,)) -> (examples,).
      form: see `GradientDescent`; here it only sets the size of groups of examples.
    """

    victim: Victim
    privacy: PrivacyConfig
    losses: Losses
    form: str | None = None

    def clipped_sum(
        self,
        params: Params,
        images: AnyArray,
        labels: AnyArray,
        part: Float[Array, " examples"] | None,
    ) -> Params:
        """Return the sum of clipped gradients; `part` is 1 in the step, else 0."""
        images, labels = jnp.asarray(images), jnp.asarray(labels)
        groups = self.victim.form(self.form)
        size = len(images) if groups is None else groups.size
        if len(images) <= size:
            return self._clipped_sum(params, images, labels, part)
        weights = jnp.ones(len(images), images.dtype) if part is None else part
        examples = grouped.cut(size, images, labels, weights)
        return grouped.total(
            lambda group: self._clipped_sum(params, *group), params, examples
        )

    def _clipped_sum(
        self,
        params: Params,
        images: Array,
        labels: Array,
        part: Float[Array, " examples"] | None,
    ) -> Params:
        victim, clip_norm = self.victim, self.privacy.clip_norm
        assert clip_norm is not None
        tapped = victim.tapped
        if tapped is None:

            def loss(params: Params, example: Any) -> Array:
                image, label = example
                logits = victim.apply(params, image[None])
                return self.losses(logits, label[None])[0]

            return gradient.clipped_sum_traced(
                loss, params, (images, labels), clip_norm=clip_norm, weights=part
            )

        def losses(taps: Any) -> tuple[Array, Any]:
            logits, inputs = tapped(params, images, taps)
            return self.losses(logits, labels), inputs

        taps = victim.taps(len(images))
        return gradient.clipped_sum(
            losses, params, taps, clip_norm=clip_norm, weights=part
        )

    def noisy_sum(
        self,
        params: Params,
        fixed: Any,
        target: Any,
        part: Float[Array, " examples"] | None,
        noise_key: Array | None,
    ) -> Params:
        """Return the noisy sum of clipped gradients of the known records and target.

        The noise has standard deviation noise_multiplier * clip_norm. D_- and target
        are summed apart, so that D_- stays one array under `vmap` over targets. `part`
        is that of `participants`; the target is last.
        """
        image, label = (jnp.asarray(value)[None] for value in target)
        of_fixed = None if part is None else part[:-1]
        of_target = None if part is None else part[-1:]
        total = jax.tree.map(
            jnp.add,
            self.clipped_sum(params, fixed[0], fixed[1], of_fixed),
            self.clipped_sum(params, image, label, of_target),
        )
        if not self.privacy.noise_multiplier:
            return total
        assert self.privacy.clip_norm is not None
        assert noise_key is not None
        deviation = self.privacy.noise_multiplier * self.privacy.clip_norm
        return gradient.add_noise(noise_key, total, deviation)

    def divisor(self, count: int) -> float:
        """Return the divisor of the sum: the expected number of examples in a step."""
        return count * self.privacy.sampling_probability


def participants(
    privacy: PrivacyConfig, key: Array, number: Array, count: int
) -> Float[Array, " examples"] | None:
    """Draw which of `count` examples take part in a step, 1 or 0; None: all.

    `key` is the same for all steps; `number` is that of the step, from 0.
    """
    q = privacy.sampling_probability
    if q == 1:
        return None
    if privacy.sampling == "allocation":
        steps = privacy.steps_an_epoch
        # 64 random bits modulo the steps: the probability of each step is 1 / steps to
        # within 1e-10 of itself.
        epoch = jax.random.fold_in(key, number // steps)
        joined = jax.random.randint(epoch, (count,), 0, steps)
        return (joined == number % steps).astype(jnp.float32)
    drawn = jax.random.bernoulli(jax.random.fold_in(key, number), q, (count,))
    return drawn.astype(jnp.float32)
