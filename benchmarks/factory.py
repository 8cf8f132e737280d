"""Speed of the shadow-model factory, against the machine and against PyTorch.

    python -m benchmarks.factory              one JSON line
    pip install 'informed-adversary[bench]'   adds PyTorch's times

The work: MNIST-shaped images, fixed set of 1,000, the victim and training of Table V
(784-10-10, ELU, full-batch gradient descent with momentum, 100 epochs). Images are
random: their values don't change the time, and no data has to be prepared.

gemm_fraction: models/s achieved, over the models/s that this machine's own matrix
product (the faster of NumPy's and XLA's) would allow at the factory's shape, counting
two products of n x 784 x 10 a model and epoch and nothing else. It can pass 1: at this
size the factory trains in the span of the data (`shadow.training.span`), which takes
less than two products. All are timed in turns in this run; the best turn counts.

`--victim=dp-mlp` trains the same victims privately (clipping norm 1, noise multiplier
10, noise of its own for each) and reports their models/s beside those of plain ones, in
the span of the data and not: `vs_plain`, `vs_plain_form`.
"""

import argparse
import dataclasses
import importlib.util
import json
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import shadow
from dp.gradient import PrivacyConfig
from shadow import devices

FIXED, PIXELS, UNITS, EPOCHS = 1000, 784, 10, 100


def examples(count: int, seed: int) -> shadow.Examples:
    """Random images and labels."""
    rng = np.random.default_rng(seed)
    return shadow.Examples(
        images=rng.random((count, 28, 28, 1), dtype=np.float32),
        labels=rng.integers(0, 10, count),
        num_classes=10,
    )


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - start


def matrix_products(models: int) -> dict[str, Callable[[], object]]:
    """The two products of an epoch for `models` models, by library."""
    rng = np.random.default_rng(0)
    images = rng.random((PIXELS, FIXED), dtype=np.float32)
    weights = rng.random((models * UNITS, PIXELS), dtype=np.float32)
    errors = rng.random((models * UNITS, FIXED), dtype=np.float32)

    def with_numpy() -> object:
        for _ in range(EPOCHS):
            result = (weights @ images, images @ errors.T)
        return result

    on_device = [jnp.asarray(a) for a in (weights, images, errors)]
    both = jax.jit(lambda w, x, e: (w @ x, x @ e.T))

    def with_xla() -> object:
        for _ in range(EPOCHS):
            result = jax.block_until_ready(both(*on_device))
        return result

    return {"numpy": with_numpy, "xla": with_xla}


def torch_peers(
    fixed: shadow.Examples, targets: shadow.Examples
) -> dict[str, Callable]:
    """The same training in PyTorch: name -> function of a number of models."""
    import torch

    x = torch.from_numpy(fixed.images).reshape(len(fixed), -1)
    y = torch.from_numpy(fixed.labels).long()
    zs = torch.from_numpy(targets.images).reshape(len(targets), -1)
    labels = torch.from_numpy(targets.labels).long()
    ce = torch.nn.functional.cross_entropy

    def model() -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(PIXELS, UNITS), torch.nn.ELU(), torch.nn.Linear(UNITS, 10)
        )

    def loop(count: int) -> None:
        for i in range(count):
            net = model()
            optimiser = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
            inputs, truth = (
                torch.cat([x, zs[i : i + 1]]),
                torch.cat([y, labels[i : i + 1]]),
            )
            for _ in range(EPOCHS):
                optimiser.zero_grad()
                ce(net(inputs), truth).backward()
                optimiser.step()

    def vmap(count: int, width: int) -> None:
        net = model()

        def loss(params: dict, z: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            def call(inputs: torch.Tensor) -> torch.Tensor:
                return torch.func.functional_call(net, params, (inputs,))

            total = ce(call(x), y, reduction="sum") + ce(call(z[None]), label[None])
            return total / (len(x) + 1)

        gradient = torch.func.vmap(torch.func.grad(loss))
        for start in range(0, count, width):
            z, label = zs[start : start + width], labels[start : start + width]
            params = {
                name: value.detach().expand(len(z), *value.shape).clone()
                for name, value in net.named_parameters()
            }
            velocity = {name: torch.zeros_like(v) for name, v in params.items()}
            with torch.no_grad():
                for _ in range(EPOCHS):
                    for name, slope in gradient(params, z, label).items():
                        velocity[name].mul_(0.9).add_(slope)
                        params[name].sub_(velocity[name], alpha=0.2)

    peers: dict[str, Callable] = {"torch_loop": loop}
    for width in (16, 64):
        peers[f"torch_vmap_{width}"] = lambda count, width=width: vmap(count, width)
    return peers


def _private(
    plain: shadow.Factory, targets: shadow.Examples, rounds: int
) -> dict[str, object]:
    """Private victims beside plain ones."""
    private = PrivacyConfig(clip_norm=1.0, noise_multiplier=10.0)
    without_span = dataclasses.replace(plain.descent.victim, first=None)
    form = dataclasses.replace(plain.descent, victim=without_span)
    factories = {
        "dp": dataclasses.replace(
            plain, algorithm=plain.descent.changed(privacy=private)
        ),
        "plain": plain,
        "plain_form": dataclasses.replace(plain, algorithm=form),
    }
    batch = targets.take(slice(0, 2 * plain.models_at_once))
    for factory in factories.values():
        factory.train(batch)
    times: dict[str, list[float]] = {name: [] for name in factories}
    for _ in range(rounds):
        for name, factory in factories.items():
            times[name].append(seconds(lambda f=factory: f.train(batch)))
    rate = {name: len(batch) / min(values) for name, values in times.items()}
    return {
        "dp_models_per_s": round(rate["dp"], 2),
        "plain_models_per_s": round(rate["plain"], 2),
        "vs_plain": round(rate["dp"] / rate["plain"], 3),
        "vs_plain_form": round(rate["dp"] / rate["plain_form"], 3),
        "models_at_once": plain.models_at_once,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each timing")
    parser.add_argument(
        "--one_device", action="store_true", help="not one JAX device per core"
    )
    parser.add_argument("--no_torch", action="store_true", help="leave PyTorch out")
    parser.add_argument(
        "--plain", action="store_true", help="not in the span of the data"
    )
    parser.add_argument("--victim", default="mlp", choices=("mlp", "dp-mlp"))
    arguments = parser.parse_args()
    if not arguments.one_device:
        devices.one_a_core()

    fixed, targets = examples(FIXED, 0), examples(64, 1)
    victim = shadow.build_victim(
        shadow.VictimConfig(), image_shape=(28, 28, 1), num_classes=10
    )
    if arguments.plain:
        victim = dataclasses.replace(victim, first=None)
    factory = shadow.Factory(
        algorithm=shadow.GradientDescent(
            victim=victim, training=shadow.TrainingConfig(epochs=EPOCHS)
        ),
        fixed=fixed,
        key=jax.random.key(0),
    )
    if arguments.victim == "dp-mlp":
        print(json.dumps(_private(factory, targets, arguments.rounds)))
        return
    batch = targets.take(slice(0, 2 * factory.models_at_once))
    work = {"factory": lambda: factory.train(batch)}
    work |= matrix_products(factory.models_at_once)
    models = dict.fromkeys(work, factory.models_at_once) | {"factory": len(batch)}
    if not arguments.no_torch and importlib.util.find_spec("torch"):
        for name, peer in torch_peers(fixed, targets).items():
            models[name] = 2 if name == "torch_loop" else 64
            work[name] = lambda peer=peer, count=models[name]: peer(count)
    for function in work.values():
        function()  # compile, warm up
    times = {name: [seconds(function)] for name, function in work.items()}
    for _ in range(arguments.rounds - 1):
        for name, function in work.items():
            times[name].append(seconds(function))
    rate = {name: models[name] / min(values) for name, values in times.items()}
    result = {
        "models_per_s": round(rate["factory"], 2),
        "gemm_fraction": round(rate["factory"] / max(rate["numpy"], rate["xla"]), 3),
        "gemm_models_per_s": round(max(rate["numpy"], rate["xla"]), 2),
        "models_at_once": factory.models_at_once,
        "device": jax.devices()[0].device_kind,
        "devices": jax.local_device_count(),
        "cores": devices.num_cores(),
        "jax": jax.__version__,
    }
    if "torch_loop" in rate:
        vmap = max(value for name, value in rate.items() if "vmap" in name)
        result |= {
            "torch_loop_models_per_s": round(rate["torch_loop"], 2),
            "torch_vmap_models_per_s": round(vmap, 2),
            "vs_torch_loop": round(rate["factory"] / rate["torch_loop"], 2),
            "vs_torch_vmap": round(rate["factory"] / vmap, 2),
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
