"""Exact inversion of training that can only be run: scikit-learn and PyTorch.

    python -m benchmarks.inversion_by_runs --targets=10

Digits, fixed set of 100, seeded; neither derivatives nor the target's label are told.
"scikit-learn" is `MLPClassifier` (10 tanh units, SGD), "torch" a loop as a user would
write it, with the same network (needs the extra "bench"). One JSON line per framework:
exact_fraction (MSE <= 1e-8), errors, certificates, labels, and trainings and seconds a
target, the shared ranking of labels included.
"""

import argparse
import json
import time

import jax
import numpy as np

import informed
import shadow
from benchmarks import span_networks


def scikit_learn(images: np.ndarray, labels: np.ndarray, seed: int) -> list:
    """A network of scikit-learn's; full batches, 100 epochs."""
    settings = {"learning_rate_init": 0.2, "batch_size": len(images), "tol": 0}
    return span_networks.sklearn_trained(
        images.astype(np.float64), labels, seed, 10, **settings
    )


def torch_loop(images: np.ndarray, labels: np.ndarray, seed: int) -> list:
    """A loop in PyTorch, in float32."""
    import torch

    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(images[0].size, 10), torch.nn.Tanh(), torch.nn.Linear(10, 10)
    )
    return span_networks.torch_trained(model, images, labels, lr=0.2, momentum=0.9)


FRAMEWORKS = {"scikit-learn": scikit_learn, "torch": torch_loop}


def measured(framework: str, targets: int, seed: int) -> dict[str, object]:
    """One line."""
    parts = shadow.split(
        shadow.load("digits"),
        num_fixed=100,
        num_shadow=600,
        num_test=targets,
        seed=seed,
    )
    factory = shadow.Factory(
        algorithm=shadow.PythonFunction(train=FRAMEWORKS[framework]),
        fixed=parts.fixed,
        key=jax.random.key(seed),
        role="released",
    )
    release = shadow.publish(factory.train(parts.test))
    knowledge = factory.knowledge(public=parts.shadow)
    attack = informed.Inversion(progress=True)
    started = time.monotonic()
    found = attack(release, knowledge, key=jax.random.key(seed + 1))
    seconds = time.monotonic() - started
    errors = informed.mse(parts.test.images, found.images)
    return {
        "framework": framework,
        "targets": targets,
        "exact_fraction": float(np.mean(errors <= 1e-8)),
        "largest_mse": float(errors.max()),
        "certified": int(found.certified.sum()),
        "labels_right": int((found.labels == parts.test.labels).sum()),
        "trainings_per_target": round(found.trainings.sum() / targets, 1),
        "seconds_per_target": round(seconds / targets, 1),
    }


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=FRAMEWORKS)
    arguments = parser.parse_args()
    for framework in [arguments.only] if arguments.only else FRAMEWORKS:
        line = measured(framework, arguments.targets, arguments.seed)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
