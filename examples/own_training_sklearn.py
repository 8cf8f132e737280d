"""Your own training in scikit-learn, PyTorch or anything else: run, not differentiated.

train(images, labels, seed) -> any tree of arrays or tensors. It is run in processes, a
few hundred times for one target; equal arguments must give equal weights.
"""

import warnings

import jax
import numpy as np
from sklearn.neural_network import MLPClassifier

import informed
import shadow


def train(images, labels, seed):
    """Return the weights of a network of scikit-learn's. In PyTorch:

    torch.manual_seed(seed)
    ...
    return [p.detach() for p in model.parameters()]
    """
    model = MLPClassifier(
        (8,), activation="tanh", solver="sgd", learning_rate_init=0.2, max_iter=40,
        batch_size=len(images), random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forty epochs are meant
        model.fit(images.reshape(len(images), -1).astype(np.float64), labels)
    return [model.coefs_, model.intercepts_]


def main() -> dict:
    """Train on 60 digits and one more; read that one back out of the weights."""
    pool = shadow.load("digits")
    split = shadow.split(pool, num_fixed=60, num_shadow=300, num_test=1, seed=0)
    algorithm = shadow.PythonFunction(train=train)
    factory = shadow.Factory(algorithm, split.fixed, key=jax.random.key(0))
    releases = factory.release(split.test)
    knowledge = factory.knowledge(public=split.shadow)
    guess = informed.Inversion()(releases, knowledge, key=jax.random.key(1))
    error = informed.mse(split.test.images, guess.images)[0]
    return {
        "mse": float(error),
        "certified": bool(guess.certified[0]),
        "trainings": int(guess.trainings.sum()),
    }


if __name__ == "__main__":
    print(main())
