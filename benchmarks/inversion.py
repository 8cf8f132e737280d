"""Training inversion: exactness, certificate and cost, one JSON line.

    python -m benchmarks.inversion --dataset=digits --fixed=300 --targets=100

Victim and training of Table V unless told otherwise, as by `--dataset=cifar10
--architecture=cnn --learning_rate=0.01 --epochs=5 --fixed=20`; the targets' labels are
not told. trainings_per_target:
the time a target takes over the time that the factory, with full batches, takes for one
run of A, both on this machine. exact: an MSE of at most 1e-6, which is what the
certificate promises. With --out every target is kept as soon as it is done, and a run
that was cut off goes on there.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import informed
import shadow
from benchmarks import resumed
from benchmarks.developers import developer
from benchmarks.inversion_table import matched
from informed.attacks.inversion.inversion_config import ENGINES
from shadow import devices


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--fixed", type=int, default=300)
    parser.add_argument("--architecture", default="mlp")
    parser.add_argument("--learning_rate", type=float, default=0.2)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--activation", default="elu")
    parser.add_argument("--optimiser", default="sgd")
    parser.add_argument("--batch_size", type=int, default=None, help="known order")
    parser.add_argument("--engine", default="auto", choices=ENGINES)
    parser.add_argument("--targets", type=int, default=10)
    parser.add_argument(
        "--unknown", type=int, default=1, help="targets missing at once; labels told"
    )
    parser.add_argument("--public", type=int, default=6000, help="images, at most")
    parser.add_argument("--neighbours", type=int, default=600, help="a label")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="a file of JSON lines")
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
    fields = vars(arguments)
    factory = developer(
        split.fixed,
        seed=arguments.seed,
        victim={name: fields[name] for name in ("architecture", "activation")},
        optimiser=arguments.optimiser,
        learning_rate=arguments.learning_rate,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
    )
    full = split.shadow.take(np.arange(2 * factory.models_at_once) % len(split.shadow))
    # The first call compiles.
    factory.train(full)
    start = time.perf_counter()
    factory.train(full)
    one_training = (time.perf_counter() - start) / len(full)
    settings = {name: fields[name] for name in sorted(fields) if name != "out"}
    done = resumed.lines(arguments.out, settings)
    attacked = _together if arguments.unknown > 1 else _one_by_one
    for line in attacked(arguments, factory, split, len(done)):
        done.append(line)
        resumed.append(arguments.out, line)
    errors = np.array([line["mse"] for line in done])
    certified = np.array([line["certified"] for line in done])
    exact = errors <= informed.InversionConfig().exact_mse

    def mean(name: str) -> float:
        return float(np.mean([line[name] for line in done]))

    seconds = mean("seconds")
    print(
        json.dumps(
            {
                "seconds_per_target": round(seconds, 2),
                "trainings_per_target": round(seconds / one_training),
                "median_trainings": float(
                    np.median([line["trainings"] for line in done])
                ),
                "median_mse": float(f"{np.median(errors):.2g}"),
                "largest_mse": float(f"{errors.max():.2g}"),
                "exact_fraction": float(exact.mean()),
                "below_1e-10_fraction": float(np.mean(errors <= 1e-10)),
                "label_right_fraction": mean("label_right"),
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


def _one_by_one(
    arguments: argparse.Namespace,
    factory: shadow.Factory,
    split: shadow.Split,
    begin: int,
) -> Iterator[dict[str, Any]]:
    """One line per target; the first also pays what the targets share."""
    left = split.test.take(slice(begin, None))
    if not len(left):
        return
    release = shadow.publish(factory.train(left))
    knowledge = factory.knowledge(public=split.shadow)
    attack = informed.Inversion(
        config=informed.InversionConfig(
            neighbours=arguments.neighbours, engine=arguments.engine
        ),
        progress=True,
    )
    start = time.perf_counter()
    found = attack.each(release, knowledge, key=jax.random.key(arguments.seed + 1))
    for image, label, each in zip(left.images, left.labels, found, strict=True):
        yield {
            "seconds": time.perf_counter() - start,
            "mse": float(informed.mse(image[None], each.images)[0]),
            "label_right": bool(np.asarray(each.labels)[0] == label),
            "certified": bool(np.asarray(each.certified)[0]),
            "trainings": int(np.asarray(each.trainings)[0]),
        }
        start = time.perf_counter()


def _together(
    arguments: argparse.Namespace,
    factory: shadow.Factory,
    split: shadow.Split,
    begin: int,
) -> Iterator[dict[str, Any]]:
    """One line per target; those of a release are unknown together."""
    knowledge = factory.knowledge(public=split.shadow)
    attack = informed.Inversion(
        config=informed.InversionConfig(engine=arguments.engine)
    )
    count = arguments.unknown
    for first in range(begin, arguments.targets - count + 1, count):
        points = split.test.take(slice(first, first + count))
        others = points.take(slice(0, -1))
        larger = dataclasses.replace(factory, fixed=split.fixed.joined(others))
        release = shadow.publish(larger.train(points.take(slice(-1, None))))
        start = time.perf_counter()
        (found,) = attack.several(
            release, knowledge, points.labels[None], key=jax.random.key(1)
        )
        seconds = (time.perf_counter() - start) / count
        errors = matched(points.images, found.images)
        for error, certified in zip(errors, np.asarray(found.certified), strict=True):
            # Labels are told, and trainings aren't counted for several points.
            yield {
                "seconds": seconds,
                "mse": float(error),
                "label_right": True,
                "certified": bool(certified),
                "trainings": 0,
            }


if __name__ == "__main__":
    main()
