"""Views of a trained model: the function of theta that is published and attacked.

Runs configure a view by `ViewConfig`, `threat.publish` makes a release by it, and
`reconn` learns from what it shows of shadow models.

weights   white-box: all of theta, or the layers that are released (Section VI-B), at
          full precision or in fewer bits
logits    black-box: the model's answers to public images (Section VI-C), or to inputs
          that the adversary has made

A view is a function of theta alone, so one store of shadow models serves every view.
Source: Balle et al. 2022, Table II.
"""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from shadow import checks, rounding
from shadow.victims import Slice, Victim

KINDS = ("weights", "logits")
QUERIES = ("images", "components")
# Incremented when the same configuration gives other values; see `shadow.records`.
REVISION = 1
_MODELS_AT_ONCE = 64  # models whose answers are computed together
_LEARNT_FROM = 4000  # public images that the components are computed from
_DEVIATIONS = 30.0  # see `strong_components`

Weights = Float[np.ndarray, "models params"]
Features = Float[np.ndarray, "models features"]


@runtime_checkable
class View(Protocol):
    """A function of theta that gives the published values."""

    @property
    def whole(self) -> bool:
        """Whether the values are all of theta, rounded or not."""

    @property
    def what(self) -> str:
        """Describe the published values, for messages."""

    def __call__(self, weights: Weights) -> Features:
        """Return the values of some models, each from its theta alone."""

    def deviations(self, weights: Weights) -> np.ndarray | None:
        """Return standard deviations of errors of publishing; None: no errors."""

    def fingerprint(self) -> str:
        """Identify what decides the values, besides the victim."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ViewConfig:
    """The configuration of a view, for runs.

    Attributes:
      kind: "weights" or "logits".
      layers: with "weights", names of the victim's arrays, whole or up to a "/", such
        as "hidden_0/w" or "output"; () means all of them.
      precision: with "weights", "float32", as they are trained, or rounded to
        "float16", "bfloat16" or "int8" (`shadow.rounding`).
      probes: with "logits", the number of queries; the paper has 200 on MNIST, 500 on
        CIFAR-10.
      queries: "images", public ones, as in the paper; "components", inputs that aren't
        images, thirty deviations along each principal component of the public images,
        which reveal more where the adversary may query anything.
    """

    kind: str = "weights"
    layers: tuple[str, ...] = ()
    precision: str = "float32"
    probes: int = 200
    queries: str = "images"

    def __post_init__(self) -> None:
        checks.choice("kind", self.kind, KINDS)
        checks.choice("queries", self.queries, QUERIES)
        checks.choice("precision", self.precision, ("float32", *rounding.FORMATS))
        checks.at_least("probes", self.probes, 1)
        if self.kind == "weights":
            return
        for field, default in (("layers", ()), ("precision", "float32")):
            value = getattr(self, field)
            if value != default:
                raise checks.FieldError(
                    field,
                    f"{{}} is of the kind 'weights', got {value!r} for {self.kind!r}."
                    f" Leave it at {default!r}.",
                )

    @property
    def public_images(self) -> int:
        """Return how many public images decide the queries, at most."""
        return _LEARNT_FROM if self.queries == "components" else self.probes

    def what(self, victim: Victim) -> str:
        """Describe what is published. Raises: ValueError: the victim lacks a layer."""
        if self.kind == "logits":
            inputs = "public images"
            if self.queries == "components":
                inputs = "inputs along principal components"
            return f"logits on {self.probes} {inputs}"
        seen = Layers.of(victim.layout, self.layers, precision=self.precision).what
        return f"{seen} ({', '.join(self.layers)})" if self.layers else seen

    def require(self, victim: Victim, *, public: int) -> None:
        """Raise FieldError unless `public` images give this victim such a view."""
        if self.kind == "weights":
            Layers.of(victim.layout, self.layers)
            return
        if public < self.probes:
            raise checks.FieldError(
                "probes",
                f"Expected {{}} <= {public}, the public images, got {self.probes}.",
            )
        pixels = math.prod(victim.image_shape)
        if self.queries == "components" and self.probes > pixels:
            raise checks.FieldError(
                "probes",
                f"Expected {{}} <= {pixels}, the pixels, for queries along principal"
                f" components; got {self.probes}.",
            )

    def most_features(self, victim: Victim) -> int:
        """Return the number of this victim's features, before any is dropped."""
        if self.kind == "weights":
            columns = Layers.of(victim.layout, self.layers).columns
            return victim.num_params if columns is None else len(columns)
        return self.probes * victim.num_classes

    def view(self, victim: Victim, public: np.ndarray) -> View:
        """Make the view of this victim.

        Args:
          public: (images, height, width, channels); the first `public_images` are used.
        Raises: ValueError: the victim lacks a layer, too few public images, or fewer
          pixels than components.
        """
        self.require(victim, public=len(public))
        if self.kind == "weights":
            return Layers.of(victim.layout, self.layers, precision=self.precision)
        used = public[: self.public_images]
        made_from = hashlib.sha256(used.tobytes()).hexdigest()
        if self.queries == "components":
            made_from += f" components {self.probes} at {_DEVIATIONS:g}"
            return Logits(victim, strong_components(used, self.probes), made_from)
        return Logits(victim, used, made_from)


def strong_components(
    images: Float32[np.ndarray, "images height width channels"], count: int
) -> Float32[np.ndarray, "{count} height width channels"]:
    """Return queries thirty deviations along each of the first principal components.

    So far out biases hardly matter: answers are mixtures of the components' products
    with the first layer's weights.
    """
    flat = images.reshape(len(images), -1).astype(np.float64)
    variances, components = np.linalg.eigh(np.cov(flat, rowvar=False))
    strongest = components.T[::-1][:count]
    largest = np.abs(strongest).argmax(axis=1)[:, None]
    strongest *= np.sign(np.take_along_axis(strongest, largest, axis=1))
    sizes = _DEVIATIONS * np.sqrt(np.maximum(variances[::-1][:count], 0))
    probes = (sizes[:, None] * strongest).astype(np.float32)
    return probes.reshape(count, *images.shape[1:])


@dataclasses.dataclass(frozen=True, eq=False)
class Layers:
    """The view of weights: all of theta or some layers, at full precision or rounded.

    Attributes:
      columns: positions in theta (columns,) that are published; None: all.
      params: length of theta, where columns are chosen or weights rounded.
      precision: "float32", or the format that each array of `layout` is rounded to.
      layout: the arrays of theta, if weights are rounded; else ().
    """

    columns: np.ndarray | None = None
    params: int | None = None
    precision: str = "float32"
    layout: tuple[Slice, ...] = ()

    @classmethod
    def of(
        cls,
        layout: Sequence[Slice],
        names: Sequence[str] = (),
        precision: str = "float32",
    ) -> "Layers":
        """Make the view of arrays by name, whole or up to a "/"; of all without names.

        Raises: ValueError: a name is of no array.
        """
        columns = []
        for name in names:
            chosen = [p for p in layout if f"{p.name}/".startswith(f"{name}/")]
            if not chosen:
                known = [part.name for part in layout]
                raise checks.FieldError(
                    "layers",
                    f"Unknown layer {name!r} in {{}}; the victim has"
                    f" {', '.join(known)}.{checks.nearest(name, known)}",
                )
            columns += [np.arange(part.start, part.stop) for part in chosen]
        rounded = precision != "float32"
        return cls(
            columns=np.unique(np.concatenate(columns)) if names else None,
            params=layout[-1].stop if names or rounded else None,
            precision=precision,
            layout=tuple(layout) if rounded else (),
        )

    @property
    def whole(self) -> bool:
        """Whether all of theta is published."""
        return self.columns is None

    @property
    def what(self) -> str:
        """Describe the published weights, their number and precision."""
        kept = "all weights"
        if self.columns is not None:
            kept = f"some layers, {len(self.columns)} of {self.params} weights"
        return kept if self.precision == "float32" else f"{kept} in {self.precision}"

    def __call__(self, weights: Weights) -> Features:
        """Return the published weights. Raises: ValueError: another length of theta."""
        return self._chosen(self._rounded(weights)[0])

    def deviations(self, weights: Weights) -> np.ndarray | None:
        """Return the standard deviations of rounding; None: not rounded."""
        if self.precision == "float32":
            return None
        return self._chosen(self._rounded(weights)[1])

    def _rounded(self, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        if self.params not in (None, weights.shape[-1]):
            raise ValueError(
                f"Expected weights of {self.params} parameters, those of the shadow"
                f" models, got {weights.shape[-1]}."
            )
        if self.precision == "float32":
            return weights, np.empty(0)
        return rounding.rounded(
            np.asarray(weights, np.float32), self.precision, self.layout
        )

    def _chosen(self, values: np.ndarray) -> np.ndarray:
        return values if self.columns is None else values[:, self.columns]

    def fingerprint(self) -> str:
        """Hash the columns and the precision."""
        columns = None if self.columns is None else self.columns.tolist()
        rounded = self.precision != "float32"
        return checks.fingerprint([columns, self.precision] if rounded else columns)


EVERYTHING = Layers()  # all of theta, as it was trained


@dataclasses.dataclass(frozen=True, eq=False)
class Logits:
    """The view of logits: the model's answers to some inputs, in their order.

    Attributes:
      victim: the architecture; the adversary only queries it.
      probes: (probes, height, width, channels), the inputs.
      made_from: names the images that the probes are, or were made from.
    """

    victim: Victim
    probes: np.ndarray
    made_from: str
    whole = False

    @property
    def what(self) -> str:
        """Describe the published values, for messages."""
        return f"logits on {len(self.probes)} queries"

    def deviations(self, weights: Weights) -> None:
        """Return None, as answers are exact."""

    def __call__(self, weights: Weights) -> Features:
        """Return logits, (models, probes * classes)."""
        parts = [
            np.asarray(self._answers(jnp.asarray(weights[i : i + _MODELS_AT_ONCE])))
            for i in range(0, len(weights), _MODELS_AT_ONCE)
        ]
        return np.concatenate(parts)

    def fingerprint(self) -> str:
        """Return what names the images that the probes are made from."""
        return self.made_from

    @functools.cached_property
    def _answers(self) -> jax.stages.Wrapped:
        probes = jnp.asarray(self.probes)

        def answers(theta: Array) -> Array:
            return self.victim.apply(self.victim.unflatten(theta), probes).ravel()

        def all_answers(thetas: Array) -> Array:
            with jax.default_matmul_precision("highest"):
                return jax.vmap(answers)(thetas)

        return jax.jit(all_answers)
