"""An epoch of the RecoNN against the matrix products in it, one JSON line.

    python -m benchmarks.reconn --models=59000 --features=7960

The network of Table V on random features. gemm_fraction: time of the matrix products of
an epoch alone, forward and backward, in the same process, over the time of the epoch.
data_wait_fraction: share of the epoch that was spent waiting for batches.
"""

import argparse
import itertools
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import reconn
from reconn.batches import Batches
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
    arguments = parser.parse_args()
    devices.one_a_core()
    config = reconn.ReconnConfig(
        input_dropout=arguments.dropout, dropout=arguments.dropout
    )
    rng = np.random.default_rng(0)
    batches = Batches(
        rng.standard_normal((arguments.models, arguments.features), np.float32),
        rng.random((arguments.models, *SHAPE), np.float32),
        batch_size=config.batch_size,
    )
    network = config.network(arguments.features, SHAPE)
    run = Steps(
        network,
        config,
        batches.steps,
        jax.random.key(0),
        image_shape=SHAPE,
        placement=Placement.of(None),
    )
    state, _ = run.epoch(run.start(), batches, 0)
    batches.waited_s = 0.0
    start = time.perf_counter()
    for epoch in range(1, 1 + arguments.epochs):
        state, _ = run.epoch(state, batches, epoch)
    epoch_s = (time.perf_counter() - start) / arguments.epochs
    products_s = batches.steps * _products(arguments.features, config)
    print(
        json.dumps(
            {
                "epoch_s": round(epoch_s, 2),
                "gemm_fraction": round(products_s / epoch_s, 3),
                "data_wait_fraction": round(
                    batches.waited_s / arguments.epochs / epoch_s, 4
                ),
                "models": arguments.models,
                "steps": batches.steps,
            }
        )
    )


def _products(features: int, config: reconn.ReconnConfig, repeats: int = 50) -> float:
    """Seconds for the matrix products of one step, forward and backward."""
    sizes = (features, *config.widths, int(np.prod(SHAPE)))
    keys = jax.random.split(jax.random.key(1), 2 * len(sizes))
    weights = [
        jax.random.normal(keys[i], (before, after))
        for i, (before, after) in enumerate(itertools.pairwise(sizes))
    ]
    values = [
        jax.random.normal(keys[len(sizes) + i], (config.batch_size, size))
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


if __name__ == "__main__":
    main()
