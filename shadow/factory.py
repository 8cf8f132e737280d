"""The shadow-model factory: the training algorithm A over thousands of targets.

Models are trained in batches of fixed width under `vmap`, one batch a device. The fixed
set and a shared initialisation are single arrays for all of them. A short batch is
filled up, so the compiled program and with it a model's bits never depend on how many
models, or which, it is trained with; on another number of cores or devices, or at
another width, weights agree to float32 rounding. Memory doesn't grow with the number of
models: blocks leave for the store as soon as they are done.

Who knows which randomness: the key splits into a public part, from which come the
shared initialisation and a known order of mini-batches, and one private stream a role
(shadow or released), from which come those that the adversary can't know, the noise of
private training among them.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float32
from tqdm import tqdm

from shadow import checks, devices
from shadow.data import Examples
from shadow.store import ShadowStore
from shadow.training import Fixed, TrainingConfig, algorithm
from shadow.victims import Params, Victim

ROLES = ("shadow", "released")
_LARGE = ("dot_general", "conv_general_dilated", "concatenate")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Factory:
    """Trains models of one role on D_- + z for many z.

    Attributes:
      victim, training: what is trained, and how.
      fixed: the fixed set D_-.
      key: root of all randomness of training; see the module's docstring.
      role: "shadow" (the adversary's models) or "released" (those under attack).
      width: models trained at once on one device; None chooses it from the machine
        (`models_per_batch`). It changes weights only within float32 rounding.
    """

    victim: Victim
    training: TrainingConfig
    fixed: Examples
    key: Array
    role: str = "shadow"
    width: int | None = None

    def __post_init__(self) -> None:
        checks.choice("role", self.role, ROLES)
        width = self.width
        if width is None:
            width = models_per_batch(self.victim, self.training, len(self.fixed))
            object.__setattr__(self, "width", width)
        checks.at_least("width", width, 1)
        self._check(self.fixed)
        object.__setattr__(self, "_compiled", _compile(self))

    @property
    def order_key(self) -> Array:
        """The public key of the order of mini-batches, where that is public."""
        return known_shuffling_key(self.key)

    @property
    def models_at_once(self) -> int:
        """Models trained at once on all local devices."""
        assert self.width is not None  # chosen when made
        return self.width * jax.local_device_count()

    def train(
        self,
        targets: Examples,
        *,
        ids: np.ndarray | None = None,
        bar: tqdm | None = None,
    ) -> Float32[np.ndarray, "models params"]:
        """Train one model a target.

        Args:
          targets: one z a model, at least one.
          ids: (models,), the numbers of the models, by default 0, 1, ...; private
            randomness depends on them, so that a model is the same whatever call it is
            trained in.
          bar: progress bar, moved on by the models done.
        Returns: theta of each model.
        Raises:
          FloatingPointError: training diverged (NaN or infinite weights).
          ValueError: no targets, or images or classes that aren't the victim's.
        """
        if not len(targets):
            raise ValueError("Expected at least one target to train a model on.")
        self._check(targets)
        if ids is None:
            ids = np.arange(len(targets))
        blocks = []
        for start in range(0, len(targets), self.models_at_once):
            stop = min(start + self.models_at_once, len(targets))
            # The last target is repeated to fill the batch; its copies are dropped.
            rows = np.minimum(np.arange(start, start + self.models_at_once), stop - 1)
            weights = self._compiled(  # type: ignore[attr-defined]
                targets.images[rows],
                targets.labels[rows],
                ids[rows].astype(np.int32),
            )
            blocks.append(np.asarray(weights)[: stop - start])
            if bar is not None:
                bar.update(stop - start)
        trained = np.concatenate(blocks)
        diverged = ~np.isfinite(trained).all(axis=1)
        if diverged.any():
            raise FloatingPointError(
                f"Training diverged for {diverged.sum()} of {len(trained)} {self.role}"
                f" models, such as number {ids[diverged.argmax()]}. Lower"
                " learning_rate."
            )
        return trained

    def fill(
        self,
        store: ShadowStore,
        targets: Examples,
        *,
        progress: bool = True,
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        """Train every block that the store lacks, and commit each when it is done.

        Where more models are trained at once than a block holds, several blocks are.

        Args:
          store: of as many models as there are targets.
          targets: all of them; each block takes its own slice.
          progress: show a bar with models/s and the time left.
          on_block: called after each commit.
        """
        missing = store.missing()
        rows_of = {block: np.arange(*store.block_range(block)) for block in missing}
        together = max(1, self.models_at_once // store.manifest["block_size"])
        with tqdm(
            total=len(targets),
            initial=len(targets) - sum(map(len, rows_of.values())),
            desc=f"{self.role} models",
            unit=" models",
            disable=None if progress else True,
        ) as bar:
            for first in range(0, len(missing), together):
                blocks = missing[first : first + together]
                ids = np.concatenate([rows_of[block] for block in blocks])
                part = targets.take(ids)
                weights = self.train(part, ids=ids, bar=bar)
                start = 0
                for block in blocks:
                    rows = slice(start, start + len(rows_of[block]))
                    start = rows.stop
                    store.write_block(
                        block, weights[rows], part.images[rows], part.labels[rows]
                    )
                    on_block()

    def _check(self, examples: Examples) -> None:
        """Images and classes have to be the victim's."""
        if examples.image_shape != self.victim.image_shape:
            raise ValueError(
                f"Expected images of shape {self.victim.image_shape} for this victim,"
                f" got {examples.image_shape} in {examples.name}."
            )
        if examples.num_classes != self.victim.num_classes:
            raise ValueError(
                f"Expected {self.victim.num_classes} classes, those of this victim, got"
                f" {examples.num_classes} in {examples.name}."
            )


def shared_initialisation(victim: Victim, key: Array) -> Params:
    """The public initialisation that a factory with this key shares among models."""
    return victim.init(_public_keys(key)[0])


def known_shuffling_key(key: Array) -> Array:
    """The public key of the order of mini-batches."""
    return _public_keys(key)[1]


def models_per_batch(victim: Victim, training: TrainingConfig, num_fixed: int) -> int:
    """How many models to train at once on one device, a power of two.

    On a CPU the activations of the batch may take twice a core's second-level cache
    (measured: 16 models of Table V at a fixed set of 1,000 beat 8 and 64); on an
    accelerator an eighth of its memory, up to 512 models.
    """
    images = min(training.batch_size or num_fixed, num_fixed)
    of_one = 4 * images * _activation_units(victim)
    if jax.default_backend() == "cpu":
        budget, most = 2 * devices.cache_bytes(), 64
    else:
        stats = jax.local_devices()[0].memory_stats() or {}
        budget, most = stats.get("bytes_limit", 8 << 30) // 8, 512
    fitting = max(1, min(most, budget // max(of_one, 1)))
    return 1 << (fitting.bit_length() - 1)


def _activation_units(victim: Victim) -> int:
    """Outputs of all large operations of the victim for one image."""
    images = jax.ShapeDtypeStruct((1, *victim.image_shape), jnp.float32)
    params = jax.eval_shape(victim.init, jax.random.key(0))
    jaxpr = jax.make_jaxpr(victim.apply)(params, images)
    return sum(
        math.prod(equation.outvars[0].aval.shape)
        for equation in jaxpr.jaxpr.eqns
        if equation.primitive.name in _LARGE
    )


def _public_keys(key: Array) -> Array:
    """Keys that the adversary is told: (initialisation, shuffling)."""
    return jax.random.split(jax.random.fold_in(key, 0), 2)


def _compile(factory: Factory) -> Callable[..., Array]:
    """The batch program: (images, labels, ids), one a model -> weights."""
    victim, training = factory.victim, factory.training
    train = algorithm(victim, training)
    shared = shared_initialisation(victim, factory.key)
    known = known_shuffling_key(factory.key)
    private = jax.random.fold_in(factory.key, 1 + ROLES.index(factory.role))

    def one(fixed: Fixed, image: Array, label: Array, number: Array) -> Array:
        own = jax.random.fold_in(private, number)
        init_key, shuffle_key, noise_key = jax.random.split(own, 3)
        init = shared if training.initialisation == "shared" else victim.init(init_key)
        key = known if training.order_is_public else shuffle_key
        return victim.flatten(train(init, fixed, (image, label), key, noise_key))

    mesh = Mesh(np.array(jax.local_devices()), ("models",))
    everywhere, by_model = PartitionSpec(), PartitionSpec("models")
    program = jax.jit(
        jax.shard_map(
            jax.vmap(one, in_axes=(None, 0, 0, 0)),
            mesh=mesh,
            in_specs=(everywhere, by_model, by_model, by_model),
            out_specs=by_model,
            check_vma=False,  # the scan's carry starts shared and ends one a model
        )
    )
    fixed = jax.device_put(
        (factory.fixed.images, factory.fixed.labels), NamedSharding(mesh, everywhere)
    )
    return functools.partial(program, fixed)
