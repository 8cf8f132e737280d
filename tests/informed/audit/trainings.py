"""Trainings that several tests audit."""

import jax


def linear(images, labels, key):
    x = images.reshape(len(images), -1)
    start = jax.random.normal(key, (x.shape[1], 10)) / 8

    def step(w, _):
        slope = x.T @ (jax.nn.softmax(x @ w) - jax.nn.one_hot(labels, 10))
        return w - 0.5 * slope / len(x), None

    return jax.lax.scan(step, start, length=5)[0]
