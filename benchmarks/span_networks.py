"""Letters that networks were trained on, read by the attack `span`: rows of
`benchmarks.span`.

The seed of each training is told, labels and public records aren't.
"""

import time
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from sklearn.neural_network import MLPClassifier

import shadow
from benchmarks import budget
from benchmarks.span_data import SEEDS
from informed import Knowledge
from informed.attacks.span import SpanAttack


def torch_mlp(images: np.ndarray, labels: np.ndarray, key: int) -> list[np.ndarray]:
    """784-32-10 units, tanh; SGD at 0.5 on the full batch, 100 epochs, in PyTorch."""
    import torch

    torch.manual_seed(key)
    network = torch.nn.Sequential(
        torch.nn.Linear(784, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)
    )
    return torch_trained(network, images, labels, lr=0.5)


def torch_linear(images: np.ndarray, labels: np.ndarray, key: int) -> list[np.ndarray]:
    """784-10, a linear layer that begins at random; otherwise as `torch_mlp`."""
    import torch

    torch.manual_seed(key)
    return torch_trained(torch.nn.Linear(784, 10), images, labels, lr=0.5)


def torch_trained(
    network: Any, images: np.ndarray, labels: np.ndarray, **settings: float
) -> list:
    """Train a PyTorch network by 100 steps of SGD on the full batch; its arrays."""
    import torch

    optimiser = torch.optim.SGD(network.parameters(), **settings)
    flat = torch.tensor(images.reshape(len(images), -1))
    wanted = torch.tensor(labels, dtype=torch.long)
    for _ in range(100):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(flat), wanted).backward()
        optimiser.step()
    return [p.detach().numpy() for p in network.parameters()]


def sklearn_mlp(images: np.ndarray, labels: np.ndarray, key: int) -> list[np.ndarray]:
    """MLPClassifier of 32 tanh units by SGD: batches of 200, 100 epochs at most."""
    return sklearn_trained(images, labels, key, 32, learning_rate_init=0.1)


def sklearn_trained(
    images: np.ndarray, labels: np.ndarray, key: int, units: int, **settings: float
) -> list[np.ndarray]:
    """Train an MLPClassifier of tanh units by SGD, 100 epochs; its arrays."""
    network = MLPClassifier(
        (units,), activation="tanh", solver="sgd", random_state=key, max_iter=100
    ).set_params(**settings)
    with warnings.catch_warnings():
        # A hundred epochs are meant: no warning that training hasn't converged.
        warnings.simplefilter("ignore")
        network.fit(images.reshape(len(images), -1), labels)
    return [*network.coefs_, *network.intercepts_]


_NETWORKS = {
    "PyTorch MLP 784-32-10": torch_mlp,
    "PyTorch linear 784-10": torch_linear,
    "MLPClassifier 784-32-10 (SGD)": sklearn_mlp,
}


def networks(args: Any) -> Iterator[dict[str, Any]]:
    """Letters that networks were trained on, with the seed told."""
    known = 300
    for name, train in _NETWORKS.items():
        found: list[dict[str, Any]] = []
        for target in range(args.targets):
            seed = SEEDS * (args.seed + 1) + target
            pictures, labels = budget.letters(seed)
            chosen = np.random.default_rng(seed).permutation(len(labels))[: known + 1]
            every = shadow.Examples(
                images=(pictures[chosen] / 255).astype(np.float32)[..., None],
                labels=labels[chosen].astype(np.int32),
                num_classes=10,
            )
            algorithm = shadow.PythonFunction(train=train, version="1")
            theta = np.concatenate(
                [each.ravel() for each in train(every.images, every.labels, seed)]
            )
            knowledge = Knowledge(
                fixed=every.take(np.arange(known)),
                algorithm=algorithm,
                training_key=seed,
            )
            image = every.images[known]
            each: dict[str, Any] = {}
            for precision in ("released", "float32", "float16"):
                if precision == "float32" and theta.dtype == np.float32:
                    continue
                attack, started = SpanAttack(), time.monotonic()
                written = theta if precision == "released" else theta.astype(precision)
                release = shadow.publish(written.astype(theta.dtype)[None])
                guess = attack(release, knowledge, key=jax.random.key(seed))
                assert guess.certified is not None
                assert guess.trainings is not None
                each[precision] = {
                    "exact": bool(np.array_equal(guess.images[0], image)),
                    "certified": bool(guess.certified[0]),
                    "seconds": time.monotonic() - started,
                    "trainings": int(guess.trainings[0]),
                }
            found.append({"float32": each["released"]} | each)
        whole = [each["released"] for each in found]
        yield {
            "model": name,
            "data": "letters",
            "known": known,
            "dimensions": image.size,
            "targets": args.targets,
            "exact": sum(each["exact"] for each in whole),
            "certified": sum(each["certified"] for each in whole),
            "wrong_certificates": sum(
                each["certified"] and not each["exact"]
                for some in found
                for each in some.values()
            ),
            "seconds": round(max(each["seconds"] for each in whole), 1),
            "trainings": [each["trainings"] for each in whole],
            "after_float32": sum(some["float32"]["exact"] for some in found),
            "after_float16": sum(some["float16"]["exact"] for some in found),
        }
