"""Where a step of the factory's training goes: one JSON line, in milliseconds.

    python -m benchmarks.step --fixed=1000 --models=32
    python -m benchmarks.step --fixed=1000 --models=32 --group=250

One full-batch step of so many models of Table V's victim (784-10-10, ELU), on one core,
in the plain form; the fixed set is taken `--group` records at a time.

whole           the gradient of the loss in all weights
products        the first layer's two products alone, at these shapes
rest            whole less products: activations, second layer, softmax, both ways
activations     ELU and its slope alone, on arrays of this size
optimiser       momentum on all weights
gflops          of the products alone

Each is the least of --rounds turns, taken in turns.
"""

import argparse
import json
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import shadow
from benchmarks.factory import PIXELS, UNITS, seconds
from shadow.training import cross_entropy, grouped_gradients
from shadow.victims.activations import ACTIVATIONS


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixed", type=int, default=1000)
    parser.add_argument("--models", type=int, default=32)
    parser.add_argument("--group", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    spent = measured(arguments.fixed, arguments.models, arguments.group)
    times = {name: [seconds(work) for _ in range(2)] for name, work in spent.items()}
    for _ in range(arguments.rounds):
        for name, work in spent.items():
            times[name].append(seconds(work))
    least = {name: 1e3 * min(values) for name, values in times.items()}
    least["rest"] = least["whole"] - least["products"]
    flops = 4 * arguments.fixed * PIXELS * UNITS * arguments.models
    line = {name: round(value, 3) for name, value in least.items()}
    line["gflops"] = round(flops / least["products"] / 1e6, 1)
    print(json.dumps(vars(arguments) | line))


def measured(fixed: int, models: int, group: int) -> dict[str, Callable[[], object]]:
    """The step and its parts, compiled."""
    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.random((fixed, PIXELS), dtype=np.float32))
    labels = jnp.asarray(rng.integers(0, 10, fixed))
    victim = shadow.build_victim(
        shadow.VictimConfig(architecture="mlp"),
        image_shape=(28, 28, 1),
        num_classes=10,
    )
    assert victim.groups is not None
    groups = victim.groups
    shaped = groups.prepare(images.reshape(fixed, 28, 28, 1))
    examples = grouped_gradients.cut(group, shaped, labels, jnp.ones(fixed))
    params = jax.vmap(victim.init)(jax.random.split(jax.random.key(0), models))

    def whole(params: object) -> object:
        return jax.vmap(
            lambda p: grouped_gradients.gradient(groups, cross_entropy, p, examples)
        )(params)

    columns = jnp.asarray(np.ascontiguousarray(np.asarray(images).T))
    cut = columns.reshape(PIXELS, -1, min(group, fixed)).transpose(1, 0, 2)
    weights = jnp.asarray(rng.random((models * UNITS, PIXELS), dtype=np.float32))

    def products(weights: jax.Array) -> jax.Array:
        def of_group(total: jax.Array, part: jax.Array) -> tuple[jax.Array, None]:
            return total + (weights @ part) @ part.T, None

        return jax.lax.scan(of_group, jnp.zeros_like(weights), cut)[0]

    hidden = jnp.asarray(rng.standard_normal((models * UNITS, fixed)), jnp.float32)

    def activations(hidden: jax.Array) -> jax.Array:
        out, pull = jax.vjp(ACTIVATIONS["elu"], hidden)
        return pull(out)[0]

    def optimiser(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        trace = 0.9 * weights + weights
        return weights - 0.2 * trace, trace

    arguments = {
        whole: params,
        products: weights,
        activations: hidden,
        optimiser: weights,
    }
    compiled = {work.__name__: (jax.jit(work), of) for work, of in arguments.items()}
    return {name: lambda f=f, of=of: f(of) for name, (f, of) in compiled.items()}


if __name__ == "__main__":
    main()
