"""Training inversion: exactness, certificate and cost, one JSON line.

    python -m benchmarks.inversion --dataset=digits --fixed=300 --targets=100

Victim and training of Table V; the targets' labels are not told. trainings_per_target:
the time a target takes over the time that the factory, with full batches, takes for one
run of A, both on this machine. exact: an MSE of at most 1e-6, which is what the
certificate promises.
"""

import argparse
import json
import time

import jax
import numpy as np

import informed
import shadow
from shadow import devices


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--fixed", type=int, default=300)
    parser.add_argument("--targets", type=int, default=10)
    parser.add_argument("--public", type=int, default=6000, help="images, at most")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    devices.one_a_core()
    pool = shadow.load(arguments.dataset)
    rest = len(pool) - arguments.fixed - arguments.targets
    split = shadow.split(
        pool,
        num_fixed=arguments.fixed,
        num_shadow=min(arguments.public, rest),
        num_test=arguments.targets,
        seed=arguments.seed,
    )
    victim = shadow.build_victim(
        shadow.VictimConfig(),
        image_shape=pool.image_shape,
        num_classes=pool.num_classes,
    )
    factory = shadow.Factory(
        victim=victim,
        training=shadow.TrainingConfig(),
        fixed=split.fixed,
        key=jax.random.key(arguments.seed),
        role="released",
    )
    release = informed.Release(weights=factory.train(split.test))
    full = split.shadow.take(np.arange(2 * factory.models_at_once) % len(split.shadow))
    start = time.perf_counter()
    factory.train(full)
    one_training = (time.perf_counter() - start) / len(full)
    attack = informed.TrainingInversion(progress=True)
    knowledge = informed.Knowledge.informed(factory, public=split.shadow)
    start = time.perf_counter()
    found = attack(release, knowledge, key=jax.random.key(arguments.seed + 1))
    seconds = (time.perf_counter() - start) / arguments.targets
    errors = informed.mse(split.test.images, found.images)
    certified = np.asarray(found.certified)
    exact = errors <= attack.config.exact_mse
    print(
        json.dumps(
            {
                "seconds_per_target": round(seconds, 2),
                "trainings_per_target": round(seconds / one_training),
                "median_mse": float(f"{np.median(errors):.2g}"),
                "largest_mse": float(f"{errors.max():.2g}"),
                "exact_fraction": float(exact.mean()),
                "below_1e-10_fraction": float(np.mean(errors <= 1e-10)),
                "label_right_fraction": float(
                    np.mean(np.asarray(found.labels) == split.test.labels)
                ),
                "certified_fraction": float(certified.mean()),
                "certified_exact_fraction": (
                    float(exact[certified].mean()) if certified.any() else None
                ),
                "exact_certified_fraction": (
                    float(certified[exact].mean()) if exact.any() else None
                ),
            }
        )
    )


if __name__ == "__main__":
    main()
