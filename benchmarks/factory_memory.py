"""Peak memory of the factory does not grow with the number of models.

    python -m benchmarks.factory_memory       one JSON line

Fills a store with k = 500 and with k = 5,000 models (Table V's victim, fixed set of
1,000, few epochs), each in a process of its own, and reports the peak resident size of
each. The pool of images is the same for both: only factory and store can differ.
"""

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import tempfile

import shadow
from benchmarks.developers import developer
from benchmarks.factory import FIXED, examples
from shadow import devices

COUNTS = (500, 5000)


def peak_mib() -> float:
    """Peak resident size of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fill(count: int, path: str) -> tuple[float, float]:
    """Fill a store with `count` models.

    Returns: the process's peak size in MiB before and after; before, the data and
      `count` targets are in memory, and the first models have been trained.
    """
    devices.one_a_core()
    pool = examples(FIXED + COUNTS[-1] + 1, 0)
    split = shadow.split(
        pool, num_fixed=FIXED, num_shadow=COUNTS[-1], num_test=1, seed=0
    )
    split = shadow.split_by_indices(
        pool,
        fixed=split.fixed_indices,
        shadow=split.shadow_indices[:count],
        test=split.test_indices,
    )
    factory = dataclasses.replace(developer(split.fixed, epochs=2), role="shadow")
    store = shadow.Store.open(path, factory, split.shadow, block_size=250)
    factory.train(split.shadow.take(slice(0, 250)))
    before = peak_mib()
    store.fill(progress=False)
    return before, peak_mib()


def main() -> None:
    """Measure in processes of their own, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    count = parser.parse_args().count
    if count is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(*fill(count, f"{folder}/store"))
        return
    result: dict[str, dict[str, float]] = {}
    for k in COUNTS:
        output = subprocess.run(
            [sys.executable, "-m", "benchmarks.factory_memory", f"--count={k}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        before, after = map(float, output.split())
        result[str(k)] = {
            "peak_mib": round(after, 1),
            "grown_while_filling_mib": round(after - before, 1),
            "weights_written_mib": round(k * 7960 * 4 / 2**20, 1),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
