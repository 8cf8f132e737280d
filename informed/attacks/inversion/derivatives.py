"""Derivatives of training (A) in JAX, chosen for the inversion by `retraining_of`.

slopes, plain     forward mode; one run carries a block of tangents, so memory is a
                  block of optimiser states, whatever the number of epochs
slopes, in span   if training keeps its first layer in the span of the data
                  (`span_derivatives`, `response`)
pushes, pulls     products with the Jacobian and its transpose, which `solving` uses for
                  large victims and images; reverse mode keeps a state per epoch
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from informed.attacks.inversion import response
from informed.attacks.inversion.cloud_regression import Local
from informed.attacks.inversion.finite_differences import Repeated
from informed.attacks.inversion.retraining import (
    Basis,
    Labels,
    Programs,
    Retraining,
    Unknowns,
)
from informed.attacks.inversion.span_derivatives import Span, SpanPrograms, in_blocks
from shadow.parallel import BY_ROW, EVERYWHERE, everywhere, sharded
from shadow.threat import Knowledge
from shadow.training import GradientDescent

# Derivatives per training run on one device; affects speed and memory only.
_TANGENTS = 16


class DifferentiatedPrograms(Programs):
    """An A that can be differentiated, compiled for all releases."""

    @functools.cached_property
    def data(self) -> tuple[Array, Array]:
        """D_-, copied to all devices."""
        images = np.asarray(self.fixed.images, self.dtype)
        return everywhere((images, self.fixed.labels))

    def _theta(self, inputs: tuple, images: Array, labels: Array) -> Array:
        """Average theta over draws of the unknown randomness; traced."""
        data, numbers = inputs
        quiet = self.algorithm.quiet()

        def one(number: Array) -> Array:
            return jnp.asarray(quiet(data, images, labels, self.draw(number)))

        return jax.vmap(one)(numbers).mean(axis=0) if self.averaged else one(numbers[0])

    @functools.cached_property
    def columns(self) -> Any:
        """Theta, and its derivatives along each of several tangents."""

        def columns(
            inputs: tuple, images: Array, labels: Array, tangents: Array
        ) -> Any:
            return response.columns_of(
                lambda z: self._theta(inputs, z, labels), images, tangents
            )

        return sharded(columns, (EVERYWHERE,) * 3 + (BY_ROW,), (EVERYWHERE, BY_ROW))

    @functools.cached_property
    def pull(self) -> Any:
        """The transposed Jacobian times a vector."""

        def pull(inputs: tuple, images: Array, labels: Array, slope: Array) -> Array:
            _, pulled = jax.vjp(lambda z: self._theta(inputs, z, labels), images)
            return pulled(slope)[0]

        return jax.jit(pull)

    @functools.cached_property
    def in_span(self) -> SpanPrograms | None:
        """Derivatives in the span of the data; None: not there, or theta_0 unknown."""
        able = self.algorithm.capabilities.in_span
        if not able or self.initialisations is None:
            return None
        assert isinstance(self.algorithm, GradientDescent)
        return SpanPrograms(self.algorithm, self.data, rank=self.rank)


class Differentiated(Retraining):
    """A as the adversary runs and differentiates it on one release."""

    programs: DifferentiatedPrograms

    @functools.cached_property
    def span(self) -> Span | None:
        """Derivatives in the span of the data from this theta_0; None: inapplicable."""
        if self.programs.in_span is None:
            return None
        return Span(self.programs.in_span, jnp.asarray(self.initialisation))

    @property
    def by_response(self) -> bool:  # type: ignore[override]
        """Whether slopes along one unknown point use `response`, an approximation."""
        return self.span is not None and self.span.response is not None

    def slopes(self, images: Unknowns, labels: Labels, basis: Basis) -> np.ndarray:
        """Differentiate in the span of the data if possible, otherwise plainly."""
        if self.span is not None:
            return self.span.slopes(images, labels, basis)
        unknown = len(images)
        tangents = np.zeros((unknown, len(basis), unknown, basis.shape[1]))
        for point in range(unknown):
            tangents[point, :, point] = basis
        tangents = tangents.reshape(-1, *images.shape)
        size = _TANGENTS * jax.local_device_count()
        arguments = self._arguments(images, labels)
        parts = []
        for block in in_blocks(tangents, size, self.programs.dtype):
            part = self.programs.columns(*arguments, block)[1]
            parts.append(np.asarray(part, np.float64))
        return np.concatenate(parts)[: len(tangents)].T

    def local(self, images: Unknowns, labels: Labels, basis: Basis) -> Local | None:
        """Return the part of the slopes that one training in the span gives."""
        return None if self.span is None else self.span.local(images, labels, basis)

    def pulls(self, images: Unknowns, labels: Labels, slope: np.ndarray) -> Unknowns:
        """Multiply the transposed Jacobian by `slope` (params,)."""
        vector = jnp.asarray(slope, self.programs.dtype)
        pulled = self.programs.pull(*self._arguments(images, labels), vector)
        return np.asarray(pulled, np.float64)

    def pushes(self, images: Unknowns, labels: Labels, tangent: Unknowns) -> np.ndarray:
        """Multiply the Jacobian by one direction."""
        block = np.zeros((jax.local_device_count(), *tangent.shape))
        block[0] = tangent
        tangents = jnp.asarray(block, self.programs.dtype)
        pushed = self.programs.columns(*self._arguments(images, labels), tangents)[1]
        return np.asarray(pushed[0], np.float64)

    def _arguments(self, images: np.ndarray, labels: np.ndarray) -> tuple:
        """Return the programs' arguments: D_- and the numbers of runs; z; its label."""
        return (
            (self.programs.data, jnp.asarray(self.draw_numbers, jnp.int32)),
            jnp.asarray(images, self.programs.dtype),
            jnp.asarray(labels, jnp.int32),
        )


def retraining_of(knowledge: Knowledge, **settings: Any) -> Retraining:
    """Return A with the best derivatives that it allows; settings: as of `Programs`."""
    algorithm = knowledge.algorithm
    if algorithm is None or algorithm.capabilities.differentiable:
        return Differentiated(DifferentiatedPrograms(knowledge, **settings))
    return Repeated(Programs(knowledge, **settings))
