"""Full-batch training in the span of the data, for victims with a dense first layer.

`gradient_descent` calls `train` where `pays` says that it is less work;
`informed.attacks.inversion.span_derivatives` calls all but `train`. Gradient descent,
with or without momentum and weight decay, moves the first layer's weights only by
combinations of training images:

    W = c W_0 + X^T A + Z^T a        X: the fixed set (n, pixels), Z: targets

so A (n, units), a and c can be trained instead of W, by the same optimiser, since it is
linear: the gradient of A is the gradient of the loss in the products X W. An epoch
then needs one matrix product with the Gram matrix X X^T, n x n x units, instead of two
of n x pixels x units. On MNIST at a fixed set of 1,000 that is 1.4 times as fast, and
weights end 6e-8 from a float64 run, those of the plain form 4e-8 (root mean square).

A target then affects training only through its inner products with the fixed set, the
initial weights and itself (`Products`). The derivatives of training that inversion
needs rest on this.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from shadow.victims import FirstLayer, Params


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Products:
    """Inner products, the inputs of training in the span; or a tangent of them.

    Attributes:
      start: (units, fixed), W_0^T X^T.
      target_start: (units, targets), W_0^T Z^T.
      cross: (targets, fixed), Z X^T.
      target_gram: (targets, targets), Z Z^T.
    """

    start: Any
    target_start: Any
    cross: Any
    target_gram: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Coefficients:
    """The victim's parameters in the span of the data, or a tangent of them.

    Attributes:
      scale: (), c.
      fixed: (units, fixed), A^T.
      targets: (units, targets), a^T.
      rest: the parameters but for the first layer's weights.
    """

    scale: Any
    fixed: Any
    targets: Any
    rest: Params


def pays(num_fixed: int, num_pixels: int) -> bool:
    """Return whether one Gram product is less work than two products with the data."""
    return num_fixed < 2 * num_pixels


def train(
    first: FirstLayer,
    optimise: optax.GradientTransformation,
    *,
    epochs: int,
    init: Params,
    images: Float[Array, "fixed pixels"],
    targets: Float[Array, "targets pixels"],
    fixed_loss: Callable[[Array], Array],
    target_loss: Callable[[Array], Array],
) -> Params:
    """Return the parameters after full-batch steps on fixed_loss + target_loss.

    Args:
      optimise: any optimiser that is linear by `shadow.training.linearity`, which isn't
        checked here.
      init: parameters of the victim, from which training starts.
      images, targets: flattened X and Z.
      fixed_loss, target_loss: logits (examples, classes) -> their share of the loss.
    """
    w, rest = split_first(first, init)
    gram = images @ images.T
    trained = coefficients(
        first,
        optimise,
        epochs=epochs,
        rest=rest,
        products=products(w, images, targets),
        multiply=lambda fixed: fixed @ gram,
        fixed_loss=fixed_loss,
        target_loss=target_loss,
    )
    moved = images.T @ trained.fixed.T + targets.T @ trained.targets.T
    return join_first(first, trained.scale * w + moved, trained.rest)


def products(
    w: Float[Array, "pixels units"],
    images: Float[Array, "fixed pixels"],
    targets: Float[Array, "targets pixels"],
) -> Products:
    """Compute inner products of initial weights, fixed set and targets."""
    return Products(
        start=w.T @ images.T,
        target_start=w.T @ targets.T,
        cross=targets @ images.T,
        target_gram=targets @ targets.T,
    )


def split_first(first: FirstLayer, params: Params) -> tuple[Array, Params]:
    """Return the first layer's weights (pixels, units), and all other parameters."""
    rest = {module: dict(arrays) for module, arrays in params.items()}
    return rest[first.name].pop("w"), rest


def join_first(first: FirstLayer, w: Any, rest: Params) -> Params:
    """Put the first layer back; the inverse of `split_first`."""
    params = {module: dict(arrays) for module, arrays in rest.items()}
    params[first.name]["w"] = w
    return params


def coefficients(
    first: FirstLayer,
    optimise: optax.GradientTransformation,
    *,
    epochs: int,
    rest: Params,
    products: Products,
    multiply: Callable[[Array], Array],
    fixed_loss: Callable[[Array], Array],
    target_loss: Callable[[Array], Array],
) -> Coefficients:
    """Return what training on inner products alone gives; arguments as of `train`, and:

    Args:
      rest: initial parameters but for the first layer's weights.
      multiply: A^T (units, fixed) -> A^T X X^T.
    """
    units, num_fixed = products.start.shape
    dtype = products.start.dtype
    theta = Coefficients(
        scale=jnp.ones((), dtype),
        fixed=jnp.zeros((units, num_fixed), dtype),
        targets=jnp.zeros((units, len(products.cross)), dtype),
        rest=rest,
    )

    def loss(rest: Params, of_fixed: Array, of_targets: Array) -> Array:
        return fixed_loss(first.after(rest, of_fixed)) + target_loss(
            first.after(rest, of_targets)
        )

    def step(state: Any, _: None) -> tuple[Any, None]:
        theta, optimiser_state = state
        of_fixed = (
            theta.scale * products.start
            + multiply(theta.fixed)
            + theta.targets @ products.cross
        )
        of_targets = (
            theta.scale * products.target_start
            + theta.fixed @ products.cross.T
            + theta.targets @ products.target_gram
        )
        slopes = jax.grad(loss, argnums=(0, 1, 2))(theta.rest, of_fixed, of_targets)
        gradient = Coefficients(
            scale=jnp.zeros_like(theta.scale),
            fixed=slopes[1],
            targets=slopes[2],
            rest=slopes[0],
        )
        change, optimiser_state = optimise.update(gradient, optimiser_state, theta)
        return (optax.apply_updates(theta, change), optimiser_state), None

    state = (theta, optimise.init(theta))
    (theta, _), _ = jax.lax.scan(step, state, length=epochs)
    return theta
