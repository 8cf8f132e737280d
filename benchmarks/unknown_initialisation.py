"""An initialisation that nobody is told: its seed recovered, or not needed at all.

    python -m benchmarks.unknown_initialisation --out=runs/unknown_initialisation.jsonl

Seeds: MNIST, fixed set 1,000, victim and training of Table V; every released model has
an initialisation of its own, drawn by `jax.random.key` from a secret 32-bit integer.
One pass over all 2^32 seeds looks for those of all models; then each training is
inverted, without the target's label. Stationary points: digits, fixed set 300, random
initialisation, weight decay 0.003, 5,000 epochs. One JSON line:

seeds_per_s, full_32_bit_s: of the pass; what is measured is seconds of the pieces of it
seeds_recovered: models whose theta_0 is that of the seed that was found
exact, certified: targets at an MSE of 0; reconstructions that the attack certifies
stationary_mse_median, stationary_exact, stationary_labels_right: of the digits

With --out every piece is kept, and a run that was cut off goes on there. --only=seeds
or --only=stationary leaves the other half out.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import informed
import shadow
from benchmarks import resumed
from benchmarks.developers import developer
from informed.attacks.seeds import NOT_FOUND, recovery
from informed.attacks.stationary import StationaryAttack
from shadow import devices
from shadow.training.seeds import BITS

_KEPT_EVERY_S = 10.0
Lines = list[dict[str, Any]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--fixed", type=int, default=1000)
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--stationary_targets", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("seeds", "stationary"))
    parser.add_argument("--out", type=Path, default=None, help="a file of JSON lines")
    arguments = parser.parse_args()
    devices.one_a_core()
    kept = ("dataset", "fixed", "targets", "stationary_targets", "seed")
    settings = {name: getattr(arguments, name) for name in kept}
    done = resumed.lines(arguments.out, settings)
    result: dict[str, Any] = {}
    if arguments.only != "stationary":
        result |= seeds(arguments, done)
    if arguments.only != "seeds":
        result |= stationary(arguments, done)
    print(json.dumps(result))


def keep(arguments: argparse.Namespace, done: Lines, line: dict[str, Any]) -> None:
    """A piece that is finished."""
    done.append(line)
    resumed.append(arguments.out, line)


def of_kind(done: Lines, kind: str) -> Lines:
    """The pieces of a kind."""
    return [line for line in done if line["kind"] == kind]


# Seeds


def seeds(arguments: argparse.Namespace, done: Lines) -> dict[str, Any]:
    """Recover the seeds of all models, then invert their training."""
    pool = shadow.load(arguments.dataset)
    count = arguments.targets
    split = shadow.split(
        pool,
        num_fixed=arguments.fixed,
        num_shadow=min(6000, len(pool) - arguments.fixed - count),
        num_test=count,
        seed=arguments.seed,
    )
    factory = developer(split.fixed, seed=arguments.seed, initialisation="seeded")
    knowledge = factory.knowledge(public=split.shadow)
    assert knowledge.seeds is not None
    release = shadow.publish(factory.train(split.test))
    found = search(arguments, done, release, knowledge)
    starts = np.stack([knowledge.seeds.theta(max(seed, 0)) for seed in found])
    drawn = [factory.draw(np.int32(n)).start for n in range(count)]
    right = (starts == np.stack(drawn)).all(axis=1)
    invert(arguments, done, release, knowledge, starts, split.test)
    sweeps, inverted = of_kind(done, "sweep"), of_kind(done, "inversion")
    seconds = sum(line["seconds"] for line in sweeps)
    rate = sum(line["seeds"] for line in sweeps) / seconds
    return {
        "seeds_per_s": round(rate),
        "full_32_bit_s": round(2**BITS / rate, 1),
        "seeds_recovered": int(right.sum()),
        "exact": sum(line["mse"] == 0 for line in inverted),
        "certified": sum(line["certified"] for line in inverted),
        "labels_right": sum(line["label_right"] for line in inverted),
        "inversion_s_median": float(
            np.round(np.median([line["seconds"] for line in inverted]), 1)
        ),
    }


def search(
    arguments: argparse.Namespace,
    done: Lines,
    release: shadow.Release,
    told: informed.Knowledge,
) -> list[int]:
    """One pass; the seed of each release, or NOT_FOUND."""
    assert told.seeds is not None
    before = of_kind(done, "sweep")
    at = before[-1]["next"] if before else told.seeds.start
    if at < told.seeds.stop:
        by_still = recovery.still_search(
            release, told, key=jax.random.key(arguments.seed + 1)
        )
        if by_still is None:
            raise SystemExit("No weight of these models stays where it was.")
        wanted = np.arange(len(release))
        # The first piece compiles the program.
        next(iter(by_still.sweeps(wanted, 0, at)))
        clock, begun, hits = time.perf_counter(), at, []
        for end, pairs in by_still.sweeps(wanted, 0, at, progress=True):
            for number, seed in pairs:
                if by_still.agreement(number, seed) > 0:
                    hits.append((number, seed))
            now = time.perf_counter()
            if now - clock >= _KEPT_EVERY_S or end == told.seeds.stop:
                line: dict[str, Any] = {"kind": "sweep", "next": end}
                line["seeds"] = end - begun
                line |= {"seconds": now - clock, "hits": hits}
                keep(arguments, done, line)
                clock, begun, hits = now, end, []
    found = [NOT_FOUND] * len(release)
    for line in of_kind(done, "sweep"):
        for number, seed in line["hits"]:
            found[number] = seed
    return found


def invert(
    arguments: argparse.Namespace,
    done: Lines,
    release: shadow.Release,
    told: informed.Knowledge,
    starts: np.ndarray,
    targets: shadow.Examples,
) -> None:
    """Invert what isn't inverted yet, from the recovered initialisations."""
    left = slice(len(of_kind(done, "inversion")), None)
    rest = targets.take(left)
    if not len(rest):
        return
    knows = dataclasses.replace(told, initialisation=starts[left])
    attack = informed.Inversion(progress=True)
    clock = time.perf_counter()
    found = attack.each(
        shadow.publish(release.weights[left]),
        knows,
        key=jax.random.key(arguments.seed + 2),
    )
    for image, label, each in zip(rest.images, rest.labels, found, strict=True):
        now = time.perf_counter()
        line = {
            "kind": "inversion",
            "seconds": now - clock,
            "mse": float(informed.mse(image[None], each.images)[0]),
            "label_right": bool(np.asarray(each.labels)[0] == label),
            "certified": bool(np.asarray(each.certified)[0]),
        }
        keep(arguments, done, line)
        clock = time.perf_counter()


# Stationary points


def stationary(arguments: argparse.Namespace, done: Lines) -> dict[str, Any]:
    """Digits, near a stationary point, random initialisation, nobody knows a seed."""
    lines = of_kind(done, "stationary")
    if not lines:
        split = shadow.split(
            shadow.load("digits"),
            num_fixed=300,
            num_shadow=600,
            num_test=arguments.stationary_targets,
            seed=arguments.seed,
        )
        factory = developer(
            split.fixed,
            seed=arguments.seed,
            initialisation="random",
            weight_decay=0.003,
            epochs=5000,
        )
        release = shadow.publish(factory.train(split.test))
        found = StationaryAttack(progress=True)(
            release,
            factory.knowledge(public=split.shadow),
            key=jax.random.key(arguments.seed + 3),
        )
        errors = informed.mse(split.test.images, found.images)
        right = np.asarray(found.labels) == split.test.labels
        for error, label_right in zip(errors, right, strict=True):
            line = {"kind": "stationary", "mse": float(error)}
            keep(arguments, done, line | {"label_right": bool(label_right)})
        lines = of_kind(done, "stationary")
    errors = np.array([line["mse"] for line in lines])
    return {
        "stationary_mse_median": float(f"{np.median(errors):.2g}"),
        "stationary_mse_mean": float(f"{errors.mean():.2g}"),
        "stationary_exact": int((errors == 0).sum()),
        "stationary_labels_right": sum(line["label_right"] for line in lines),
    }


if __name__ == "__main__":
    main()
