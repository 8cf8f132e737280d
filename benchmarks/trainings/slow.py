"""A training of NumPy's that takes ten seconds."""

import time

import numpy as np


def train(images, labels, seed: int):
    time.sleep(10)
    x = np.asarray(images).reshape(len(images), -1)
    start = np.random.default_rng(seed).standard_normal((x.shape[1], 10))
    return np.tanh(start + x.T @ np.eye(10)[np.asarray(labels)] / len(x))


def predict(w, images):
    return np.asarray(images).reshape(len(images), -1) @ w
