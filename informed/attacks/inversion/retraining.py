"""A as the adversary runs it: unknown points in, theta and its derivatives out.

Derivatives are those of the whole training run. Three ways to them:

slopes, plain     forward mode; one run carries a block of tangents, so memory is a
                  block of optimiser states, whatever the number of epochs
slopes, in span   for full-batch gradient descent with a dense first layer. There a
                  target z matters through X z, W_0^T z and z^T z alone.
                  X z varies in few directions, so `rank + units + 1` tangents give all
                  columns of the Jacobian: 111 instead of 784 on MNIST, each with a
                  product of rank `rank` in place of the Gram matrix. What is neglected
                  is second order in the neglected standard deviations of the data; on
                  MNIST at a fixed set of 1,000 and rank 100 the largest eigenvalue of
                  the Jacobian's relative error is 0.2.
pushes, pulls     single products with the Jacobian and its transpose, for large victims
                  and images; reverse mode keeps one optimiser state an epoch

Randomness of A that the adversary isn't told is drawn by themselves, `draws` times, and
theta is the mean over the draws. The noise of private training is left out instead: its
effect is the same on average, to first order, and the draws serve to measure its size.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from informed.threat import Knowledge
from shadow.training import Algorithm, algorithm, optimiser, span_losses, spans
from shadow.training import span as gram

Images = Float[np.ndarray, "unknown height width channels"]
Labels = Int[np.ndarray, " unknown"]


class Retraining:
    """The adversary's copy of A; see the module's docstring."""

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        tangents: int,
        rank: int,
        width: int,
        draws: int,
        key: Array,
    ) -> None:
        """Compile nothing yet; check what is known.

        Args:
          knowledge: needs fixed, victim and training.
          tangents: derivatives carried by one training run.
          rank: of the data in derivatives in span.
          width: points trained at once.
          draws: of randomness that isn't told.
          key: for the draws.
        Raises: ValueError: a fact that it needs is None.
        """
        needed = ("fixed", "victim", "training")
        missing = [name for name in needed if getattr(knowledge, name) is None]
        if missing:
            raise ValueError(
                f"Retraining needs to be told {', '.join(missing)}; this adversary"
                " isn't."
            )
        assert knowledge.fixed is not None
        assert knowledge.victim is not None
        assert knowledge.training is not None
        self.victim, self.training = knowledge.victim, knowledge.training
        self._rank = rank
        self._devices = jax.local_device_count()
        self._tangents = tangents * self._devices
        self._width = -(-width // self._devices) * self._devices
        dtype = jnp.result_type(float)  # float64 where JAX has it enabled
        told = knowledge.initialisation
        order = knowledge.shuffling_key
        privacy = self.training.privacy
        ordered = self.training.batch_size is not None
        ordered |= privacy.sampling_probability < 1
        averaged = told is None or (ordered and order is None)
        self.random = averaged or privacy.noise_multiplier > 0
        init = None if told is None else jnp.asarray(told, dtype)
        keys = jax.random.split(key, draws if self.random else 1)
        train = algorithm(self.victim, self.training)
        quiet = dataclasses.replace(
            self.training, privacy=dataclasses.replace(privacy, noise_multiplier=0.0)
        )
        train_quietly = algorithm(self.victim, quiet)
        victim = self.victim

        def one(
            data: tuple,
            images: Array,
            labels: Array,
            draw: Array,
            train: Algorithm = train_quietly,
        ) -> Array:
            start_key, order_key, noise_key = jax.random.split(draw, 3)
            if init is None:
                start = victim.init(start_key)
                start = jax.tree.map(lambda leaf: leaf.astype(dtype), start)
            else:
                start = victim.unflatten(init)
            fixed = data
            if len(images) > 1:  # all but the last lie at the end of the fixed set
                fixed = (
                    jnp.concatenate([data[0], images[:-1]]),
                    jnp.concatenate([data[1], labels[:-1]]),
                )
            shuffle = order_key if order is None else order
            return victim.flatten(
                train(start, fixed, (images[-1], labels[-1]), shuffle, noise_key)
            )

        def draws_of(data: tuple, images: Array, labels: Array) -> Array:
            noisy = functools.partial(one, train=train)
            runs = jax.vmap(noisy, in_axes=(None, None, None, 0))
            return runs(data, images, labels, keys)

        def theta(data: tuple, images: Array, labels: Array) -> Array:
            if averaged:
                runs = jax.vmap(one, in_axes=(None, None, None, 0))
                return runs(data, images, labels, keys).mean(axis=0)
            return one(data, images, labels, keys[0])

        def columns(
            data: tuple, images: Array, labels: Array, tangents: Array
        ) -> tuple[Array, Array]:
            return jax.vmap(
                lambda t: jax.jvp(lambda z: theta(data, z, labels), (images,), (t,)),
                out_axes=(None, 0),
            )(tangents)

        def pull(data: tuple, images: Array, labels: Array, slope: Array) -> Array:
            return jax.vjp(lambda z: theta(data, z, labels), images)[1](slope)[0]

        mesh = Mesh(np.array(jax.local_devices()), ("runs",))
        everywhere, by_run = PartitionSpec(), PartitionSpec("runs")

        def sharded(function: Callable, ins: tuple, outs: object) -> Callable:
            return jax.jit(
                jax.shard_map(
                    function, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False
                )
            )

        self._data = jax.device_put(
            (
                jnp.asarray(knowledge.fixed.images, dtype),
                jnp.asarray(knowledge.fixed.labels),
            ),
            NamedSharding(mesh, everywhere),
        )
        self._dtype = dtype
        self._many = sharded(
            jax.vmap(theta, in_axes=(None, 0, 0)), (everywhere, by_run, by_run), by_run
        )
        self._columns = sharded(
            columns, (everywhere,) * 3 + (by_run,), (everywhere, by_run)
        )
        self._draws, self._pull = jax.jit(draws_of), jax.jit(pull)
        self._sharded, self._init = sharded, init

    @functools.cached_property
    def _span(self) -> "_Span | None":
        if spans(self.victim, self.training) and self._init is not None:
            return _Span(self, self.victim.unflatten(self._init), self._sharded)
        return None

    def thetas(
        self,
        images: Float[np.ndarray, "points unknown height width channels"],
        labels: Int[np.ndarray, "points unknown"],
    ) -> Float[np.ndarray, "points params"]:
        """Train with each of several values of the unknown points."""
        found = []
        for start in range(0, len(images), self._width):
            rows = np.arange(start, start + self._width)
            rows = np.minimum(rows, len(images) - 1)
            found.append(
                np.asarray(
                    self._many(
                        self._data,
                        jnp.asarray(images[rows], self._dtype),
                        jnp.asarray(labels[rows], jnp.int32),
                    ),
                    np.float64,
                )
            )
        return np.concatenate(found)[: len(images)]

    def draws(
        self, images: Images, labels: Labels
    ) -> Float[np.ndarray, "draws params"]:
        """Theta under each draw of the randomness that isn't told."""
        return np.asarray(
            self._draws(self._data, *self._cast(images, labels)), np.float64
        )

    def slopes(
        self, images: Images, labels: Labels, basis: Float[np.ndarray, "m pixels"]
    ) -> Float[np.ndarray, "params columns"]:
        """Derivatives of theta as the unknown points move along `basis`.

        Returns: (params, unknown * m), the columns of the first point first.
        """
        if self._span is not None:
            return self._span.slopes(images, labels, basis)
        unknown = len(images)
        tangents = np.zeros((unknown, len(basis), unknown, basis.shape[1]))
        for point in range(unknown):
            tangents[point, :, point] = basis
        tangents = tangents.reshape(-1, *images.shape)
        cast = self._cast(images, labels)
        found = []
        for block in self._blocks(tangents):
            part = self._columns(self._data, *cast, block)[1]
            found.append(np.asarray(part, np.float64))
        return np.concatenate(found)[: len(tangents)].T

    def pulls(
        self, images: Images, labels: Labels, slope: Float[np.ndarray, " params"]
    ) -> Images:
        """The transposed Jacobian times `slope`: a gradient with respect to images."""
        cast = self._cast(images, labels)
        pulled = self._pull(self._data, *cast, jnp.asarray(slope, self._dtype))
        return np.asarray(pulled, np.float64)

    def pushes(
        self, images: Images, labels: Labels, tangent: Images
    ) -> Float[np.ndarray, " params"]:
        """The Jacobian times one direction."""
        block = np.zeros((self._devices, *tangent.shape))
        block[0] = tangent
        cast = self._cast(images, labels)
        pushed = self._columns(self._data, *cast, jnp.asarray(block, self._dtype))[1]
        return np.asarray(pushed[0], np.float64)

    def never_lit(self) -> Bool[np.ndarray, " pixels"]:
        """Pixels that are zero in all of D_- and have weights of their own."""
        images = np.asarray(self._data[0])
        dark = ~images.reshape(len(images), -1).any(axis=0)
        known = self.victim.first is not None and not self.random
        return np.asarray(dark & known)

    def weights_of(
        self, pixels: Bool[np.ndarray, " pixels"]
    ) -> Bool[np.ndarray, " params"]:
        """Weights of the first layer that some pixels have for themselves."""
        marked = np.zeros(self.victim.num_params, bool)
        if pixels.any():
            columns, shape = self._first_weights()
            marked[columns] = np.broadcast_to(pixels[:, None], shape).ravel()
        return marked

    def pixels_of(
        self, weights: Bool[np.ndarray, " params"]
    ) -> Bool[np.ndarray, " pixels"]:
        """Pixels with at least one of these weights in the first layer."""
        columns, shape = self._first_weights()
        return np.asarray(weights[columns].reshape(shape).any(axis=1))

    def _first_weights(self) -> tuple[slice, tuple[int, ...]]:
        assert self.victim.first is not None
        name = f"{self.victim.first.name}/w"
        part = next(part for part in self.victim.layout if part.name == name)
        return slice(part.start, part.stop), part.shape

    def _cast(self, images: np.ndarray, labels: np.ndarray) -> tuple[Array, Array]:
        return jnp.asarray(images, self._dtype), jnp.asarray(labels, jnp.int32)

    def _blocks(self, tangents: np.ndarray) -> list[Array]:
        """Cut along the first axis into blocks of one size, filled up with zeros."""
        missing = -len(tangents) % self._tangents
        padded = np.concatenate([tangents, np.zeros((missing, *tangents.shape[1:]))])
        parts = padded.reshape(-1, self._tangents, *tangents.shape[1:])
        return [jnp.asarray(part, self._dtype) for part in parts]


@jax.custom_jvp
def _multiply(fixed: Array, images: Array, thin: Array) -> Array:
    """A^T X X^T from X X^T, or from an X of more rows; its derivative from a thin X."""
    del thin
    if images.shape[0] == images.shape[1]:
        return fixed @ images
    return (fixed @ images) @ images.T


@_multiply.defjvp
def _multiply_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    thin = primals[2]
    return _multiply(*primals), (tangents[0] @ thin) @ thin.T


class _Span:
    """Derivatives of A in the span of the data."""

    def __init__(self, owner: Retraining, init: gram.Params, sharded: Callable) -> None:
        victim, training = owner.victim, owner.training
        assert victim.first is not None
        first = victim.first
        self._owner, self._first = owner, first
        self._w, rest = gram.split_first(first, init)
        images, labels = owner._data
        flat = images.reshape(len(images), -1)
        self._flat = np.asarray(flat, np.float64)
        _, directions = np.linalg.eigh(self._flat.T @ self._flat)
        self._lead = directions.T[::-1][: owner._rank]
        self._rows, _ = owner._first_weights()
        thin = jnp.asarray(self._flat @ self._lead.T, flat.dtype)
        # The Gram matrix where it is less work than two products with the data.
        square = flat @ flat.T if gram.pays(*flat.shape) else None
        optimise = optimiser(training)

        def trained(
            data: tuple, products: gram.Products, target_labels: Array
        ) -> gram.Coefficients:
            flat, labels, thin, square, rest = data
            images = flat if square is None else square
            fixed_loss, target_loss = span_losses(labels, target_labels)
            with jax.default_matmul_precision("highest"):
                return gram.coefficients(
                    first,
                    optimise,
                    epochs=training.epochs,
                    rest=rest,
                    products=products,
                    multiply=lambda fixed: _multiply(fixed, images, thin),
                    fixed_loss=fixed_loss,
                    target_loss=target_loss,
                )

        def columns(
            data: tuple, products: gram.Products, labels: Array, tangents: gram.Products
        ) -> tuple[gram.Coefficients, gram.Coefficients]:
            return jax.vmap(
                lambda t: jax.jvp(
                    lambda p: trained(data, p, labels), (products,), (t,)
                ),
                out_axes=(None, 0),
            )(tangents)

        everywhere, by_run = PartitionSpec(), PartitionSpec("runs")
        self._data = (flat, labels, thin, square, rest)
        self._columns = functools.partial(
            sharded(
                columns,
                (everywhere,) * 3 + (by_run,),
                (everywhere, by_run),
            ),
            self._data,
        )

    def slopes(self, images: Images, labels: Labels, basis: np.ndarray) -> np.ndarray:
        """See `Retraining.slopes`."""
        flat, target_labels = self._owner._cast(images.reshape(len(images), -1), labels)
        unknown = len(flat)
        with jax.default_matmul_precision("highest"):
            products = gram.products(self._w, self._data[0], flat)
        lead = basis if len(basis) <= len(self._lead) else self._lead
        tangents = self._tangents(lead, unknown)
        blocks = [self._owner._blocks(part) for part in tangents]
        parts = []
        for block in zip(*blocks, strict=True):
            at = gram.Products(
                start=jnp.zeros((len(block[0]), *products.start.shape), flat.dtype),
                cross=block[0],
                target_start=block[1],
                target_gram=block[2],
            )
            value, part = self._columns(products, target_labels, at)
            parts.append(jax.tree.map(np.asarray, part))
        count = len(tangents[0])
        slopes = jax.tree.map(
            lambda *leaves: np.concatenate(leaves)[:count].astype(np.float64), *parts
        )
        return self._assemble(
            np.asarray(flat, np.float64),
            basis,
            self._columns_of(slopes, np.asarray(flat, np.float64)),
            self._mixture(np.asarray(flat, np.float64), basis, lead),
            np.asarray(value.targets, np.float64),
        )

    def _tangents(
        self, lead: np.ndarray, unknown: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Directions (cross, target_start, target_gram) of the inner products.

        One a lead and point, one a unit and point, one a pair of points.
        """
        num_fixed, units = len(self._flat), self._w.shape[1]
        pairs = [(i, j) for i in range(unknown) for j in range(i, unknown)]
        count = unknown * (len(lead) + units) + len(pairs)
        cross = np.zeros((count, unknown, num_fixed))
        starts = np.zeros((count, units, unknown))
        squares = np.zeros((count, unknown, unknown))
        row = 0
        for point in range(unknown):
            cross[row : row + len(lead), point] = lead @ self._flat.T
            row += len(lead)
        for point in range(unknown):
            starts[row : row + units, :, point] = np.eye(units)
            row += units
        for i, j in pairs:
            squares[row, i, j] = squares[row, j, i] = 1
            row += 1
        return cross, starts, squares

    def _mixture(
        self, flat: np.ndarray, basis: np.ndarray, lead: np.ndarray
    ) -> np.ndarray:
        """(tangents, columns): how each column of the Jacobian moves the products."""
        unknown, m = len(flat), len(basis)
        w = np.asarray(self._w, np.float64)
        onto = np.eye(m) if lead is basis else lead @ basis.T
        blocks = [
            np.kron(np.eye(unknown), onto),
            np.kron(np.eye(unknown), (basis @ w).T),
        ]
        along = basis @ flat.T  # (m, unknown): z_j^T basis
        pairs = []
        for i in range(unknown):
            for j in range(i, unknown):
                row = np.zeros((unknown, m))
                row[i] += along[:, j]
                row[j] += along[:, i]
                pairs.append(row.ravel())
        return np.concatenate([*blocks, np.stack(pairs)])

    def _columns_of(self, slopes: gram.Coefficients, flat: np.ndarray) -> np.ndarray:
        """Slopes of theta (tangents, params), the images themselves held still."""
        count = len(slopes.scale)
        moved = slopes.fixed.reshape(-1, len(self._flat)) @ self._flat
        moved += slopes.targets.reshape(-1, len(flat)) @ flat
        by_pixel = moved.reshape(count, -1, flat.shape[1]).transpose(0, 2, 1)
        whole = gram.join_first(self._first, by_pixel, slopes.rest)
        leaves = [np.reshape(leaf, (count, -1)) for leaf in jax.tree.leaves(whole)]
        return np.concatenate(leaves, axis=1)

    def _assemble(
        self,
        flat: np.ndarray,
        basis: np.ndarray,
        columns: np.ndarray,
        mixture: np.ndarray,
        targets: np.ndarray,
    ) -> np.ndarray:
        """The Jacobian: through the inner products, and through Z^T a itself."""
        jacobian = columns.T @ mixture
        for point in range(len(flat)):
            direct = basis.T[:, None, :] * targets[:, point][None, :, None]
            first = point * len(basis)
            jacobian[self._rows, first : first + len(basis)] += direct.reshape(
                -1, len(basis)
            )
        return jacobian
