"""Cheap derivatives of trained weights in the target, in the span of the data.

This is for full-batch gradient descent with a dense first layer of weights W, starting
at W_0, on known images X. A target z matters only through X z, W_0^T z and z^T z
(`shadow.training.gram_form`). X z varies in few directions, so `rank + units + 1`
tangents give all columns of the Jacobian: 111 instead of 784 on MNIST. Neglected terms
are of second order in the neglected standard deviations of the data: on MNIST at a
fixed set of 1,000 and rank 100, the largest eigenvalue of the Jacobian's relative error
is 0.2. W ends at c W_0 + X^T A + z a^T; c is from weight decay, A and a are the
*coefficients* of known images and target. `derivatives` calls it where it applies.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from informed.attacks.inversion import response
from informed.attacks.inversion.cloud_regression import Local
from informed.attacks.inversion.response import Response, Target
from informed.attacks.inversion.retraining import Basis, Labels, Leading, Unknowns
from shadow.parallel import BY_ROW, EVERYWHERE, sharded
from shadow.training import GradientDescent
from shadow.training import gram_form as gram
from shadow.victims import Params

_Parts = tuple[np.ndarray, np.ndarray]
# Largest number of tangents on one device: half of MNIST's.
_TOGETHER = 56
# Memory for the tangents of one device, in bytes.
_BYTES = 1 << 30
# Estimated memory of a tangent, in arrays of the size of the coefficients.
_ARRAYS = 24
# Least size of a direction of inner products, relative to the largest.
_LEAST_SIZE = 1e-3


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


class SpanPrograms:
    """Derivatives in the span of the data, compiled for all initialisations."""

    def __init__(
        self, algorithm: GradientDescent, data: tuple[Array, Array], *, rank: int
    ) -> None:
        """Prepare the programs; nothing is trained yet.

        `data` are images and labels of D_-, on all devices; `rank` is the number of
        leading directions of the images.
        """
        self.victim = algorithm.victim
        assert self.victim.first is not None
        self.optimise, self.epochs = algorithm.optimise, algorithm.epochs
        images, labels = data
        flat = images.reshape(len(images), -1)
        self.flat = np.asarray(flat, np.float64)
        _, directions = np.linalg.eigh(self.flat.T @ self.flat)
        self.lead = directions.T[::-1][:rank]  # (rank, pixels), orthonormal
        thin = jnp.asarray(self.flat @ self.lead.T, flat.dtype)
        # Use the Gram matrix if it is less work than two products with the data.
        with jax.default_matmul_precision("highest"):
            square = flat @ flat.T if gram.pays(*flat.shape) else None
        self.data = (flat, labels, thin, square)
        first, optimise, epochs = self.victim.first, self.optimise, self.epochs

        def trained(data: tuple, products: Any, target_labels: Array) -> Any:
            """Train on D_- and the targets, given all inner products."""
            flat, labels, thin, square, rest = data
            images = flat if square is None else square
            with jax.default_matmul_precision("highest"):
                return gram.coefficients(
                    first,
                    optimise,
                    epochs=epochs,
                    rest=rest,
                    products=products,
                    multiply=lambda fixed: _multiply(fixed, images, thin),
                    labels=labels,
                    target_labels=target_labels,
                )

        def columns(data: tuple, products: Any, labels: Array, tangents: Any) -> Any:
            """Differentiate the coefficients along tangents of the inner products."""
            of_products = functools.partial(trained, data, target_labels=labels)
            return response.columns_of(of_products, products, tangents)

        self.shares = jax.jit(lambda *arguments: trained(*arguments).targets)  # a
        on_devices = (EVERYWHERE,) * 3 + (BY_ROW,)
        self.columns = sharded(columns, on_devices, (EVERYWHERE, BY_ROW))


class Span:
    """Derivatives in the span of the data, from one initialisation."""

    def __init__(self, programs: SpanPrograms, start: Array) -> None:
        """Prepare for the initialisation theta_0, `start` (params,)."""
        self.programs = programs
        self._flat, self._lead = programs.flat, programs.lead
        victim = programs.victim
        assert victim.first is not None
        self._first = victim.first
        self._w, rest = gram.split_first(victim.first, victim.unflatten(start))
        self.data = (*programs.data, rest)

    @functools.cached_property
    def response(self) -> Response | None:
        """The linear response of D_- (`response`); None: not faster."""
        flat, labels, *_, rest = self.data
        size = len(self._lead) * self._w.shape[1]
        others = sum(leaf.size for leaf in jax.tree.leaves(rest))
        epochs = self.programs.epochs
        if not response.pays(len(flat), size, others, epochs):
            return None
        loss_of = self._first, self.programs.optimise, epochs
        return Response(*loss_of, self._w, rest, flat, labels, self._lead)

    def slopes(self, images: Unknowns, labels: Labels, basis: Basis) -> np.ndarray:
        """Differentiate theta as `Retraining.slopes` says."""
        lead = basis if len(basis) <= len(self._lead) else self._lead
        if len(images) == 1 and self.response is not None:
            columns, targets = self._by_response(images, labels, lead)
        else:
            columns, targets = self._by_training(images, labels, lead)
        flat = images.reshape(len(images), -1).astype(np.float64)
        mixture = self._mixture(flat, basis, lead)
        slopes = columns.T @ mixture
        self._add_through_shares(slopes, basis, targets)
        return slopes

    def local(self, images: Unknowns, labels: Labels, basis: Basis) -> Local | None:
        """Return the known part of the slopes, and the features of the rest.

        The part z a^T of the first layer's weights moves with z, regardless of kinks.
        All else depends on the inner products, which are fewer than the pixels.
        """
        if len(basis) <= len(self._lead):
            return None
        flat = images.reshape(len(images), -1).astype(np.float64)
        arguments = self._products(images), jnp.asarray(labels, jnp.int32)
        targets = self.programs.shares(self.data, *arguments)
        known = np.zeros((self.programs.victim.num_params, len(images) * len(basis)))
        self._add_through_shares(known, basis, np.asarray(targets, np.float64))
        # Scale each feature by its change at the mean image per unit move along basis.
        mean = np.tile(self._flat.mean(axis=0), (len(images), 1))
        sizes = np.linalg.norm(self._mixture(mean, basis, self._lead), axis=1)
        sizes = np.maximum(sizes, _LEAST_SIZE * sizes.max())
        return Local(self._mixture(flat, basis, self._lead).T / sizes, known.T)

    def _products(self, images: Unknowns) -> gram.Products:
        flat = jnp.asarray(images.reshape(len(images), -1), self.data[0].dtype)
        with jax.default_matmul_precision("highest"):
            return gram.products(self._w, self.data[0], flat)

    def _by_training(self, images: Unknowns, labels: Labels, lead: Leading) -> _Parts:
        """Return slopes through the inner products, (tangents, params), and a."""
        flat = images.reshape(len(images), -1).astype(np.float64)
        target_labels = jnp.asarray(labels, jnp.int32)
        products = self._products(images)
        tangents = self._tangents(lead, len(flat))
        parts = []
        for cross, target_start, target_gram in zip(
            *self._in_blocks(tangents), strict=True
        ):
            at = gram.Products(
                start=jnp.zeros((len(cross), *products.start.shape), cross.dtype),
                cross=cross,
                target_start=target_start,
                target_gram=target_gram,
            )
            value, part = self.programs.columns(self.data, products, target_labels, at)
            parts.append(jax.tree.map(np.asarray, part))
        slopes = _joined(parts, len(tangents[0]))
        moved = slopes.fixed.reshape(-1, len(self._flat)) @ self._flat
        moved += slopes.targets.reshape(-1, len(flat)) @ flat
        moved = moved.reshape(*slopes.fixed.shape[:2], -1)
        return self._thetas(moved, slopes.rest), np.asarray(value.targets, np.float64)

    def _by_response(self, images: Unknowns, labels: Labels, lead: Leading) -> _Parts:
        """Like `_by_training`, for one point, by the response of D_- (`response`)."""
        assert self.response is not None
        flat = jnp.asarray(images.reshape(-1), self.data[0].dtype)
        units = self._w.shape[1]
        count = len(lead) + units + 1
        along = np.zeros((count, len(self._lead)))
        along[: len(lead)] = lead @ self._lead.T
        starts = np.zeros((count, units))
        starts[len(lead) : -1] = np.eye(units)
        squares = np.zeros(count)
        squares[-1] = 1
        label = jnp.asarray(labels[0], jnp.int32)
        parts = []
        for block in zip(*self._in_blocks((along, starts, squares)), strict=True):
            value, part = self.response.columns(flat, label, Target(*block))
            parts.append(part)
        slopes = _joined(parts, count)
        moved = slopes.fixed @ self._lead
        moved += slopes.target[:, :, None] * np.asarray(flat, np.float64)
        rest = jax.vmap(self.response.unravel)(slopes.rest)
        return self._thetas(moved, rest), value[:, None].astype(np.float64)

    def _in_blocks(self, tangents: tuple[np.ndarray, ...]) -> list[list[Array]]:
        """Split tangents into blocks that fit memory, of few sizes to compile."""
        flat = self.data[0]
        bytes_each = _ARRAYS * flat.dtype.itemsize * len(flat) * self._w.shape[1]
        together = min(_TOGETHER, max(1, _BYTES // bytes_each))
        quarter = -(-together // 4) * jax.local_device_count()
        size = quarter * min(4, -(-len(tangents[0]) // quarter))
        return [in_blocks(part, size, flat.dtype) for part in tangents]

    def _thetas(self, moved: np.ndarray, rest: Params) -> np.ndarray:
        """Join changes of W^T (tangents, units, pixels) and of all other parameters."""
        params = gram.join_first(self._first, moved.transpose(0, 2, 1), rest)
        leaves = [np.reshape(x, (len(moved), -1)) for x in jax.tree.leaves(params)]
        return np.concatenate(leaves, axis=1)

    def _tangents(self, lead: Leading, unknown: int) -> tuple[np.ndarray, ...]:
        """Return directions (cross, target_start, target_gram) of inner products."""
        size, units, points = len(lead), self._w.shape[1], np.arange(unknown)
        i, j = np.triu_indices(unknown)
        count = unknown * (size + units) + len(i)
        cross = np.zeros((count, unknown, len(self._flat)))
        by_point = cross[: unknown * size].reshape(unknown, size, unknown, -1)
        by_point[points, :, points] = lead @ self._flat.T
        starts = np.zeros((count, units, unknown))
        by_point = starts[unknown * size : count - len(i)]
        by_point = by_point.reshape(unknown, units, units, unknown)
        by_point[points, :, :, points] = np.eye(units)
        squares, rows = np.zeros((count, unknown, unknown)), np.arange(-len(i), 0)
        squares[rows, i, j] = squares[rows, j, i] = 1
        return cross, starts, squares

    def _mixture(self, flat: np.ndarray, basis: Basis, lead: Leading) -> np.ndarray:
        """Return (tangents, columns): how columns of the Jacobian move products."""
        points, w = np.eye(len(flat)), np.asarray(self._w, np.float64)
        onto = np.eye(len(basis)) if lead is basis else lead @ basis.T
        along = (basis @ flat.T).T  # (unknown, columns): z_j^T basis
        i, j = np.triu_indices(len(flat))
        pairs, rows = np.zeros((len(i), *along.shape)), np.arange(len(i))
        pairs[rows, i] += along[j]
        pairs[rows, j] += along[i]
        pairs = pairs.reshape(len(i), -1)
        return np.concatenate(
            [np.kron(points, onto), np.kron(points, (basis @ w).T), pairs]
        )

    def _add_through_shares(
        self, slopes: np.ndarray, basis: np.ndarray, targets: np.ndarray
    ) -> None:
        """Add to slopes (params, columns) those of z a^T in the points, a constant."""
        assert self.programs.victim.first_weights is not None
        part, (pixels, units) = self.programs.victim.first_weights
        by_point = slopes[part].reshape(pixels, units, -1, len(basis))
        for unit, point in np.ndindex(targets.shape):
            by_point[:, unit, point] += basis.T * targets[unit, point]


def _joined(parts: list, count: int) -> Any:
    """Join trees of blocks in float64, without the padding of the last."""
    return jax.tree.map(
        lambda *leaves: np.concatenate(leaves)[:count].astype(np.float64), *parts
    )


def in_blocks(tangents: np.ndarray, size: int, dtype: Any) -> list[Array]:
    """Split into blocks of one size, padded with zeros."""
    missing = -len(tangents) % size
    padded = np.concatenate([tangents, np.zeros((missing, *tangents.shape[1:]))])
    parts = padded.reshape(-1, size, *tangents.shape[1:])
    return [jnp.asarray(part, dtype) for part in parts]
