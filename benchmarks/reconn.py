"""A step of Table VII's network by our transposed convolutions, one JSON line.

    python -m benchmarks.reconn

On 2,000 features, beside Haiku's transposed convolutions; each alone and as the only
step of a scan.
"""

import itertools
import json
import time
from unittest import mock

import haiku as hk
import jax
import numpy as np

import reconn
from reconn import enlarging, modules
from reconn.feed import Batches
from reconn.input_layout import InputLayout
from reconn.placement import Placement
from reconn.steps import Steps
from shadow import devices


def main() -> None:
    """Measure and print."""
    devices.one_a_core()
    print(json.dumps(_decoder()))


def _steps(method: reconn.Network, batches: Batches) -> Steps:
    """Return the steps of a network on these batches."""
    inputs, images = batches.arrays
    layout = InputLayout(num_features=inputs.shape[1], image_shape=images.shape[1:])
    return Steps(
        modules.build(method.module, layout),
        method.optimiser_for(batches.steps),
        method.loss,
        batches,
        epochs=method.epochs,
        key=jax.random.key(0),
        placement=Placement.of(None),
    )


def _decoder(features: int = 2000, repeats: int = 5) -> dict[str, float]:
    """Seconds of a step of Table VII's network, least of some turns, and the ratio."""
    shape = (32, 32, 3)
    method = reconn.Network(module=reconn.transposed_cnn(widths=(2048,)))
    key, size = jax.random.key(0), method.batch_size
    inputs = np.asarray(jax.random.normal(key, (size, features)))
    images = np.asarray(jax.random.uniform(key, (size, *shape)))
    batch = (inputs[None], images[None])
    keys = jax.random.key_data(key)[None]
    programs = {}
    for made_by, module in (("ours", enlarging.Enlarging), ("haiku", _haikus)):
        with mock.patch.object(modules, "Enlarging", module):
            run = _steps(method, Batches(inputs, images, batch_size=size))
            state = run.start()
            moving = {k: v for k, v in state.items() if not k.startswith("best")}
            for name, alone in (("alone", True), ("in_a_scan", False)):
                run._one_by_one = alone
                jitted = jax.jit(lambda *values, run=run: run._scan(*values))
                lowered = jitted.lower(moving, None, batch, keys, None)
                programs[f"{made_by}_{name}_s"] = lowered.compile()
    seconds = dict.fromkeys(programs, float("inf"))
    for _, (name, program) in itertools.product(range(repeats), programs.items()):
        start = time.perf_counter()
        jax.block_until_ready(program(moving, None, batch, keys, None))
        seconds[name] = min(seconds[name], time.perf_counter() - start)
    ratio = seconds["haiku_in_a_scan_s"] / seconds["ours_alone_s"]
    return {name: round(s, 3) for name, s in seconds.items()} | {
        "times_as_fast": round(ratio, 1)
    }


def _haikus(channels: int) -> hk.Module:
    return hk.Conv2DTranspose(channels, 5, stride=2)


if __name__ == "__main__":
    main()
