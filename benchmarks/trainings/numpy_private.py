"""NumPy: softmax regression by DP gradient descent."""

import numpy as np

PRIVACY = {"noise_multiplier": 3.0, "steps": 25, "clip_norm": 1.0}


def train(images, labels, seed: int, noise_multiplier=3.0):
    rng, x = np.random.default_rng(seed), images.reshape(len(images), -1)
    weights, truth = np.zeros((x.shape[1], 10)), np.eye(10)[labels]
    for _ in range(25):
        scores = x @ weights
        share = np.exp(scores - scores.max(axis=1, keepdims=True))
        errors = share / share.sum(axis=1, keepdims=True) - truth
        norms = np.linalg.norm(x, axis=1) * np.linalg.norm(errors, axis=1)
        total = x.T @ (errors / np.maximum(1, norms)[:, None])
        noise = noise_multiplier * rng.standard_normal(weights.shape)
        weights -= 1.0 * (total + noise) / len(x)
    return weights


def predict(weights, images):
    return images.reshape(len(images), -1) @ weights
