"""Derivatives of an A that is a function of JAX.

slopes, plain     forward mode; one run carries a block of tangents, so memory is a
                  block of optimiser states, whatever the number of epochs
slopes, in span   where A trains in the span of the data (`span`, `response`)
pushes, pulls     single products with the Jacobian and its transpose, for large victims
                  and images; reverse mode keeps one optimiser state per epoch
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from informed.attacks.inversion.regression import Local
from informed.attacks.inversion.retraining import Labels, Retraining, Unknowns
from informed.attacks.inversion.span import Span, in_blocks
from shadow.parallel import BY_ROW, EVERYWHERE, everywhere, sharded
from shadow.threat import Knowledge
from shadow.training import GradientDescent


class Differentiated(Retraining):
    """The adversary's copy of an A that can be differentiated."""

    matrix_free = True

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        tangents: int,
        rank: int,
        **settings: Any,
    ) -> None:
        """Compile nothing yet.

        Args:
          knowledge: what the adversary is told; needs fixed and algorithm.
          tangents: derivatives carried by one training run.
          rank: number of leading directions of the data in derivatives in span.
          settings: the other arguments of `Retraining`.
        """
        super().__init__(knowledge, **settings)
        self._rank = rank
        self._devices = jax.local_device_count()
        self._block = tangents * self._devices

    @functools.cached_property
    def _data(self) -> tuple[Array, Array]:
        images = np.asarray(self.fixed.images, self.dtype)
        return everywhere((images, self.fixed.labels))

    @property
    def _inputs(self) -> tuple:
        """D_- and the numbers of runs, which programs take beside unknown points."""
        return self._data, jnp.asarray(self.draw_numbers, jnp.int32)

    def _make_programs(self) -> None:
        super()._make_programs()
        _ = self._data, self._columns, self._pull, self._span

    def at(self, release: int) -> "Retraining":
        """See `Retraining.at`."""
        other = super().at(release)
        if other is not self and self._span is not None:
            other.__dict__["_span"] = self._span.starting(jnp.asarray(other.start))
        return other

    def _theta(self, inputs: tuple, images: Array, labels: Array) -> Array:
        """Theta, averaged over draws of the randomness that isn't told; traced."""
        data, numbers = inputs
        quiet = self.algorithm.quiet()

        def one(number: Array) -> Array:
            return jnp.asarray(quiet(data, images, labels, self.draw(number)))

        return jax.vmap(one)(numbers).mean(axis=0) if self.averaged else one(numbers[0])

    @functools.cached_property
    def _columns(self) -> Any:
        def columns(
            inputs: tuple, images: Array, labels: Array, tangents: Array
        ) -> tuple[Array, Array]:
            def theta(z: Array) -> Array:
                return self._theta(inputs, z, labels)

            return jax.vmap(
                lambda t: jax.jvp(theta, (images,), (t,)), out_axes=(None, 0)
            )(tangents)

        return sharded(columns, (EVERYWHERE,) * 3 + (BY_ROW,), (EVERYWHERE, BY_ROW))

    @functools.cached_property
    def _pull(self) -> Any:
        def pull(inputs: tuple, images: Array, labels: Array, slope: Array) -> Array:
            def theta(z: Array) -> Array:
                return self._theta(inputs, z, labels)

            return jax.vjp(theta, images)[1](slope)[0]

        return jax.jit(pull)

    @functools.cached_property
    def _span(self) -> Span | None:
        in_span = self.algorithm.capabilities.in_span
        if not in_span or self.start is None:
            return None
        assert isinstance(self.algorithm, GradientDescent)
        return Span(
            self.algorithm,
            jnp.asarray(self.start),
            self._data,
            rank=self._rank,
        )

    @property
    def by_response(self) -> bool:
        """See `Retraining.by_response`."""
        return self._span is not None and self._span.by_response

    def slopes(
        self, images: Unknowns, labels: Labels, basis: Float[np.ndarray, "m pixels"]
    ) -> Float[np.ndarray, "params columns"]:
        """See `Retraining.slopes`."""
        if self._span is not None:
            return self._span.slopes(images, labels, basis)
        unknown = len(images)
        tangents = np.zeros((unknown, len(basis), unknown, basis.shape[1]))
        for point in range(unknown):
            tangents[point, :, point] = basis
        tangents = tangents.reshape(-1, *images.shape)
        cast = self._cast(images, labels)
        found = []
        for block in in_blocks(tangents, self._block, self.dtype):
            part = self._columns(self._inputs, *cast, block)[1]
            found.append(np.asarray(part, np.float64))
        return np.concatenate(found)[: len(tangents)].T

    def local(
        self, images: Unknowns, labels: Labels, basis: Float[np.ndarray, "m pixels"]
    ) -> Local | None:
        """See `Retraining.local`."""
        if self._span is None:
            return None
        return self._span.local(images, labels, basis)

    def pulls(
        self, images: Unknowns, labels: Labels, slope: Float[np.ndarray, " params"]
    ) -> Unknowns:
        """See `Retraining.pulls`."""
        cast = self._cast(images, labels)
        pulled = self._pull(self._inputs, *cast, jnp.asarray(slope, self.dtype))
        return np.asarray(pulled, np.float64)

    def pushes(
        self, images: Unknowns, labels: Labels, tangent: Unknowns
    ) -> Float[np.ndarray, " params"]:
        """See `Retraining.pushes`."""
        block = np.zeros((self._devices, *tangent.shape))
        block[0] = tangent
        cast = self._cast(images, labels)
        pushed = self._columns(self._inputs, *cast, jnp.asarray(block, self.dtype))[1]
        return np.asarray(pushed[0], np.float64)

    def _cast(self, images: np.ndarray, labels: np.ndarray) -> tuple[Array, Array]:
        return jnp.asarray(images, self.dtype), jnp.asarray(labels, jnp.int32)
