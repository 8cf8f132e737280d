"""A new victim: any network of Flax, Equinox, Haiku, or a pair of functions.

Here a Flax module. Everything works on it: the factory, stores, RecoNN and inversion.
"""

import flax.linen as nn
import jax

import informed
import shadow


class Network(nn.Module):
    """Two hidden layers with layer normalisation between them."""

    @nn.compact
    def __call__(self, images):
        """Images (examples, 8, 8, 1) -> logits."""
        values = images.reshape(len(images), -1)
        values = nn.LayerNorm()(nn.tanh(nn.Dense(16)(values)))
        return nn.Dense(10)(nn.tanh(nn.Dense(16)(values)))


def main(epochs: int = 40) -> dict:
    """Invert the training of one model."""
    pool = shadow.load("digits")
    split = shadow.split(pool, num_fixed=100, num_shadow=600, num_test=1, seed=0)
    victim = shadow.from_flax(Network(), image_shape=(8, 8, 1), num_classes=10)
    # shadow.from_functions(init, apply, ...)      init: key -> params
    # shadow.from_equinox(lambda key: Net(key=key), ...)
    training = shadow.TrainingConfig(learning_rate=0.05, epochs=epochs)
    factory = shadow.Factory(
        algorithm=shadow.GradientDescent(victim=victim, training=training),
        fixed=split.fixed,
        key=jax.random.key(0),
        role="released",
    )
    release = shadow.publish(factory.train(split.test))
    told = informed.Knowledge.informed(factory, public=split.shadow)
    found = informed.TrainingInversion()(release, told, key=jax.random.key(1))
    error = informed.mse(split.test.images, found.images)[0]
    return {
        "parameters": victim.num_params,
        "mse": float(error),
        "certified": bool(found.certified[0]),
    }


if __name__ == "__main__":
    print(main())
