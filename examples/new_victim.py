"""A new victim: any network of Flax, Equinox, Haiku, or a pair of functions, by name.

Here a Flax module. Everything works on it: the factory, stores, RecoNN and inversion.
This file is a configuration too:

    informed run --config=examples/new_victim.py --workdir=runs/new_victim
"""

import flax.linen as nn
import jax
import optax

import informed
import shadow


class Network(nn.Module):
    """Two hidden layers with layer normalisation between them."""

    @nn.compact
    def __call__(self, images):
        """Images (examples, height, width, channels) -> logits."""
        values = images.reshape(len(images), -1)
        values = nn.LayerNorm()(nn.tanh(nn.Dense(16)(values)))
        return nn.Dense(10)(nn.tanh(nn.Dense(16)(values)))


def build(config, *, image_shape, num_classes):
    """Build the victim; `config` has the other settings of `config.victim`."""
    return shadow.from_flax(Network(), image_shape=image_shape, num_classes=num_classes)
    # shadow.from_functions(init, apply, ...)      init: key -> params
    # shadow.from_equinox(lambda key: Net(key=key), ...)


shadow.register_victim("normalised", build, version="1")


def get_config():
    """Configure a few shadow models of digits and the kernel regression."""
    config = informed.defaults(informed.Experiment)
    config.victim.architecture = "normalised"
    config.data.num_fixed, config.data.num_test, config.shadow.count = 100, 10, 100
    config.attacks.reconn.kind = "kernel"
    return config


def main(epochs: int = 40) -> dict:
    """Invert the training of one model."""
    pool = shadow.load("digits")
    split = shadow.split(pool, num_fixed=100, num_shadow=600, num_test=1, seed=0)
    victim = build(None, image_shape=(8, 8, 1), num_classes=10)
    algorithm = shadow.GradientDescent(
        victim=victim, optimiser=optax.sgd(0.05, momentum=0.9), epochs=epochs
    )
    factory = shadow.Factory(algorithm, split.fixed, key=jax.random.key(0))
    releases = factory.release(split.test)
    knowledge = factory.knowledge(public=split.shadow)
    guess = informed.Inversion()(releases, knowledge, key=jax.random.key(1))
    error = informed.mse(split.test.images, guess.images)[0]
    return {"mse": float(error), "certified": bool(guess.certified[0])}
