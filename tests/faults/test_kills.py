"""Real workers, killed by kill -9 at random moments, with nobody who coordinates.

The long form in a folder kills 12 times, or as often as the environment variable KILLS
says; that in a bucket a fourth as often.
"""

import multiprocessing
import os
import random
import time
from multiprocessing.connection import Connection

import numpy as np
import pytest

import shadow
from shadow import places, victims
from tests.faults import stores

KILLS = int(os.environ.get("KILLS", "12"))
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["shadow", "tests.faults.stores"])


def divided(blocks: int) -> shadow.Split:
    """Of random images: there are more blocks than digits."""
    rng, size = np.random.default_rng(0), blocks + 60
    pool = shadow.Examples(
        images=rng.random((size, 8, 8, 1), dtype=np.float32),
        labels=rng.integers(0, 10, size, dtype=np.int32),
        num_classes=10,
    )
    return shadow.split(pool, num_fixed=50, num_shadow=blocks, num_test=10, seed=0)


def fill(
    address: str, number: int, blocks: int, environment: dict, pipe: Connection
) -> None:
    """What a worker does, in a process of its own."""
    os.environ.update(environment)  # the server that forks it may be older
    split = divided(blocks)
    victim = victims.build(
        victims.VictimConfig(widths=(5,)), image_shape=(8, 8, 1), num_classes=10
    )
    store = stores.create(address, split, victim, block_size=1)
    pipe.send("ready")
    missing = store.missing()
    first = random.randrange(len(missing)) if missing else 0
    for block in missing[first:] + missing[:first]:
        if store.committed(block) is None:
            time.sleep(0.05 * random.random())  # trains
            stores.write(store, split, block, number)


class Worker:
    """A process that fills a store."""

    def __init__(self, address: str, number: int, blocks: int) -> None:
        self.pipe, other = _CONTEXT.Pipe(duplex=False)
        arguments = (address, number, blocks, dict(os.environ), other)
        self.process = _CONTEXT.Process(target=fill, args=arguments)
        self.process.start()
        other.close()

    def ready(self) -> None:
        """Wait until it begins with blocks."""
        assert self.pipe.recv() == "ready"

    def kill(self) -> None:
        """With no chance to tidy up."""
        self.process.kill()  # it may have ended by itself, on a busy machine
        self.process.join()

    def finish(self) -> None:
        """To its end, without an error."""
        self.process.join()
        assert self.process.exitcode == 0


@pytest.mark.parametrize(
    ("where", "kills", "blocks"),
    [
        ("folder", 1, 100),
        pytest.param("folder", KILLS, 60 * KILLS, marks=pytest.mark.slow),
        pytest.param("bucket", KILLS // 4, 8 * KILLS, marks=pytest.mark.slow),
    ],
)
def test_two_workers_on_one_plan_lose_nothing_to_kills(
    where, kills, blocks, tmp_path, victim, request
):
    folder = tmp_path / "store"
    bucket = request.getfixturevalue("bucket") if where == "bucket" else None
    address = f"{bucket}/store" if bucket else str(folder)
    split = divided(blocks)
    rng = random.Random(kills)
    workers = [Worker(address, number, blocks) for number in (1, 2)]
    for worker in workers:
        worker.ready()
    counts = []
    for _ in range(kills):
        time.sleep(rng.random() * 0.5)
        victim_of_kill = rng.randrange(2)
        workers[victim_of_kill].kill()
        counts.append(len(shadow.Store(address).missing()))
        workers[victim_of_kill] = Worker(address, victim_of_kill + 1, blocks)
        workers[victim_of_kill].ready()
    for worker in workers:
        worker.finish()
    assert counts == sorted(counts, reverse=True), "no committed block goes away"
    assert counts[0] > 0, "it was killed while there was work"
    store = stores.create(address, split, victim, block_size=1)
    assert store.num_blocks == blocks
    assert store.missing() == store.verify() == []
    won = {stores.winner(store, split, block) for block in range(blocks)}
    assert won == {1, 2}, "both worked"
    if not bucket:
        places.Folder(folder).remove_leftovers(age=0.0)
    names = store.place.names("")
    assert not [name for name in names if name.startswith("attempts/")]
    assert not [file for file in tmp_path.rglob("*.partial")]
    assert len(names) == 11 + 6 + 3 * blocks + blocks
