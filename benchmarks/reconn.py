"""An epoch of the RecoNN against the matrix products in it, one JSON line.

    python -m benchmarks.reconn --models=59000 --features=7960
    python -m benchmarks.reconn --decoder

The network of Table V on random features. gemm_fraction: time of the matrix products of
an epoch alone, forward and backward, in the same process, over the time of the epoch.

--decoder: a step of Table VII's network on 2,000 features, with the transposed
convolutions of the toolkit and of Haiku, each alone and as the only step of a scan.
"""

import argparse
import itertools
import json
import time
from typing import Any
from unittest import mock

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

import reconn
from reconn import enlarging, modules
from reconn.feed import Batches
from reconn.input_layout import InputLayout
from reconn.placement import Placement
from reconn.steps import Steps
from shadow import devices

SHAPE = (28, 28, 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=59_000)
    parser.add_argument("--features", type=int, default=7960)
    parser.add_argument("--epochs", type=int, default=2, help="after one to warm up")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--decoder", action="store_true")
    arguments = parser.parse_args()
    devices.one_a_core()
    if arguments.decoder:
        print(json.dumps(_decoder()))
        return
    module = reconn.mlp(input_dropout=arguments.dropout, dropout=arguments.dropout)
    method = reconn.Network(module=module)
    rng = np.random.default_rng(0)
    batches = Batches(
        rng.standard_normal((arguments.models, arguments.features), np.float32),
        rng.random((arguments.models, *SHAPE), np.float32),
        batch_size=method.batch_size,
    )
    run = _steps(method, batches)
    state, _ = run.epoch(run.start(), 0)
    start = time.perf_counter()
    for epoch in range(1, 1 + arguments.epochs):
        state, _ = run.epoch(state, epoch)
    epoch_s = (time.perf_counter() - start) / arguments.epochs
    products_s = batches.steps * _products(arguments.features, method)
    print(
        json.dumps(
            {
                "epoch_s": round(epoch_s, 2),
                "gemm_fraction": round(products_s / epoch_s, 3),
                "models": arguments.models,
                "steps": batches.steps,
            }
        )
    )


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


def _products(features: int, method: reconn.Network, repeats: int = 50) -> float:
    """Seconds for the matrix products of one step, forward and backward."""
    sizes = (features, *method.module.widths, int(np.prod(SHAPE)))
    keys = jax.random.split(jax.random.key(1), 2 * len(sizes))
    weights = [
        jax.random.normal(keys[i], (before, after))
        for i, (before, after) in enumerate(itertools.pairwise(sizes))
    ]
    values = [
        jax.random.normal(keys[len(sizes) + i], (method.batch_size, size))
        for i, size in enumerate(sizes)
    ]

    @jax.jit
    def run(total: Any, weights: list, values: list) -> Any:
        def step(total: Any, _: None) -> tuple[Any, None]:
            # Everything depends on the last step, so that nothing is hoisted.
            moving = [value + total for value in values]
            for i, w in enumerate(weights):
                pairs = [(moving[i], w), (moving[i].T, moving[i + 1])]
                if i:
                    pairs.append((moving[i + 1], w.T))
                for left, right in pairs:
                    # Whole products, though only one number of each is used.
                    product = jax.lax.optimization_barrier(left @ right)
                    total = total + 1e-9 * product[0, 0]
            return total, None

        return jax.lax.scan(step, total, length=repeats)[0]

    run(jnp.zeros(()), weights, values).block_until_ready()
    start = time.perf_counter()
    run(jnp.zeros(()), weights, values).block_until_ready()
    return (time.perf_counter() - start) / repeats


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
