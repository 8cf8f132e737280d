"""Training inversion: exactness, certificate and cost, one JSON line.

    python -m benchmarks.inversion --dataset=digits --fixed=300 --targets=100

Victim and training of Table V; the targets' labels are not told. trainings_per_target:
the time a target takes over the time of one run of A, both on this machine.
"""

import argparse
import json
import time

import jax
import numpy as np

import informed
import shadow


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--fixed", type=int, default=300)
    parser.add_argument("--targets", type=int, default=10)
    parser.add_argument("--public", type=int, default=5000, help="at most")
    arguments = parser.parse_args()
    pool = shadow.load(arguments.dataset)
    rest = len(pool) - arguments.fixed - arguments.targets
    split = shadow.split(
        pool,
        num_fixed=arguments.fixed,
        num_shadow=min(arguments.public, rest),
        num_test=arguments.targets,
        seed=0,
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
        key=jax.random.key(0),
        role="released",
        width=1,
    )
    release = informed.Release(weights=factory.train(split.test))
    start = time.perf_counter()
    factory.train(split.test.take(slice(0, 1)))
    one_training = time.perf_counter() - start
    attack = informed.TrainingInversion()
    knowledge = informed.Knowledge.informed(factory, public=split.shadow)
    start = time.perf_counter()
    found = attack(release, knowledge, key=jax.random.key(1))
    seconds = (time.perf_counter() - start) / arguments.targets
    errors = informed.mse(split.test.images, found.images)
    certified = np.asarray(found.certified)
    exact = errors <= 1e-10
    print(
        json.dumps(
            {
                "seconds_per_target": round(seconds, 2),
                "trainings_per_target": round(seconds / one_training),
                "median_mse": float(f"{np.median(errors):.2g}"),
                "exact_fraction": float(exact.mean()),
                "label_right_fraction": float(
                    np.mean(np.asarray(found.labels) == split.test.labels)
                ),
                "certified_fraction": float(certified.mean()),
                "certified_exact_fraction": (
                    float(exact[certified].mean()) if certified.any() else None
                ),
            }
        )
    )


if __name__ == "__main__":
    main()
