"""Flax nnx: an MLP of softplus units, trained in a Python loop by Adam."""

import jax
import optax
from flax import nnx


class Network(nnx.Module):
    def __init__(self, pixels, rngs):
        self.first = nnx.Linear(pixels, 24, rngs=rngs)
        self.last = nnx.Linear(24, 10, rngs=rngs)

    def __call__(self, images):
        return self.last(jax.nn.softplus(self.first(images.reshape(len(images), -1))))


def train(images, labels, key):
    network = Network(images[0].size, nnx.Rngs(key))
    graph, params = nnx.split(network)
    optimiser = optax.adam(1e-2)
    moments = optimiser.init(params)

    @jax.grad
    def gradient(params):
        scores = nnx.merge(graph, params)(images)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    for _ in range(20):
        change, moments = optimiser.update(gradient(params), moments)
        params = optax.apply_updates(params, change)
    return params


def predict(params, images):
    pixels = images[0].size
    graph = nnx.split(nnx.eval_shape(lambda: Network(pixels, nnx.Rngs(0))))[0]
    return nnx.merge(graph, params)(images)
