"""Audit a Flax model on MNIST: Adam, mini-batches, an order that the key decides.

    informed audit examples/audit_flax.py:train --data mnist --fixed 1000 \\
        --targets 10 --out audit.html
"""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

import informed

EPOCHS, BATCH = 8, 143  # 1,001 records are 7 batches


class Network(nn.Module):
    @nn.compact
    def __call__(self, images):
        x = nn.tanh(nn.Dense(32)(images.reshape(len(images), -1)))
        return nn.Dense(10)(x)


network = Network()


def train(images, labels, key):
    init_key, order_key = jax.random.split(key)
    params = network.init(init_key, images[:1])
    optimiser = optax.adam(3e-3)

    def loss(params, batch):
        logits = network.apply(params, images[batch])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels[batch])
        return losses.mean()

    def step(state, batch):
        params, moments = state
        change, moments = optimiser.update(jax.grad(loss)(params, batch), moments)
        return (optax.apply_updates(params, change), moments), None

    keys = jax.random.split(order_key, EPOCHS)
    steps = len(images) // BATCH
    orders = jnp.stack([jax.random.permutation(k, len(images)) for k in keys])
    batches = orders[:, : steps * BATCH].reshape(EPOCHS * steps, BATCH)
    return jax.lax.scan(step, (params, optimiser.init(params)), batches)[0][0]


def predict(params, images):
    return network.apply(params, images)


def main(minutes=12.0, targets=10):
    return informed.audit(train, "mnist", predict=predict, fixed=1000,
                          targets=targets, minutes=minutes)  # fmt: skip


if __name__ == "__main__":
    print(main().save("audit_flax.html"))
