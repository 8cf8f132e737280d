"""Derivatives of training in the span of the data.

For full-batch gradient descent with a dense first layer. There a target z matters
through X z, W_0^T z and z^T z alone (`shadow.training.span`). X z varies in few
directions, so `rank + units + 1` tangents give all columns of the Jacobian: 111 instead
of 784 on MNIST, each with a product of rank `rank` in place of the Gram matrix. What is
neglected is second order in the neglected standard deviations of the data; on MNIST at
a fixed set of 1,000 and rank 100 the largest eigenvalue of the Jacobian's relative
error is 0.2.
"""

import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from informed.attacks.inversion import response
from informed.attacks.inversion.regression import Local
from informed.attacks.inversion.response import Response, Target
from informed.attacks.inversion.retraining import Labels, Unknowns
from shadow.parallel import BY_ROW, EVERYWHERE, sharded
from shadow.training import GradientDescent, span_losses
from shadow.training import span as gram
from shadow.victims import Params

# Tangents on one device, at most: half of MNIST's.
_TOGETHER = 56
# Memory that the tangents of one device may take, in bytes.
_BYTES = 1 << 30
# Arrays of the size of the coefficients that a tangent takes, by estimate.
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


class Span:
    """Derivatives of A in the span of the data."""

    def __init__(
        self,
        algorithm: GradientDescent,
        start: Array,
        data: tuple[Array, Array],
        *,
        rank: int,
    ) -> None:
        """Prepare the programs; nothing is trained yet.

        Args:
          algorithm: full-batch gradient descent on a victim with a dense first layer.
          start: (params,), theta_0.
          data: images and labels of D_-, on all devices.
          rank: number of leading directions of the images.
        """
        victim = algorithm.victim
        assert victim.first is not None
        first = victim.first
        self._victim, self._first = victim, first
        self._w, rest = gram.split_first(first, victim.unflatten(start))
        assert victim.first_weights is not None
        self._rows = victim.first_weights.columns
        images, labels = data
        flat = images.reshape(len(images), -1)
        each = _ARRAYS * flat.dtype.itemsize * len(flat) * self._w.shape[1]
        self._together = min(_TOGETHER, max(1, _BYTES // each))
        self._flat = np.asarray(flat, np.float64)
        _, directions = np.linalg.eigh(self._flat.T @ self._flat)
        self._lead = directions.T[::-1][:rank]
        thin = jnp.asarray(self._flat @ self._lead.T, flat.dtype)
        # The Gram matrix where it is less work than two products with the data.
        with jax.default_matmul_precision("highest"):
            square = flat @ flat.T if gram.pays(*flat.shape) else None
        optimise = algorithm.optimise

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
                    epochs=algorithm.epochs,
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

        def shares(data: tuple, products: gram.Products, labels: Array) -> Array:
            return trained(data, products, labels).targets

        self._data = (flat, labels, thin, square, rest)
        self._shares = jax.jit(shares)
        self._columns = sharded(
            columns, (EVERYWHERE,) * 3 + (BY_ROW,), (EVERYWHERE, BY_ROW)
        )
        self._optimise, self._epochs = optimise, algorithm.epochs

    def starting(self, start: Array) -> "Span":
        """The same programs from another theta_0."""
        other = copy.copy(self)
        other._w, rest = gram.split_first(self._first, self._victim.unflatten(start))
        other._data = (*self._data[:-1], rest)
        other.__dict__.pop("_response", None)
        return other

    @functools.cached_property
    def _response(self) -> Response | None:
        """How D_- answers, where that is made faster."""
        flat, labels, *_, rest = self._data
        size = len(self._lead) * self._w.shape[1]
        others = sum(leaf.size for leaf in jax.tree.leaves(rest))
        if not response.pays(len(flat), size, others, self._epochs):
            return None
        return Response(
            self._first,
            self._optimise,
            epochs=self._epochs,
            w=self._w,
            rest=rest,
            images=flat,
            labels=labels,
            lead=self._lead,
        )

    @property
    def by_response(self) -> bool:
        """Whether derivatives along one unknown point are by how D_- answers."""
        return self._response is not None

    def slopes(self, images: Unknowns, labels: Labels, basis: np.ndarray) -> np.ndarray:
        """See `Retraining.slopes`."""
        lead = basis if len(basis) <= len(self._lead) else self._lead
        if len(images) == 1 and self.by_response:
            columns, targets = self._by_response(images, labels, lead)
        else:
            columns, targets = self._by_training(images, labels, lead)
        flat = images.reshape(len(images), -1).astype(np.float64)
        mixture = self._mixture(flat, basis, lead)
        return columns.T @ mixture + self._through_shares(basis, targets).T

    def local(
        self, images: Unknowns, labels: Labels, basis: np.ndarray
    ) -> Local | None:
        """The known part of the slopes, and the features that the rest depends on.

        The share z^T a of the first layer's weights moves with z, whatever the kinks;
        all else moves with the inner products, fewer numbers than pixels.
        """
        if len(basis) <= len(self._lead):
            return None
        flat = images.reshape(len(images), -1).astype(np.float64)
        targets = np.asarray(
            self._shares(
                self._data, self._products(images), jnp.asarray(labels, jnp.int32)
            ),
            np.float64,
        )
        mixture = self._mixture(flat, basis, self._lead)
        known = self._through_shares(basis, targets)
        return Local(mixture.T / self._sizes(len(images), basis), known)

    def _sizes(self, unknown: int, basis: np.ndarray) -> np.ndarray:
        """How far a move of size 1 along all of basis moves each tangent."""
        mean = np.tile(self._flat.mean(axis=0), (unknown, 1))
        sizes = np.linalg.norm(self._mixture(mean, basis, self._lead), axis=1)
        return np.maximum(sizes, _LEAST_SIZE * sizes.max())

    def _products(self, images: Unknowns) -> gram.Products:
        flat = jnp.asarray(images.reshape(len(images), -1), self._data[0].dtype)
        with jax.default_matmul_precision("highest"):
            return gram.products(self._w, self._data[0], flat)

    def _by_training(
        self, images: Unknowns, labels: Labels, lead: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slopes of theta through the inner products alone, (tangents, params), and a.

        The images by which coefficients are multiplied are held still.
        """
        flat = images.reshape(len(images), -1).astype(np.float64)
        target_labels = jnp.asarray(labels, jnp.int32)
        products = self._products(images)
        tangents = self._tangents(lead, len(flat))
        parts = []
        for block in zip(*self._in_blocks(tangents), strict=True):
            at = gram.Products(
                start=jnp.zeros(
                    (len(block[0]), *products.start.shape), products.start.dtype
                ),
                cross=block[0],
                target_start=block[1],
                target_gram=block[2],
            )
            value, part = self._columns(self._data, products, target_labels, at)
            parts.append(jax.tree.map(np.asarray, part))
        slopes = _joined(parts, len(tangents[0]))
        moved = slopes.fixed.reshape(-1, len(self._flat)) @ self._flat
        moved += slopes.targets.reshape(-1, len(flat)) @ flat
        moved = moved.reshape(*slopes.fixed.shape[:2], -1)
        return self._thetas(moved, slopes.rest), np.asarray(value.targets, np.float64)

    def _by_response(
        self, images: Unknowns, labels: Labels, lead: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`_by_training` for one unknown point, by the answer of D_- (`response`)."""
        assert self._response is not None
        flat = jnp.asarray(images.reshape(-1), self._data[0].dtype)
        units = self._w.shape[1]
        count = len(lead) + units + 1
        along = np.zeros((count, len(self._lead)))
        along[: len(lead)] = lead @ self._lead.T
        starts = np.zeros((count, units))
        starts[len(lead) : -1] = np.eye(units)
        squares = np.zeros(count)
        squares[-1] = 1
        parts = []
        for block in zip(*self._in_blocks((along, starts, squares)), strict=True):
            label = jnp.asarray(labels[0], jnp.int32)
            value, part = self._response.columns(flat, label, Target(*block))
            parts.append(part)
        slopes = _joined(parts, count)
        moved = slopes.fixed @ self._lead
        moved += slopes.target[:, :, None] * np.asarray(flat, np.float64)
        rest = self._response.others(slopes.rest)
        return self._thetas(moved, rest), value[:, None].astype(np.float64)

    def _in_blocks(self, tangents: tuple[np.ndarray, ...]) -> list[list[Array]]:
        """Tangents in blocks of one size, in quarters of what memory allows.

        Each size is compiled once.
        """
        quarter = -(-self._together // 4) * jax.local_device_count()
        size = quarter * min(4, -(-len(tangents[0]) // quarter))
        return [in_blocks(part, size, self._data[0].dtype) for part in tangents]

    def _thetas(self, moved: np.ndarray, rest: Params) -> np.ndarray:
        """Join changes of W^T (tangents, units, pixels) with those of all others."""
        whole = gram.join_first(self._first, moved.transpose(0, 2, 1), rest)
        leaves = [np.reshape(leaf, (len(moved), -1)) for leaf in jax.tree.leaves(whole)]
        return np.concatenate(leaves, axis=1)

    def _tangents(
        self, lead: np.ndarray, unknown: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Directions (cross, target_start, target_gram) of the inner products.

        There is one per lead and point, one per unit and point, one per pair of points.
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

    def _through_shares(self, basis: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """How Z^T a moves as the points alone do, (columns, params)."""
        unknown = targets.shape[1]
        known = np.zeros((unknown, len(basis), self._victim.num_params))
        for point in range(unknown):
            direct = basis[:, :, None] * targets[:, point]
            known[point][:, self._rows] = direct.reshape(len(basis), -1)
        return known.reshape(-1, known.shape[-1])


def _joined(parts: list, count: int) -> Any:
    """Join trees of blocks in float64, without the zeros that fill up the last."""
    return jax.tree.map(
        lambda *leaves: np.concatenate(leaves)[:count].astype(np.float64), *parts
    )


def in_blocks(tangents: np.ndarray, size: int, dtype: Any) -> list[Array]:
    """Cut along the first axis into blocks of one size, filled up with zeros."""
    missing = -len(tangents) % size
    padded = np.concatenate([tangents, np.zeros((missing, *tangents.shape[1:]))])
    parts = padded.reshape(-1, size, *tangents.shape[1:])
    return [jnp.asarray(part, dtype) for part in parts]
