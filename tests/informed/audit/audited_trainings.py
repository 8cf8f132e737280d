"""Trainings that several tests audit."""

import dataclasses
import time

import jax
import numpy as np

from informed.audit import auditing
from informed.audit.auditing import AuditConfig

SOURCE = """
import jax
import jax.numpy as jnp

def train(images, labels, key):
    x = images.reshape(len(images), -1)
    start = jax.random.normal(key, (x.shape[1], 10)) / 8
    def step(w, _):
        slope = x.T @ (jax.nn.softmax(x @ w) - jax.nn.one_hot(labels, 10))
        return w - 0.5 * slope / len(x), None
    return {"w": jax.lax.scan(step, start, length=5)[0]}
"""


def linear(images, labels, key):
    x = images.reshape(len(images), -1)
    start = jax.random.normal(key, (x.shape[1], 10)) / 8

    def step(w, _):
        slope = x.T @ (jax.nn.softmax(x @ w) - jax.nn.one_hot(labels, 10))
        return w - 0.5 * slope / len(x), None

    return jax.lax.scan(step, start, length=5)[0]


def slow_numpy(images, labels, seed: int):
    time.sleep(0.2)
    images = np.asarray(images)
    return images.reshape(len(images), -1).sum(axis=0) + seed


def check(train, data="digits", predict=None, privacy=None, **config):
    """The pre-flight of a training."""
    settings = AuditConfig(**{"targets": 2, "fixed": 20, "minutes": 1.0, **config})
    given = {"predict": predict, "privacy": privacy, "version": "1"}
    return auditing.check(train, data, **dataclasses.asdict(settings), **given)
