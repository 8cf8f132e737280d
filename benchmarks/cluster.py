"""Shadow data sets by Ray: speed of two nodes over one, and what faults leave behind.

    python -m benchmarks.cluster              one JSON line; the extra "cluster"

Nodes of one core on this machine. The work: MNIST-shaped random images, fixed set of
300, the victim and training of Table V, blocks of 32 models.

speedup: blocks per second of two nodes over those of one, each from the moment when all
workers have delivered a block, in turns within this run; the best turn counts. machine:
the same for two processes without Ray, the most that two cores can reach.
Then a store is made by three nodes while one of them, at work, is removed, and workers
are killed (-9): blocks_lost is what is missing in the end, identical whether every
block has the checksums of a store that was made in peace, by one process.
"""

import argparse
import contextlib
import dataclasses
import functools
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil

import shadow
from benchmarks.developers import developer
from shadow.launchers import tasks
from shadow.launchers.launch import local
from shadow.launchers.tasks import Ray

FIXED, BLOCK = 300, 32
_LOOKS = 100  # for a worker at a task, a tenth of a second apart


def prepare(folder: str, blocks: int) -> list[shadow.Store]:
    """One store of so many blocks; the same models in every process."""
    rng = np.random.default_rng(0)
    count = FIXED + blocks * BLOCK + 1
    pool = shadow.Examples(
        images=rng.random((count, 28, 28, 1), dtype=np.float32),
        labels=rng.integers(0, 10, count),
        num_classes=10,
    )
    split = shadow.split(
        pool, num_fixed=FIXED, num_shadow=blocks * BLOCK, num_test=1, seed=0
    )
    factory = dataclasses.replace(developer(split.fixed), role="shadow", width=16)
    return [shadow.Store.open(folder, factory, split.shadow, block_size=BLOCK)]


@contextlib.contextmanager
def cluster(nodes: int) -> Iterator:
    """So many nodes of one core, and this process as their driver."""
    ray = tasks.module()
    from ray.cluster_utils import Cluster

    found = Cluster()
    for _ in range(nodes):
        found.add_node(num_cpus=1)
    ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def by_ray(nodes: int, blocks: int) -> float:
    """Blocks per second."""
    with tempfile.TemporaryDirectory() as folder, cluster(nodes):
        landed: list[float] = []
        Ray(memory=1 << 28)(
            functools.partial(prepare, folder, blocks),
            progress=False,
            on_block=lambda: landed.append(time.monotonic()),
        )
    return _rate(landed, nodes)


def by_processes(count: int, blocks: int) -> float:
    """The same without Ray: each process fills a store of its own."""
    context = multiprocessing.get_context("spawn")
    clock = context.Queue()
    workers = [
        context.Process(target=_alone, args=(clock, blocks // count))
        for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    landed = [clock.get() for _ in range(blocks // count * count)]
    for worker in workers:
        worker.join()
    return _rate(sorted(landed), count)


def _alone(clock: multiprocessing.Queue, blocks: int) -> None:
    os.environ["NPROC"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        local(
            functools.partial(prepare, folder, blocks),
            progress=False,
            on_block=lambda: clock.put(time.monotonic()),
        )


def _rate(landed: list[float], workers: int) -> float:
    """Blocks per second, between the first and the last fifth of all."""
    first = max(workers + 1, len(landed) // 5)
    last = len(landed) - max(workers, len(landed) // 10)
    return (last - first) / (landed[last] - landed[first])


def disturbed(blocks: int, kills: int) -> dict[str, object]:
    """A store made in spite of everything, and what was done to its makers."""
    with (
        tempfile.TemporaryDirectory() as peaceful,
        tempfile.TemporaryDirectory() as folder,
    ):
        local(functools.partial(prepare, peaceful, blocks), progress=False)
        done = {"workers_killed": 0, "nodes_lost": 0}
        with cluster(2) as found:
            node = found.add_node(num_cpus=1)
            landed: list[int] = []
            # As often as asked for, whatever the speed of the machine: after blocks.
            due = [blocks * (i + 1) // (kills + 2) for i in range(kills)]

            def on_block() -> None:
                landed.append(1)
                if len(landed) in due:
                    done["workers_killed"] += _kill_one()
                if len(landed) == blocks // 2:
                    found.remove_node(node, allow_graceful=False)
                    done["nodes_lost"] += 1

            Ray(memory=1 << 28)(
                functools.partial(prepare, folder, blocks),
                progress=False,
                on_block=on_block,
            )
        store = prepare(folder, blocks)[0]
        missing = store.missing()
        same = not missing and _digests(folder) == _digests(peaceful)
    return {**done, "blocks_lost": len(missing), "identical": same}


def _kill_one() -> int:
    """Kill a worker that is at a task, as soon as there is one; how many were."""
    for _ in range(_LOOKS):
        busy = [
            process
            for process in psutil.process_iter(["cmdline"])
            if any("ray::shadow" in part for part in process.info["cmdline"] or [])
        ]
        if busy:
            random.choice(busy).send_signal(signal.SIGKILL)
            return 1
        time.sleep(0.1)
    return 0


def _digests(folder: str) -> list[object]:
    """The checksums of all blocks."""
    store = shadow.Store(Path(folder))
    commits = [store.committed(block) for block in range(store.num_blocks)]
    return [commit and dict(commit.made.sha256) for commit in commits]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2, help="turns of each timing")
    parser.add_argument("--kills", type=int, default=4)
    arguments = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):  # Ray speaks of what it lost
        line: dict[str, object] = disturbed(arguments.blocks, arguments.kills)
    rates: dict[str, list[float]] = {}
    kinds: dict[str, Callable[[int], float]] = {
        "ray": lambda count: by_ray(count, arguments.blocks),
        "processes": lambda count: by_processes(count, arguments.blocks),
    }
    for _ in range(arguments.rounds):
        for kind, measure in kinds.items():
            for count in (1, 2):
                rates.setdefault(f"{kind}_{count}", []).append(measure(count))
    best = {name: max(values) for name, values in rates.items()}
    line |= {
        "speedup": round(best["ray_2"] / best["ray_1"], 2),
        "machine": round(best["processes_2"] / best["processes_1"], 2),
        "models_per_s": {name: round(BLOCK * rate, 1) for name, rate in best.items()},
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
