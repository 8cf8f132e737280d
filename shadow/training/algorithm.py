"""The protocol of a training algorithm A, for the factory and attacks that train again.

`gradient_descent` and `foreign` implement it. An A that can't be batched runs one model
at a time in processes, and one without derivatives is differentiated by finite
differences of runs.
"""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array

from shadow.data import Examples
from shadow.victims import Slice

AnyArray = Array | np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The ways in which an A can be run, and who knows its randomness.

    Attributes:
      batched: it is a pure function of JAX, and runs under `vmap` with D_- shared.
      differentiable: it has JVPs and VJPs.
      in_span: it keeps the first layer's weights in the span of the data (`gram_form`).
      deterministic: the same inputs and the same randomness give the same weights.
      random: the randomness that it draws, by name: "initialisation" (theta_0), and
        "key" (the order of mini-batches; of a user's function, everything).
      public: the part of `random` that is public.
      noisy: whether it adds noise, which is always secret.
      on_cards: it isn't batched, and each run has an accelerator to itself.
    """

    batched: bool = False
    differentiable: bool = False
    in_span: bool = False
    deterministic: bool = True
    random: frozenset[str] = frozenset()
    public: frozenset[str] = frozenset()
    noisy: bool = False
    on_cards: bool = False


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Draw:
    """One draw of the randomness of A.

    Attributes:
      start: (params,), theta_0; None where A makes it itself.
      key: the key of A's randomness, as `Algorithm.own_key` makes it.
      noise_key: the key of noise, which is secret.
    """

    start: Any = None
    key: Any = None
    noise_key: Any = None


@runtime_checkable
class Algorithm(Protocol):
    """A training algorithm A: D_-, targets and randomness in, theta out."""

    @property
    def capabilities(self) -> Capabilities:
        """How A can be run."""

    @property
    def configuration(self) -> dict[str, Any]:
        """All that decides A's weights, its version included; JSON-able."""

    def layout(self, fixed: Examples) -> tuple[Slice, ...]:
        """Return which slice of theta is which array, for D_- and one target."""

    def initialise(self, key: Array) -> AnyArray | None:
        """Draw theta_0 (params,); None where A makes it itself."""

    def own_key(self, key: Array) -> Any:
        """Convert a JAX key to what A takes in its place, such as an integer."""

    def quiet(self) -> "Algorithm":
        """Return the same A without its noise."""

    def __call__(
        self,
        fixed: tuple[AnyArray, AnyArray],
        images: AnyArray,
        labels: AnyArray,
        draw: Draw,
    ) -> AnyArray:
        """Train on D_- and one or several targets, which come last in the set.

        Args:
          fixed: images (fixed, height, width, channels) float32 and labels (fixed,)
            int32 of D_-.
          images, labels: images and labels (targets, ...) of the targets.
          draw: one draw of A's randomness.
        Returns: theta, (params,).
        """


def joined(
    fixed: tuple[AnyArray, AnyArray], images: AnyArray, labels: AnyArray, numpy: Any
) -> tuple[Any, Any]:
    """Join D_- and targets to one set; `numpy` is numpy or jax.numpy."""
    joined_images = numpy.concatenate([fixed[0], images])
    return joined_images, numpy.concatenate([fixed[1], labels])
