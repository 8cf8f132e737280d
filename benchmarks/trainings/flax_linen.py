"""Flax linen: an MLP, full batches, SGD with momentum."""

import jax
import optax
from flax import linen as nn


class Network(nn.Module):
    @nn.compact
    def __call__(self, images):
        return nn.Dense(10)(nn.relu(nn.Dense(24)(images.reshape(len(images), -1))))


network, optimiser = Network(), optax.sgd(0.1, momentum=0.9)


def train(images, labels, key):
    params = network.init(key, images[:1])

    def loss(params):
        scores = network.apply(params, images)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    def step(state, _):
        change, moments = optimiser.update(jax.grad(loss)(state[0]), state[1])
        return (optax.apply_updates(state[0], change), moments), None

    return jax.lax.scan(step, (params, optimiser.init(params)), length=50)[0][0]


def predict(params, images):
    return network.apply(params, images)
