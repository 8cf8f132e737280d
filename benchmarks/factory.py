"""Speed of the shadow-model factory, against the machine and against PyTorch.

    python -m benchmarks.factory              one JSON line
    pip install '.[bench]'   adds PyTorch's times

The work: MNIST-shaped images, fixed set of 1,000, the victim and training of Table V
(784-10-10, ELU, full-batch gradient descent with momentum, 100 epochs). Images are
random: their values don't change the time, and no data has to be prepared.

gemm_fraction: models/s achieved, over the models/s that this machine's own matrix
product (the faster of NumPy's and XLA's) would allow at the factory's shape, counting
two products of n x 784 x 10 a model and epoch and nothing else. It can pass 1: at this
size the factory trains in the span of the data (`shadow.training.gram_form`), with
less than two products. All are timed in turns in this run; the best turn counts.

`--victim=cnn` trains the CNN of Table VI on CIFAR-shaped images (fixed set of 200, 20
epochs), beside the faster of PyTorch's two memory layouts. gemm_fraction then counts
the products of all layers of the plain form; `shadow.victims.cnn_forms` takes fewer.

`--variant` reports the speed of random initialisation, mini-batches (of 32), Adam and
private training over that of shared full-batch training, both in examples seen a
second.

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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import shadow
from dp.gradient import PrivacyConfig
from informed.experiment.training_settings import TrainingConfig
from shadow import devices

FIXED, PIXELS, UNITS, EPOCHS = 1000, 784, 10, 100
CNN_FIXED, CNN_EPOCHS, CNN_SHAPE = 200, 20, (32, 32, 3)
VARIANTS: dict[str, dict[str, Any]] = {
    "random_initialisation": {"initialisation": "random"},
    "mini_batches": {"batch_size": 32},
    "mini_batches_unknown_order": {"batch_size": 32, "shuffling": "unknown"},
    "adam": {"optimiser": optax.adam(1e-3, eps_root=1e-30)},
    "private": {"privacy": PrivacyConfig(clip_norm=1.0, noise_multiplier=10.0)},
}


def examples(
    count: int, seed: int, shape: tuple[int, ...] = (28, 28, 1)
) -> shadow.Examples:
    """Random images and labels."""
    rng = np.random.default_rng(seed)
    return shadow.Examples(
        images=rng.random((count, *shape), dtype=np.float32),
        labels=rng.integers(0, 10, count),
        num_classes=10,
    )


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - start


def matrix_products(models: int, fixed: int) -> dict[str, Callable[[], object]]:
    """The two products of an epoch for `models` models, by library."""
    rng = np.random.default_rng(0)
    images = rng.random((PIXELS, fixed), dtype=np.float32)
    weights = rng.random((models * UNITS, PIXELS), dtype=np.float32)
    errors = rng.random((models * UNITS, fixed), dtype=np.float32)
    arrays = weights, images, errors
    return _repeated(lambda w, x, e: (w @ x, x @ e.T), arrays, EPOCHS)


def cnn_products(fixed: int) -> dict[str, Callable[[], object]]:
    """The products of a training of one CNN in its plain form, by library."""
    rng = np.random.default_rng(0)
    arrays = []
    for positions, fan_in, units in ((225, 48, 16), (144, 256, 32), (1, 4608, 10)):
        for shape in (
            (positions * fixed, fan_in),
            (fan_in, units),
            (positions * fixed, units),
        ):
            arrays.append(rng.random(shape, dtype=np.float32))

    def products(*arrays: Any) -> object:
        x, w, e = arrays[:3]
        results = [x @ w, x.T @ e]
        for i in (3, 6):
            x, w, e = arrays[i : i + 3]
            results += [x @ w, x.T @ e, e @ w.T]
        return results

    return _repeated(products, tuple(arrays), CNN_EPOCHS)


def _repeated(
    products: Callable[..., object], arrays: tuple[np.ndarray, ...], times: int
) -> dict[str, Callable[[], object]]:
    """Products of arrays, so many times, by library."""
    on_device, compiled = [jnp.asarray(a) for a in arrays], jax.jit(products)

    def with_numpy() -> object:
        for _ in range(times):
            result = products(*arrays)
        return result

    def with_xla() -> object:
        for _ in range(times):
            result = jax.block_until_ready(compiled(*on_device))
        return result

    return {"numpy": with_numpy, "xla": with_xla}


def torch_peers(
    fixed: shadow.Examples, targets: shadow.Examples, *, cnn: bool
) -> dict[str, Callable]:
    """The same training in PyTorch: name -> function of a number of models."""
    import torch

    def tensor(images: np.ndarray) -> torch.Tensor:
        if cnn:
            return torch.from_numpy(images.transpose(0, 3, 1, 2))
        return torch.from_numpy(images).reshape(len(images), -1)

    x, y = tensor(fixed.images), torch.from_numpy(fixed.labels).long()
    zs, labels = tensor(targets.images), torch.from_numpy(targets.labels).long()
    ce, nn = torch.nn.functional.cross_entropy, torch.nn
    rate, epochs = (0.01, CNN_EPOCHS) if cnn else (0.2, EPOCHS)

    def model() -> torch.nn.Module:
        torch.manual_seed(0)
        if cnn:
            convolutions = nn.Conv2d(3, 16, 4, 2), nn.ELU(), nn.Conv2d(16, 32, 4)
            return nn.Sequential(
                *convolutions, nn.ELU(), nn.Flatten(), nn.Linear(4608, 10)
            )
        return nn.Sequential(nn.Linear(PIXELS, UNITS), nn.ELU(), nn.Linear(UNITS, 10))

    def loop(count: int, layout: torch.memory_format) -> None:
        for i in range(count):
            net = model().to(memory_format=layout)
            inputs = torch.cat([x, zs[i : i + 1]]).contiguous(memory_format=layout)
            truth = torch.cat([y, labels[i : i + 1]])
            optimiser = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
            for _ in range(epochs):
                optimiser.zero_grad()
                ce(net(inputs), truth).backward()
                optimiser.step()

    peers: dict[str, Callable] = {
        "torch_loop": lambda count: loop(count, torch.contiguous_format)
    }
    if cnn:
        peers["torch_loop_channels_last"] = lambda n: loop(n, torch.channels_last)
        return peers

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

    for width in (16, 64):
        peers[f"torch_vmap_{width}"] = lambda count, width=width: vmap(count, width)
    return peers


def _some(targets: shadow.Examples, count: int) -> shadow.Examples:
    """So many targets, again and again: a batch that is filled up counts as whole."""
    return targets.take(np.arange(count) % len(targets))


def _private(
    plain: shadow.Factory, targets: shadow.Examples, rounds: int
) -> dict[str, object]:
    """Private victims beside plain ones."""
    private = PrivacyConfig(clip_norm=1.0, noise_multiplier=10.0)
    without_span = dataclasses.replace(plain.descent.victim, first=None)
    form = dataclasses.replace(plain.descent, victim=without_span)
    factories = {
        "dp": dataclasses.replace(
            plain, algorithm=dataclasses.replace(plain.descent, privacy=private)
        ),
        "plain": plain,
        "plain_form": dataclasses.replace(plain, algorithm=form),
    }
    batch = _some(targets, 2 * plain.models_at_once)
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


def _variants(plain: shadow.Factory, targets: shadow.Examples, rounds: int) -> dict:
    """Speed of other ways to train over that of `plain`, per example seen."""
    algorithms = {"plain": plain.algorithm} | {
        name: dataclasses.replace(plain.descent, **fields)
        for name, fields in VARIANTS.items()
    }
    factories = {
        name: dataclasses.replace(plain, algorithm=algorithm, width=None)
        for name, algorithm in algorithms.items()
    }
    work = {
        name: (_some(targets, factory.models_at_once), factory)
        for name, factory in factories.items()
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds + 1):
        for name, (batch, factory) in work.items():
            spent = seconds(lambda f=factory, b=batch: f.train(b))
            if turn:  # the first compiles
                times[name].append(spent)
    rate = {name: len(work[name][0]) / min(spent) for name, spent in times.items()}
    return {"plain_models_per_s": round(rate["plain"], 2)} | {
        name: round(rate[name] / rate["plain"], 3) for name in VARIANTS
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each timing")
    parser.add_argument("--no_torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--victim", default="mlp", choices=("mlp", "cnn", "dp-mlp"))
    parser.add_argument("--fixed", type=int, help="size of the fixed set")
    parser.add_argument(
        "--variant", action="store_true", help="other ways to train, see above"
    )
    arguments = parser.parse_args()
    devices.one_a_core()
    cnn = arguments.victim == "cnn"
    shape = CNN_SHAPE if cnn else (28, 28, 1)
    num_fixed = arguments.fixed or (CNN_FIXED if cnn else FIXED)
    fixed, targets = examples(num_fixed, 0, shape), examples(128, 1, shape)
    victim = shadow.build_victim(
        shadow.VictimConfig(architecture="cnn" if cnn else "mlp"),
        image_shape=shape,
        num_classes=10,
    )
    training = TrainingConfig(epochs=EPOCHS)
    if cnn:
        training = TrainingConfig(epochs=CNN_EPOCHS, learning_rate=0.01)
    factory = shadow.Factory(
        algorithm=training.algorithm(victim), fixed=fixed, key=jax.random.key(0)
    )
    if arguments.variant:
        print(json.dumps(_variants(factory, targets, arguments.rounds)))
        return
    if arguments.victim == "dp-mlp":
        print(json.dumps(_private(factory, targets, arguments.rounds)))
        return
    batch = _some(targets, 2 * factory.models_at_once)
    work = {"factory": lambda: factory.train(batch)}
    if cnn:
        work |= cnn_products(num_fixed)
        models = dict.fromkeys(work, 1) | {"factory": len(batch)}
    else:
        work |= matrix_products(factory.models_at_once, num_fixed)
        models = dict.fromkeys(work, factory.models_at_once) | {"factory": len(batch)}
    if not arguments.no_torch and importlib.util.find_spec("torch"):
        for name, peer in torch_peers(fixed, targets, cnn=cnn).items():
            models[name] = 64 if "vmap" in name else 2
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
    for kind in ("loop", "vmap"):
        peers = [value for name, value in rate.items() if f"torch_{kind}" in name]
        if peers:
            result[f"torch_{kind}_models_per_s"] = round(max(peers), 2)
            result[f"vs_torch_{kind}"] = round(rate["factory"] / max(peers), 2)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
