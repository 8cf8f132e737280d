"""Lengths of gradients of users' networks, against the gradients themselves."""

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dp import ghost_norms, gradient
from dp.ghost_norms import Gradients


def squared_lengths(loss, params, examples):
    first = jax.tree.map(lambda leaf: leaf[0], examples)
    gradients = Gradients(loss, params, first)
    return jax.vmap(lambda one: gradients.squared_length(gradients(one)))(examples)


class Dense(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.relu(nn.Dense(7)(nn.gelu(nn.Dense(7)(x)))))


class Convolutional(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3))(x.reshape(6, 6, 1)))
        x = nn.LayerNorm()(nn.max_pool(x, (2, 2), (2, 2)))
        return nn.Dense(3)(x.ravel())


class Shared(nn.Module):
    """The second layer is used twice, and the third on several positions."""

    @nn.compact
    def __call__(self, x):
        twice = nn.Dense(6)
        x = nn.Dense(6)(x)
        x = twice(jnp.tanh(twice(x)))
        return nn.Dense(3)(x.reshape(2, 3)).sum(axis=0)


def of_flax(module):
    return jax.jit(module.init)(jax.random.key(0), np.ones(36)), module.apply


def of_haiku():
    net = hk.without_apply_rng(
        hk.transform(lambda x: hk.Linear(3)(jnp.tanh(hk.Linear(5)(x))))
    )
    return jax.jit(net.init)(jax.random.key(0), np.ones(36)), net.apply


def of_equinox():
    mlp = eqx.nn.MLP(36, 3, 8, 2, key=jax.random.key(0))
    params, rest = eqx.partition(mlp, eqx.is_array)
    return params, lambda params, x: eqx.combine(params, rest)(x)


def by_hand():
    """A transposed matrix, one that is scaled before its use, and a tied pair."""
    rng = np.random.default_rng(0)
    shapes = {"transposed": (9, 36), "scaled": (9, 4), "tied": (4, 4)}
    params = {name: rng.normal(size=shape) for name, shape in shapes.items()}

    def apply(params, x):
        hidden = jnp.tanh(x @ params["transposed"].T)
        hidden = hidden @ (2 * params["scaled"])
        return params["tied"].T @ jnp.tanh(params["tied"] @ hidden)

    return params, apply


# How many arrays are measured without their gradient.
NETWORKS = {
    "dense": (lambda: of_flax(Dense()), 3),
    "convolutional": (lambda: of_flax(Convolutional()), 1),
    "shared": (lambda: of_flax(Shared()), 1),
    "Haiku": (of_haiku, 2),
    "Equinox": (of_equinox, 3),
    "by hand": (by_hand, 1),
}


EXAMPLES = np.random.default_rng(1).normal(size=(5, 36)), np.arange(5) % 3


def losses_of(apply):
    def loss(params, example):
        x, label = example
        return -jax.nn.log_softmax(apply(params, x))[label]

    return loss


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("together", [1 << 22, 90])
def test_lengths_and_sums_are_those_of_the_gradients(name, together, monkeypatch):
    monkeypatch.setattr(gradient, "_ENTRIES", together)
    make, measured = NETWORKS[name]
    with jax.enable_x64(True):
        params, apply = make()
        params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        loss = losses_of(apply)
        first = jax.tree.map(lambda leaf: leaf[0], EXAMPLES)
        assert len(ghost_norms.traced(loss, params, first)[1]) == measured
        squared = jax.jit(squared_lengths, static_argnums=0)(loss, params, EXAMPLES)
        total = jax.tree.map(np.zeros_like, params)
        middle, slope = np.sqrt(np.median(squared)), jax.jit(jax.grad(loss))
        for i in range(5):
            example = jax.tree.map(lambda leaf: leaf[i], EXAMPLES)  # noqa: B023
            gradients = slope(params, example)
            expected = sum(float(jnp.sum(g**2)) for g in jax.tree.leaves(gradients))
            np.testing.assert_allclose(squared[i], expected, rtol=1e-10)
            scale = min(1.0, middle / np.sqrt(expected))
            total = jax.tree.map(lambda t, g: t + scale * g, total, gradients)  # noqa: B023
        clipped = jax.jit(
            lambda params: gradient.clipped_sum_traced(
                loss, params, EXAMPLES, clip_norm=middle
            )
        )(params)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12),
            clipped,
            total,
        )


def test_a_long_gradient_whose_slope_squares_to_zero_is_long():
    """In float32 the square of 1e-30 is 0; times 1e40 the gradient isn't."""

    def loss(w, x):
        return 1e-30 * (x @ w)[0]

    w, x = jnp.ones((2, 1)), jnp.full((1, 2), 1e20)
    squared = squared_lengths(loss, w, x)
    np.testing.assert_allclose(squared, 2e-20, rtol=1e-5)


def test_an_infinite_gradient_is_not_called_short():
    def loss(w, x):
        return jnp.sqrt(x @ w)[0]

    w, x = jnp.zeros((2, 1)), jnp.ones((3, 2))
    assert not np.isfinite(squared_lengths(loss, w, x)).any()


def test_models_side_by_side_have_their_own_lengths():
    """As the factory trains them: under vmap, with a trace inside it."""
    params, apply = of_haiku()
    loss = losses_of(apply)
    many = jax.tree.map(lambda p: np.stack([p, 2 * p]), params)
    examples = jax.tree.map(jnp.asarray, EXAMPLES)

    @jax.jit
    def of_model(params):
        return squared_lengths(loss, params, examples)

    together = jax.jit(jax.vmap(of_model))(many)
    for i in range(2):
        alone = of_model(jax.tree.map(lambda p: p[i], many))  # noqa: B023
        np.testing.assert_allclose(together[i], alone, rtol=1e-5)
