"""Your own training in JAX: can one of its points be read back?

Any pure function train(images, labels, key) -> weights will do. This one uses Adam with
a schedule and label smoothing. The toolkit batches and differentiates it unchanged.
"""

import jax
import jax.numpy as jnp
import optax

import informed
import shadow


def train(images, labels, key):
    """Images (examples, height, width, channels) and labels -> a tree of weights."""
    x = images.reshape(len(images), -1)
    targets = optax.smooth_labels(jax.nn.one_hot(labels, 10), 0.1)
    first, second = jax.random.split(key)
    params = {
        "hidden": jax.random.normal(first, (x.shape[1], 12)) / 8,
        "output": jax.random.normal(second, (12, 10)) / 4,
    }
    optimiser = optax.adam(optax.cosine_decay_schedule(0.02, 60))

    def loss(params):
        logits = jnp.tanh(x @ params["hidden"]) @ params["output"]
        return optax.softmax_cross_entropy(logits, targets).mean()

    def step(state, _):
        params, memory = state
        change, memory = optimiser.update(jax.grad(loss)(params), memory)
        return (optax.apply_updates(params, change), memory), None

    state = (params, optimiser.init(params))
    return jax.lax.scan(step, state, length=60)[0][0]


def main() -> dict:
    """Train on 100 digits and one more; read that one back out of the weights."""
    pool = shadow.load("digits")
    split = shadow.split(pool, num_fixed=100, num_shadow=600, num_test=1, seed=0)
    algorithm = shadow.JaxFunction(train=train)
    factory = shadow.Factory(algorithm, split.fixed, key=jax.random.key(0))
    releases = factory.release(split.test)
    knowledge = factory.knowledge(public=split.shadow)
    guess = informed.Inversion()(releases, knowledge, key=jax.random.key(1))
    error = informed.mse(split.test.images, guess.images)[0]
    return {"mse": float(error), "certified": bool(guess.certified[0])}


if __name__ == "__main__":
    print(main())
