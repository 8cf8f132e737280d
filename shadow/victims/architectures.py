"""Build the networks to attack from a configuration: MLP, CNN, affine or a user's.

Inside dense layers, activations are laid out as (features, examples). Under `vmap` over
models, which share the input, XLA then merges the first layers of all models into one
large matrix product. With examples first it does not, and takes twice as long. `apply`
still takes images and returns logits with examples first. Users (as
`shadow.build_victim`) and runs call `build`; manifests of stores hold `revisions`.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import haiku as hk
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from shadow import checks
from shadow.training.versions import source_hash
from shadow.victims import cnn_forms
from shadow.victims.activations import ACTIVATIONS
from shadow.victims.adapters import from_haiku
from shadow.victims.cnn_forms import PATCHES
from shadow.victims.layers import INITIALISERS, Conv, Dense
from shadow.victims.victim import FirstLayer, Params, Taps, Victim

ARCHITECTURES = ("mlp", "cnn", "affine")
# Users' architectures by name: (the function that builds them, its version).
_REGISTERED: dict[str, tuple[Callable[..., Victim], str | None]] = {}
_ROWS = 1000  # examples that a dense network takes at once
_SMALLEST_FOR_CNN = 10
# Revisions by architecture; see `shadow.records`. The CNN of revision 1 had no hidden
# layer behind its convolutions.
_REVISIONS = {"cnn": 2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class VictimConfig:
    """Architecture and initialisation of a victim.

    Attributes:
      architecture: "mlp"; "cnn" (Table VI of Balle et al. 2022); "affine" (no hidden
        layer); or a name from `register`.
      widths: the widths of the hidden dense layers, which the CNN has behind its
        convolutions; (10,) is Table V's MLP and Table VI's CNN.
      activation: a name in `ACTIVATIONS`; Table V has ELU.
      initialiser: "lecun_normal" (truncated, exactly Haiku's default), "he_normal" or
        "glorot_uniform". Biases start at zero.
    """

    architecture: str = "mlp"
    widths: tuple[int, ...] = (10,)
    activation: str = "elu"
    initialiser: str = "lecun_normal"

    def __post_init__(self) -> None:
        if isinstance(self.widths, int):
            object.__setattr__(self, "widths", (self.widths,))
        known = (*ARCHITECTURES, *_REGISTERED)
        checks.choice("architecture", self.architecture, known)
        checks.choice("activation", self.activation, ACTIVATIONS)
        checks.choice("initialiser", self.initialiser, INITIALISERS)
        for width in self.widths:
            checks.at_least("widths", width, 1)


def register(
    name: str, build: Callable[..., Victim], *, version: str | None = None
) -> None:
    """Register a user's victim under a name, for configurations.

    Args:
      name: the name that `config.victim.architecture` is set to.
      build: (`VictimConfig`, image_shape=, num_classes=) -> `Victim`.
      version: the version that records hold, so that results of another version are
        refused; None: a hash of the file of `build` (`shadow.training.versions`).
    Raises: ValueError: another victim has that name.
    """
    there, _ = _REGISTERED.get(name, (build, version))
    # The configuration file that registers it may be read twice.
    if name in ARCHITECTURES or checks.place(there) != checks.place(build):
        raise ValueError(f"There is a victim called {name!r} already.")
    _REGISTERED[name] = (build, version)


def revisions(configuration: Mapping[str, Any]) -> dict[str, int | str]:
    """Return the network's revision, for the record of a store.

    Args:
      configuration: the configuration of an experiment or a store; "victim" is a
        `VictimConfig` as a dictionary, if the victim is of this module.
    """
    victim = configuration.get("victim")
    name = victim.get("architecture") if isinstance(victim, Mapping) else None
    if name in _REGISTERED:
        build, version = _REGISTERED[name]
        return {name: version or source_hash(build)}
    return {name: _REVISIONS[name]} if name in _REVISIONS else {}


def build(
    config: VictimConfig, *, image_shape: tuple[int, ...], num_classes: int
) -> Victim:
    """Build the victim of a configuration, for images of `image_shape`.

    On MNIST the default has 7,960 parameters; on CIFAR-10 "cnn" has 55,208 (Table VI),
    of which 9,008 are of the convolutions.

    Raises: ValueError: images too small for the CNN's two convolutions.
    """
    if config.architecture in _REGISTERED:
        own, _ = _REGISTERED[config.architecture]
        return own(config, image_shape=image_shape, num_classes=num_classes)
    if config.architecture == "cnn" and min(image_shape[:2]) < _SMALLEST_FOR_CNN:
        raise checks.FieldError(
            "architecture",
            f"{{}} is 'cnn', which takes images of at least {_SMALLEST_FOR_CNN} x"
            f" {_SMALLEST_FOR_CNN}; got {image_shape}. Use 'mlp'.",
        )
    activation = ACTIVATIONS[config.activation]
    w_init = INITIALISERS[config.initialiser]
    widths = () if config.architecture == "affine" else config.widths
    sizes = {f"hidden_{i}": width for i, width in enumerate(widths)}
    sizes["output"] = num_classes
    first = next(iter(sizes))

    def dense(values: Array, *, products: bool) -> Array:
        """Apply all layers; `products`: `values` are the first layer's products."""
        for name, width in sizes.items():
            layer = Dense(width, w_init, name=name)
            if name != first:
                values = activation(values)
            if name != first or not products:
                values = layer.product(values)
            values = layer.shift(values)
        return values.T

    def mlp(images: Array) -> Array:
        return dense(images.reshape(len(images), -1).T, products=False)

    def cnn(images: Array) -> Array:
        values = images.transpose(3, 0, 1, 2)
        for i, (channels, stride) in enumerate(((16, 2), (32, 1))):
            layer = Conv(channels, 4, stride, w_init, name=f"conv_{i}")
            values = activation(layer(values))
        values = values.transpose(2, 3, 0, 1).reshape(-1, len(images))
        return dense(values, products=False)

    network = cnn if config.architecture == "cnn" else mlp
    victim = dataclasses.replace(
        from_haiku(network, image_shape=image_shape, num_classes=num_classes),
        tapped=_tapped(network),
    )
    if config.architecture == "cnn":
        form = cnn_forms.cnn(image_shape, activation, tuple(sizes))
        forms = {
            cnn_forms.WHOLE: None,
            cnn_forms.TOOM_COOK: form,
            PATCHES: cnn_forms.plain(victim.apply, cnn_forms.GPU_GROUP_SIZE),
        }
        return dataclasses.replace(victim, groups=form, forms=forms)
    after = hk.without_apply_rng(
        hk.transform(functools.partial(dense, products=True))
    ).apply
    groups = cnn_forms.plain(victim.apply, _ROWS)
    return dataclasses.replace(victim, first=FirstLayer(first, after), groups=groups)


def _tapped(
    network: Callable[[Array], Array],
) -> Callable[[Params, ArrayLike, Taps | None], tuple[Array, Taps]]:
    """See `Victim.tapped`; with taps of None the layers' outputs are returned."""

    def forward(images: Array, taps: Taps | None) -> tuple[Array, Taps]:
        seen: Taps = {}

        def tap(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
            output = call(*args, **kwargs)
            if context.method_name != "product":
                return output
            name = context.module.module_name
            if taps is None:
                seen[name] = output
                return output
            seen[name] = args[0]
            return output + taps[name]

        with hk.intercept_methods(tap):
            logits = network(images)
        return logits, seen

    apply = hk.without_apply_rng(hk.transform(forward)).apply
    return lambda params, images, taps: apply(params, jnp.asarray(images), taps)
