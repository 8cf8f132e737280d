"""One iteration of the KKT attack against the same loss in plain PyTorch: a JSON line.

    python -m benchmarks.kkt_speed --points=100 --width=1000

The loss of the public code (`KktConfig.public_code`) and its gradient with respect to
candidates and multipliers, float32, on a CIFAR-10-sized network of two hidden layers.
gram_s multiplies out, plain_s doesn't, torch_s differentiates twice; span_s is what an
iteration of ours takes, within the span of the weights of so many training points. All
in one process, medians of --repeats. losses_agree: to 1e-3, of the three.
"""

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shadow import devices
from uninformed import homogeneous, kkt
from uninformed.homogeneous import DenseLayers
from uninformed.kkt import loss

INPUTS = 3072


def main() -> None:
    """Measure and print."""
    try:
        import torch
    except ImportError:
        raise SystemExit("kkt_speed needs torch: pip install -e '.[bench]'") from None
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100, help="candidates")
    parser.add_argument("--width", type=int, default=1000)
    parser.add_argument("--rank", type=int, default=50, help="of the first layer")
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(devices.num_cores())
    network = _network(arguments)
    config = kkt.KktConfig.public_code(
        candidates=arguments.points, start=0.5, alpha=20.0
    )
    ours = {
        "gram": _ours(dataclasses.replace(config, gram=True), network),
        "plain": _ours(dataclasses.replace(config, gram=False), network),
        "span": _ours(dataclasses.replace(config, gram=True, span=True), network),
    }
    iterations = {name: iterate for name, (iterate, _) in ours.items()}
    points, multipliers = (np.asarray(part) for part in ours["gram"][1])
    iterations["torch"] = _theirs(torch, config, network, points, multipliers)
    losses = {name: iterate() for name, iterate in iterations.items()}
    seconds: dict[str, list[float]] = {name: [] for name in iterations}
    for _ in range(arguments.repeats):
        for name, iterate in iterations.items():
            start = time.perf_counter()
            iterate()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    compared = [losses[name] for name in ("gram", "plain", "torch")]
    print(
        json.dumps(
            {
                **{f"{name}_s": round(each, 5) for name, each in medians.items()},
                "torch_over_gram": round(medians["torch"] / medians["gram"], 2),
                "torch_over_plain": round(medians["torch"] / medians["plain"], 2),
                "torch_over_span": round(medians["torch"] / medians["span"], 2),
                "losses_agree": bool(np.ptp(compared) < 1e-3 * compared[0]),
            }
        )
    )


def _network(arguments: argparse.Namespace) -> DenseLayers:
    """Random, with a first layer made of a few points."""
    shape = homogeneous.HomogeneousConfig(
        widths=(arguments.width,) * 2, first_scale=None
    )
    network = homogeneous.init(shape, INPUTS, jax.random.key(0))
    rng = np.random.default_rng(0)
    parts = [
        rng.standard_normal(size)
        for size in ((INPUTS, arguments.rank), (arguments.rank, arguments.width))
    ]
    first = 1e-3 * parts[0] @ parts[1]
    return (
        homogeneous.Layer(jnp.asarray(first, jnp.float32), network[0].b),
        *network[1:],
    )


def _ours(
    config: kkt.KktConfig, network: DenseLayers
) -> tuple[Callable[[], float], Any]:
    """An iteration, and where it is taken."""
    problem = loss.KktProblem(config, network, None)
    begin = problem.begin(jax.random.key(1))

    @jax.jit
    def gradient(unknowns: Any) -> Any:
        return jax.value_and_grad(problem.loss, has_aux=True)(
            unknowns, begin, config.alpha
        )

    def iterate() -> float:
        (total, _), _ = jax.block_until_ready(gradient(begin.unknowns))
        return float(total)

    return iterate, begin.unknowns


def _theirs(
    torch: Any,
    config: kkt.KktConfig,
    network: DenseLayers,
    points: np.ndarray,
    multipliers: np.ndarray,
) -> Callable[[], float]:
    """The same in PyTorch, as anyone would write it."""

    class SoftReLU(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, z: Any) -> Any:
            context.save_for_backward(z)
            return z.clamp(min=0)

        @staticmethod
        def backward(context: Any, slope: Any) -> Any:
            (z,) = context.saved_tensors
            return slope * torch.sigmoid(config.alpha * z)

    def tensor(values: Any) -> Any:
        return torch.tensor(np.asarray(values), requires_grad=True)

    layers = [(tensor(w), None if b is None else tensor(b)) for w, b in network]
    theta = [leaf for layer in layers for leaf in layer if leaf is not None]
    x, multiplier = tensor(points), tensor(multipliers)
    half = config.candidates // 2
    signs = torch.tensor([-1.0] * half + [1.0] * (config.candidates - half))

    def iterate() -> float:
        x.grad = multiplier.grad = None
        outputs = x
        for number, (w, b) in enumerate(layers):
            outputs = outputs @ w if b is None else outputs @ w + b
            if number < len(layers) - 1:
                outputs = SoftReLU.apply(outputs)
        weighted = (multiplier * signs * outputs[:, 0]).sum() / config.candidates
        made = torch.autograd.grad(weighted, theta, create_graph=True)
        total = sum(((p - g) ** 2).sum() for p, g in zip(theta, made, strict=True))
        missing = (config.least_multiplier - multiplier).clamp(min=0)
        outside = (x - config.high).clamp(min=0) ** 2
        outside = outside + (config.low - x).clamp(min=0) ** 2
        total = total + config.dual_weight * (missing**2).sum() + outside.sum()
        total.backward(inputs=[x, multiplier])
        return float(total.detach())

    return iterate


if __name__ == "__main__":
    main()
