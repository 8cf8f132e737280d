"""The `Victim`, a network under attack: its pure functions, and its weights theta.

`architectures` and `adapters` make victims; training, views and attacks call them.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from shadow import checks, devices
from shadow.precision import highest
from shadow.victims import traces
from shadow.victims.cnn_forms import PATCHES, Groups

Params = Any  # a PyTree of float32 arrays
Taps = dict[str, Array]  # by layer: what `Victim.tapped` adds to its outputs


@dataclasses.dataclass(frozen=True)
class Slice:
    """The array `name`, such as "hidden_0/w", is `theta[start:stop]` in `shape`."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]

    def of(self, weights: Any) -> Any:
        """Return the array, from theta (params,) of NumPy or JAX."""
        return weights[self.start : self.stop].reshape(self.shape)


@dataclasses.dataclass(frozen=True)
class FirstLayer:
    """A dense first layer: the module `name` has its weights w (pixels, units).

    `after` takes (params without that w, products w^T x (units, examples)) to logits.
    """

    name: str
    after: Callable[[Params, Array], Array]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Victim:
    """A network under attack: its functions, the shapes of its data, its layout.

    Attributes:
      init: key -> params.
      apply: (params, images (examples, height, width, channels)) -> logits
        (examples, classes). Pure.
      layout: the slices of theta, in order, without gaps.
      first: the first layer, where it is dense; lets A train in the span of the data
        (`shadow.training.gram_form`).
      tapped: (params, images, taps) -> (logits, the inputs of each layer); adds taps to
        the layers' outputs. Lets A clip per-example gradients without storing them
        (`dp.gradient`). None for networks with layers of other kinds.
      groups: the form in which A trains on a CPU, in small groups of examples, if there
        is one (`cnn_forms`, `shadow.training.grouped_gradients`).
      forms: all forms in which A can train the network, by name; None: all examples at
        once. On an accelerator the default is "patches" if there is one, else None.

    `dataclasses.replace(victim, apply=...)` drops `first` and all that follows it: they
    compute the old network.
    """

    init: Callable[[Array], Params]
    apply: Callable[[Params, ArrayLike], Array]
    image_shape: tuple[int, ...]
    num_classes: int
    layout: tuple[Slice, ...]
    first: FirstLayer | None = None
    tapped: Callable[[Params, ArrayLike, Taps | None], tuple[Array, Taps]] | None = None
    groups: Groups | None = None
    forms: Mapping[str, Groups | None] = dataclasses.field(default_factory=dict)
    _treedef: Any = dataclasses.field(repr=False)
    _computed: Callable | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self._computed not in (None, self.apply):
            for name in ("first", "tapped", "groups"):
                object.__setattr__(self, name, None)
            object.__setattr__(self, "forms", {})
        object.__setattr__(self, "_computed", self.apply)

    def form(self, name: str | None) -> Groups | None:
        """Return a form by its name; None: the default of this device."""
        if name is not None:
            return self.forms[name]
        return self.groups if devices.cache_bound() else self.forms.get(PATCHES)

    @property
    def fingerprint(self) -> str:
        """The hash of what the network computes now, and how it is initialised."""
        params = jax.eval_shape(self.init, jax.random.key(0))
        images = jax.ShapeDtypeStruct((2, *self.image_shape), jnp.float32)
        init = traces.digest(self.init, jax.random.key(0))
        digests = [init, traces.digest(self.apply, params, images)]

        def summed(params: Params, images: Array) -> Array:
            return self.apply(params, images).sum()

        text = str(jax.make_jaxpr(summed)(params, images))
        if "custom_vjp" in text or (self.groups is None and "custom_jvp" in text):
            # A derivative that the user defined isn't in the trace of the network.
            digests.append(traces.digest(jax.grad(summed), params, images))
        return checks.fingerprint(digests)

    @property
    def first_weights(self) -> tuple[slice, tuple[int, ...]] | None:
        """Slice of theta and shape of a dense first layer's weights; None: no such."""
        if self.first is None:
            return None
        name = f"{self.first.name}/w"
        part = next(part for part in self.layout if part.name == name)
        return slice(part.start, part.stop), part.shape

    @property
    def num_params(self) -> int:
        """The number of parameters, the length of theta."""
        return self.layout[-1].stop

    def taps(self, num_images: int) -> Taps:
        """Return zeros of the shapes of the taps."""
        assert self.tapped is not None
        images = jax.ShapeDtypeStruct((num_images, *self.image_shape), jnp.float32)
        params = jax.eval_shape(self.init, jax.random.key(0))
        _, shapes = jax.eval_shape(self.tapped, params, images, None)
        return {name: jnp.zeros(shape.shape) for name, shape in shapes.items()}

    def flatten(self, params: Params) -> Float[Array, " params"]:
        """Return theta: all parameters as one vector, in the order of `layout`."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])

    def unflatten(self, weights: Float[Array | np.ndarray, " params"]) -> Params:
        """Return the parameters from theta. Raises: ValueError: another length."""
        if weights.shape != (self.num_params,):
            raise ValueError(
                f"Expected weights of shape ({self.num_params},), got {weights.shape}."
            )
        leaves = [part.of(weights) for part in self.layout]
        return jax.tree.unflatten(self._treedef, leaves)


@highest
def accuracy(
    victim: Victim, params: Params, images: ArrayLike, labels: ArrayLike
) -> float:
    """Return the share of images that the victim classifies correctly, for runs."""
    predicted = jnp.argmax(victim.apply(params, images), axis=-1)
    return float(jnp.mean(predicted == labels))
