"""The protocol of training algorithms A: what the factory and attacks ask of one.

Whatever turns D_-, targets and randomness into weights is an A. The toolkit's own is
`gradient_descent.GradientDescent`; any function of the user's is one by way of
`foreign.JaxFunction` or `foreign.PythonFunction`. What an A can do beside being run is
told by its `Capabilities`, and used where it is there: an A that can't be batched is
run model by model in processes, one without derivatives is differentiated by runs.
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
    """What can be done with an A, and who knows its randomness.

    Attributes:
      batched: it is a pure function of JAX, and runs under `vmap` with D_- shared.
      differentiable: JVPs and VJPs go through it.
      in_span: it keeps the first layer's weights in the span of the data (`gram_form`).
      deterministic: the same inputs and the same randomness give the same weights.
      random: the randomness that it draws, by name: "initialisation" (theta_0), and
        "key" (the order of mini-batches; of a user's function, everything).
      public: the part of `random` that everyone is told.
      noisy: whether it adds noise that nobody is ever told.
      one_by_one: the models of a batch are trained one after another, in one program:
        for programs that are slow under `vmap`.
      on_cards: it isn't batched, and trains on an accelerator of its own.
    """

    batched: bool
    differentiable: bool
    in_span: bool = False
    deterministic: bool = True
    random: frozenset[str] = frozenset()
    public: frozenset[str] = frozenset()
    noisy: bool = False
    one_by_one: bool = False
    on_cards: bool = False


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Draw:
    """One draw of the randomness of A.

    Attributes:
      start: (params,), theta_0; None where A makes its own.
      key: the randomness that A draws its own randomness from, as `Algorithm.own_key`
        makes it.
      noise_key: the key of noise that nobody is told.
    """

    start: Any = None
    key: Any = None
    noise_key: Any = None


@runtime_checkable
class Algorithm(Protocol):
    """A training algorithm A: D_-, targets and randomness in, theta out."""

    @property
    def capabilities(self) -> Capabilities:
        """What can be done with it."""

    @property
    def configuration(self) -> dict[str, Any]:
        """JSON-able; what decides its weights, its version included."""

    def layout(self, fixed: Examples) -> tuple[Slice, ...]:
        """Which slice of theta is which array, when trained on D_- and one target."""

    def initialise(self, key: Array) -> AnyArray | None:
        """Theta_0 (params,); None where A makes its own."""

    def own_key(self, key: Array) -> Any:
        """A JAX key as what A takes in its place, such as an integer."""

    def quiet(self) -> "Algorithm":
        """The same without its noise."""

    def __call__(
        self,
        fixed: tuple[AnyArray, AnyArray],
        images: AnyArray,
        labels: AnyArray,
        draw: Draw,
    ) -> AnyArray:
        """Train on D_- and one or several targets, which are the last of the set.

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
    """D_- and targets as one set; `numpy` is numpy or jax.numpy."""
    return (
        numpy.concatenate([fixed[0], images]),
        numpy.concatenate([fixed[1], labels]),
    )
