"""Audit training with noise (DP-SGD, jax-privacy's clipping): attack and bound.

    informed audit examples/audit_private.py:train --data digits --fixed 200 \\
        --targets 10 --out audit.html
"""

import jax
import jax.numpy as jnp
import optax
from jax_privacy import clipping

import informed
from dp import gradient

STEPS, CLIP_NORM, HIDDEN = 40, 1.0, 16
PRIVACY = {"noise_multiplier": 4.0, "steps": STEPS, "clip_norm": CLIP_NORM}


def predict(params, images):
    hidden = jnp.tanh(images.reshape(len(images), -1) @ params["w"] + params["b"])
    return hidden @ params["v"]


def loss(params, batch):
    images, labels = batch
    logits = predict(params, images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def train(images, labels, key, *, noise_multiplier=PRIVACY["noise_multiplier"]):
    """Full batches; the sum of clipped gradients, plus noise, over a public size."""
    first, second, noise_key = jax.random.split(key, 3)
    pixels = images[0].size
    params = {
        "w": jax.random.normal(first, (pixels, HIDDEN)) / 8,
        "b": jnp.zeros(HIDDEN),
        "v": jax.random.normal(second, (HIDDEN, 10)) / 4,
    }
    clipped = clipping.clipped_grad(
        loss, l2_clip_norm=CLIP_NORM, batch_argnums=1, keep_batch_dim=True
    )

    def step(params, key):
        total = clipped(params, (images, labels))
        # Plain float32 noise reveals more than its epsilon says.
        noisy = gradient.add_noise(key, total, noise_multiplier * CLIP_NORM)
        return jax.tree.map(lambda p, s: p - 2.0 * s / len(images), params, noisy), None

    return jax.lax.scan(step, params, jax.random.split(noise_key, STEPS))[0]


def main(minutes=8.0, targets=10):
    return informed.audit(train, "digits", predict=predict, privacy=PRIVACY,
                          fixed=200, targets=targets, minutes=minutes)  # fmt: skip


if __name__ == "__main__":
    print(main().save("audit_private.html"))
