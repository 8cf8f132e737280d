"""Make a user's training function one that the toolkit can attack: an algorithm A.

    train(images, labels, key) -> weights, as any tree of arrays

Users and audits (`informed.audit.subject`) make them. `JaxFunction` takes a function
that JAX can trace: it is batched and differentiated like the toolkit's A.
`PythonFunction` takes any other, such as one around scikit-learn or PyTorch; it runs
one model at a time in processes, and gets an integer as its key. The function's version
is part of every record, so that results of two versions are never mixed: by default a
hash of its source and of what it holds (`versions`), or a string of the user's choice.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from shadow import checks, on_cards
from shadow.data import Examples
from shadow.training.algorithm import AnyArray, Capabilities, Draw, joined
from shadow.training.roots import with_finite_slopes
from shadow.training.versions import source_hash
from shadow.victims import Slice

Train = Callable[[Any, Any, Any], Any]
_SEEDS = 2**31  # the range of seeds that other libraries take


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Function:
    """The common part of `JaxFunction` and `PythonFunction`."""

    train: Train
    key_is_public: bool = True
    version: str | None = None

    def __post_init__(self) -> None:
        if self.version is None:
            source_hash(self.train)  # refuses what has no file

    @property
    def configuration(self) -> dict[str, Any]:
        """The function's name, its current version, and who knows its key."""
        function = self.train
        while isinstance(function, functools.partial):
            function = function.func
        module, name, _ = checks.place(function)
        about = {
            "function": f"{module}.{name}",
            "version": self.version or source_hash(self.train),
            "public_key": self.key_is_public,
        }
        return {"algorithm": about}

    def _capable(self, **able: bool) -> Capabilities:
        everything = frozenset({"key"})
        public = everything if self.key_is_public else frozenset()
        return Capabilities(random=everything, public=public, **able)

    def initialise(self, key: Array) -> None:
        """Return None: the function makes theta_0 itself."""

    def quiet(self) -> "_Function":
        """Return the same A: it draws all noise from its key."""
        return self


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class JaxFunction(_Function):
    """A function of JAX as an algorithm A.

    Attributes:
      train: (images (examples, height, width, channels), labels (examples,), key) ->
        any PyTree of arrays. Pure: all its randomness comes from the key.
      key_is_public: whether all models share a public key, and so the initialisation;
        otherwise each model has another, secret key.
      version: names this version of `train`; None: a hash of its file, see `versions`.
      precision: the precision of its matrix products, as `jax.default_matmul_precision`
        takes it; None: the one in force when this is made, which is how the user
        trains. It is part of A: on a GPU, JAX's default rounds products to ten bits
        (TF32).
    Raises: ValueError: no version is given, and there is no file to hash.
    """

    precision: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision is None:
            in_force = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
            object.__setattr__(self, "precision", in_force or "default")
        try:
            with jax.default_matmul_precision(self.precision):
                pass
        except ValueError as error:
            raise checks.FieldError(
                "precision",
                "Expected {} as jax.default_matmul_precision takes it, such as"
                f" 'highest' or 'default', got {self.precision!r}.",
            ) from error

    @property
    def configuration(self) -> dict[str, Any]:
        """The function's name and version, who knows its key, and the precision."""
        about = super().configuration["algorithm"]
        return {"algorithm": {**about, "matmul_precision": self.precision}}

    @property
    def capabilities(self) -> Capabilities:
        """Batched and differentiable, like every function of JAX."""
        return self._capable(batched=True, differentiable=True)

    def layout(self, fixed: Examples) -> tuple[Slice, ...]:
        """Return the layout from shapes alone; nothing is trained."""
        count = len(fixed) + 1
        images = jax.ShapeDtypeStruct((count, *fixed.image_shape), jnp.float32)
        labels = jax.ShapeDtypeStruct((count,), jnp.int32)
        # Not the function itself, whose traces JAX keeps; see `roots`.
        try:
            shapes = jax.eval_shape(
                lambda *values: self.train(*values), images, labels, jax.random.key(0)
            )
        except jax.errors.JAXTypeError as error:
            raise checks.FieldError(
                "train",
                f"JAX can't trace {{}}: use PythonFunction. {checks.first_line(error)}",
            ) from error
        return layout_of(shapes)

    def own_key(self, key: Array) -> Array:
        """Return the key itself, which is what training takes."""
        return key

    def __call__(
        self,
        fixed: tuple[AnyArray, AnyArray],
        images: AnyArray,
        labels: AnyArray,
        draw: Draw,
    ) -> Array:
        """Run the user's function; see `Algorithm`."""
        with jax.default_matmul_precision(self.precision):
            # Adam's root has an infinite slope at a zero gradient; see `roots`.
            train = with_finite_slopes(self.train)
            trained = train(*joined(fixed, images, labels, jnp), draw.key)
        theta = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(trained)])
        allowed = "to return real numbers (complex ones as two arrays)"
        checks.require("train", theta.dtype, not jnp.iscomplexobj(theta), allowed)
        return theta


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PythonFunction(_Function):
    """Any Python function as an algorithm A, run in worker processes.

    Attributes:
      train: (images (examples, height, width, channels) float32, labels (examples,)
        int32, key, an int) -> any tree of arrays or tensors: lists, tuples, dicts.
      key_is_public, version: as in `JaxFunction`.
      deterministic: whether equal arguments give equal weights; otherwise weights are
        averaged over runs, and no attack is exact.
      on_cards: whether it trains on a GPU. Then there is one process per card, which
        sees no other card; otherwise one per core.
    Raises: ValueError: no version is given, and there is no file to hash.
    """

    deterministic: bool = True
    on_cards: bool = False
    _layouts: dict[Any, tuple[Slice, ...]] = dataclasses.field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def capabilities(self) -> Capabilities:
        """Neither batched nor differentiable; the fields say the rest."""
        return self._capable(deterministic=self.deterministic, on_cards=self.on_cards)

    def layout(self, fixed: Examples) -> tuple[Slice, ...]:
        """Find the layout by one training, on the fixed set D_- and its first point."""
        # Only these may decide the sizes of a model's arrays.
        kind = len(fixed), fixed.image_shape, fixed.num_classes
        if kind not in self._layouts:
            data = fixed.joined(fixed.take(slice(0, 1)))
            arguments = data.images, data.labels, 0
            if self.on_cards:
                trained = on_cards.run(self.train, [arguments])[0]
            else:
                trained = self.train(*arguments)
            self._layouts[kind] = layout_of(trained)
        return self._layouts[kind]

    def own_key(self, key: Array) -> int:
        """Convert a JAX key to an integer in [0, 2**31)."""
        return int(jax.random.bits(key, dtype=jnp.uint32)) % _SEEDS

    def __call__(
        self,
        fixed: tuple[AnyArray, AnyArray],
        images: AnyArray,
        labels: AnyArray,
        draw: Draw,
    ) -> np.ndarray:
        """See `Algorithm`. Raises: RuntimeError: the function raised."""
        data = joined(
            fixed, np.asarray(images, np.float32), np.asarray(labels, np.int32), np
        )
        try:
            trained = self.train(*data, draw.key)
        except Exception as error:
            name = getattr(self.train, "__qualname__", "train")
            raise RuntimeError(
                f"The training function {name} raised {type(error).__name__}: {error}"
            ) from error
        leaves = [np.ravel(_array(leaf)) for leaf in jax.tree.leaves(trained)]
        return np.concatenate(leaves)


def layout_of(trained: Any) -> tuple[Slice, ...]:
    """Return the slices of theta for a tree of arrays, in the order of its leaves."""
    paths, _ = jax.tree_util.tree_flatten_with_path(trained)
    layout, start = [], 0
    for path, leaf in paths:
        shape = tuple(np.shape(leaf if hasattr(leaf, "shape") else _array(leaf)))
        size = int(np.prod(shape))
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "theta"
        layout.append(Slice(name, start, start + size, shape))
        start += size
    if not start:
        raise ValueError("Expected the training function to return arrays, got none.")
    return tuple(layout)


def _array(leaf: Any) -> np.ndarray:
    """Return a leaf as an array of numbers, also a tensor that tracks gradients."""
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().cpu()
        leaf = (leaf.float() if "bfloat16" in str(leaf.dtype) else leaf).numpy()
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiub":
        raise ValueError(
            "Expected the training function to return a tree of arrays of numbers,"
            f" found {type(leaf).__name__}."
        )
    return array
