"""The programs of a GPU, compiled for an H100 on a machine that has none.

    python -m benchmarks.cuda                 one JSON line; a line a program on stderr
    python -m benchmarks.cuda --only=CNN

XLA's compiler for NVIDIA's cards comes in wheels (the extra "gate": no CUDA toolkit, no
driver, no card; Linux on x86-64). Every program of the factory, of the RecoNN and of
the attacks is traced as on an accelerator, the factory's at the width that is chosen
there, compiled, and read:

- `memory_fraction`: bytes of the program by XLA's account, over what JAX takes of the
  card; `compiled`: how often the choice of a width compiled it;
- `below_highest`: float32 products that would be rounded to TF32 (the RecoNN's may be);
- `scatters`: slow, and summed in any order, on a GPU;
- `kernels`: of a step of training; each takes 2.5 us to start.

Kernels aren't timed here, so which ones a real card takes can differ.
"""

import argparse
import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import reconn
from benchmarks import hlo
from dp.gradient import PrivacyConfig
from informed.attacks.inversion import response
from informed.attacks.inversion.span_derivatives import Span, SpanPrograms
from informed.attacks.seeds import seed_search as seeds
from informed.attacks.stationary.gradients import PenalisedGradients
from informed.experiment.training_settings import TrainingConfig
from reconn import modules
from reconn.feed import Batches
from reconn.input_layout import InputLayout
from reconn.placement import Placement
from reconn.steps import Steps
from shadow import Examples, devices, parallel, victims, width
from shadow.training import GradientDescent
from shadow.training import gram_form as gram
from shadow.training.gram_form import split_first
from shadow.training.seeds import SeedFamily
from uninformed import bilevel, homogeneous, kkt
from uninformed.kkt import descent, loss

MNIST, CIFAR = (28, 28, 1), (32, 32, 3)
FREE = int(0.75 * 84_942_979_072)  # the part of an H100 that JAX takes
# What XLA's compiler has to know of a card; an H100 SXM.
_H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32
  shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84942979072 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 10 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
Row = Callable[[Mesh], dict[str, Any]]


def card() -> Mesh:
    """An H100 that isn't here, to compile for.

    Raises: ImportError: the extra isn't installed.
    """
    from jax.experimental import topologies

    jax.config.update("jax_platforms", "cpu")
    for place in sys.path:  # ptxas and libdevice
        tools = Path(place) / "nvidia" / "cuda_nvcc" / "bin"
        if tools.is_dir():
            os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    try:
        found = topologies.get_topology_desc(
            platform="cuda", topology_name="", target_config=_H100, topology="1x1x1"
        )
    except Exception as error:
        raise ImportError(
            "XLA's compiler for NVIDIA's cards isn't installed: pip install '.[gate]'."
        ) from error
    return Mesh(np.array(found.devices[:1]), ("rows",))


def compiled(lowered: Any) -> Any:
    """Without timing kernels, which needs a card."""
    return lowered.compile(compiler_options=parallel.UNTIMED)


def lower(on: Mesh, function: Any, *arguments: Any) -> Any:
    """A compiled function for the card, with arguments of these shapes."""
    everywhere = NamedSharding(on, PartitionSpec())

    def shape(value: Any) -> Any:
        value = value if hasattr(value, "dtype") else np.asarray(value)
        return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=everywhere)

    return function.lower(*jax.tree.map(shape, arguments))


# The factory


def factory(
    architecture: str,
    num_fixed: int,
    *,
    widths: tuple[int, ...] = (10,),
    form: str | None = None,
    taps: bool = True,
    **training: Any,
) -> Row:
    """A row: the factory's program at the width that is chosen on the card."""

    def row(on: Mesh) -> dict[str, Any]:
        shape = MNIST if architecture == "mlp" else CIFAR
        victim = victims.build(
            victims.VictimConfig(architecture=architecture, widths=widths),
            image_shape=shape,
            num_classes=10,
        )
        if not taps:
            victim = victims.from_functions(
                victim.init, victim.apply, image_shape=shape, num_classes=10
            )
        algorithm = TrainingConfig(**training).algorithm(victim, form=form)
        asked: list[int] = []

        @functools.cache
        def program(models: int) -> Any:
            made = parallel.program(algorithm, width.draw_of(algorithm), on)
            return compiled(
                parallel.lower(made, (num_fixed, *shape), width=models, on=on)
            )

        def bytes_of(models: int) -> int:
            asked.append(models)
            return parallel.bytes_of(program(models))

        chosen = width.width_for(FREE, bytes_of)
        return described(program(chosen)) | {"width": chosen, "compiled": len(asked)}

    return row


def described(found: Any) -> dict[str, Any]:
    """What a compiled program is."""
    about = hlo.read(found)
    return {
        "gigabytes": round(parallel.bytes_of(found) / 1e9, 3),
        "memory_fraction": round(parallel.bytes_of(found) / FREE, 4),
        "products": about.products,
        "below_highest": about.below_highest,
        "scatters": about.scatters,
        "kernels": about.kernels,
    }


# The RecoNN


def network(features: int, shape: tuple[int, ...], **settings: Any) -> Row:
    """A row: an epoch of steps, features on the card."""

    def row(on: Mesh) -> dict[str, Any]:
        method = reconn.Network(**settings)
        steps, models = 32, 59_000
        arrays = [
            np.broadcast_to(np.float32(0), (models, *rest))
            for rest in ((features,), shape)
        ]
        run = Steps(
            modules.build(
                method.module, InputLayout(num_features=features, image_shape=shape)
            ),
            method.optimiser_for(steps),
            method.loss,
            Batches(*arrays, batch_size=method.batch_size),
            epochs=method.epochs,
            key=jax.random.key(0),
            placement=Placement.of(None),
        )
        moving = jax.eval_shape(run.start)
        moving = {n: moving[n] for n in moving if n not in ("best", "best_mse")}
        some = jax.ShapeDtypeStruct
        lowered = lower(
            on,
            run.scan,
            moving,
            (some((models, features), np.float32), some((models, *shape), np.float32)),
            some((steps, method.batch_size), np.int32),
            some((steps, 2), np.uint32),
            run._lpips,
        )
        return described(compiled(lowered)) | {"rounds": True}

    return row


# Attacks


def _mnist(num_fixed: int, **training: Any) -> tuple[GradientDescent, Examples]:
    rng = np.random.default_rng(0)
    victim = victims.build(victims.VictimConfig(), image_shape=MNIST, num_classes=10)
    fixed = Examples(
        images=rng.random((num_fixed, *MNIST), dtype=np.float32),
        labels=rng.integers(0, 10, num_fixed).astype(np.int32),
        num_classes=10,
    )
    algorithm = TrainingConfig(**training).algorithm(victim)
    return algorithm, fixed


def inversion_in_span(on: Mesh) -> dict[str, Any]:
    """64 derivatives of training along directions of the image; fixed set of 1,000."""
    algorithm, fixed = _mnist(1000)
    start = algorithm.initialise(jax.random.key(0))
    with mock.patch.object(parallel, "mesh", return_value=on):
        data = jnp.asarray(fixed.images), jnp.asarray(fixed.labels)
        programs = SpanPrograms(algorithm, data, rank=100)
        span = Span(programs, jnp.asarray(start))
    first = algorithm.victim.first
    assert first is not None
    w, _ = split_first(first, algorithm.victim.unflatten(start))
    flat = fixed.images.reshape(len(fixed), -1)
    products = jax.eval_shape(gram.products, w, flat, flat[:1])
    many = jax.tree.map(
        lambda each: jax.ShapeDtypeStruct((64, *each.shape), each.dtype), products
    )
    labels = fixed.labels[:1]
    return described(
        compiled(lower(on, programs.columns, span.data, products, labels, many))
    )


def response_of_the_fixed_set(on: Mesh) -> dict[str, Any]:
    """Curvatures at every step; MNIST, fixed set of 10,000, rank 100."""
    algorithm, fixed = _mnist(10_000)
    first = algorithm.victim.first
    assert first is not None
    params = algorithm.victim.unflatten(algorithm.initialise(jax.random.key(0)))
    w, rest = split_first(first, params)
    flat, unravel = jax.flatten_util.ravel_pytree(rest)
    of = response.Loss(first, unravel, len(fixed) + 1)
    images = fixed.images.reshape(len(fixed), -1)
    train = functools.partial(response.trajectory_of, of, algorithm.optimise, 100)
    trajectory = jax.eval_shape(train, w, flat, images, fixed.labels)
    groups = [
        jax.eval_shape(response._in_groups, part)
        for part in (images, images[:, :100], fixed.labels, images[:, 0])
    ]
    curvatures = jax.jit(functools.partial(response.hessians_of, of, 100))
    return described(compiled(lower(on, curvatures, tuple(groups), trajectory)))


def stationary_curvature(on: Mesh) -> dict[str, Any]:
    """64 rows of the Hessian of a float64 loss; MNIST, fixed set of 1,000."""
    with jax.enable_x64(True):
        algorithm, fixed = _mnist(1000, weight_decay=1e-3)
        made = PenalisedGradients(algorithm, fixed)
        theta = np.zeros(algorithm.victim.num_params)
        along = np.zeros((64, len(theta)))
        images = np.asarray(fixed.images, np.float64)
        lowered = lower(on, made._rows, theta, images, fixed.labels, along)
        return described(compiled(lowered))


def seed_search(on: Mesh) -> dict[str, Any]:
    """A million seeds against 32 releases."""
    algorithm, _ = _mnist(10)
    family = SeedFamily(draw=algorithm.victim.init)
    with mock.patch.object(parallel, "mesh", return_value=on):
        screen = seeds.screen(family, [100, 200])
        bounds = np.zeros((2, 32), np.float32)
        lowered = lower(on, screen.program, np.zeros(1, np.uint32), bounds, bounds)
    return described(compiled(lowered))


def kkt_descent(on: Mesh) -> dict[str, Any]:
    """Four runs of Haim et al.'s size: 1,000 x 1,000 units, 1,000 candidates."""
    shape = homogeneous.HomogeneousConfig()
    net = homogeneous.init(shape, 784, jax.random.key(0))
    config = kkt.KktConfig.public_code(candidates=1000)
    problem = loss.KktProblem(config, net, None)
    keys = jax.random.split(jax.random.key(0), 4)
    begun = jax.eval_shape(jax.vmap(problem.begin), keys)
    run = descent.Run(problem)

    def steps(begun: Any) -> Any:
        def step(carry: Any, number: Any) -> tuple[Any, None]:
            return jax.vmap(run.step, in_axes=(0, None, 0))(carry, number, begun), None

        carry = jax.vmap(run.start)(begun)
        carry, _ = jax.lax.scan(step, carry, jnp.arange(config.steps))
        return jax.vmap(run.end)(carry, begun)

    with jax.default_matmul_precision("highest"):
        return described(compiled(lower(on, jax.jit(steps), begun)))


def bilevel_attack(on: Mesh) -> dict[str, Any]:
    """Runkel et al.'s hidden-layer victim: 100 points, 100 units, MNIST."""
    lower_problem = bilevel.Lower(inputs=784, width=100, decay=1e-3)
    theta = np.zeros(lower_problem.num_params, np.float32)
    points, targets = np.zeros((100, 784), np.float32), np.zeros(100, np.float32)

    def run(theta: Any, points: Any, targets: Any) -> Any:
        config = bilevel.BilevelConfig()
        return bilevel.attack(config, lower_problem, theta, points, targets, theta)

    return described(compiled(lower(on, jax.jit(run), theta, points, targets)))


_PRIVATE = PrivacyConfig(clip_norm=1.0, noise_multiplier=1.0)
_SAMPLED = PrivacyConfig(clip_norm=1.0, noise_multiplier=1.0, sampling_probability=0.1)
_TABLE_VII = reconn.transposed_cnn()
ROWS: dict[str, Row] = {
    "MLP 10,000": factory("mlp", 10_000),
    "MLP 10,000 Adam": factory("mlp", 10_000, optimiser="adam"),
    "MLP 10,000 random start": factory("mlp", 10_000, initialisation="random"),
    "MLP 1,000 in the span": factory("mlp", 1000),
    "MLP 1,000 batches of 128": factory("mlp", 1000, batch_size=128),
    "MLP 1,000 batches of 128 unknown": factory(
        "mlp", 1000, batch_size=128, shuffling="unknown"
    ),
    "MLP 10,000 batches of 1,024 unknown": factory(
        "mlp", 10_000, batch_size=1024, shuffling="unknown"
    ),
    "MLP 10,000 private": factory("mlp", 10_000, privacy=_PRIVATE),
    "MLP 10,000 private sampled": factory("mlp", 10_000, privacy=_SAMPLED),
    "MLP (100) 10,000": factory("mlp", 10_000, widths=(100,)),
    "MLP (1000, 1000) 10,000": factory("mlp", 10_000, widths=(1000, 1000)),
    "from_haiku 10,000 private": factory("mlp", 10_000, taps=False, privacy=_PRIVATE),
    "CNN 500": factory("cnn", 500),
    "CNN 5,000": factory("cnn", 5000),
    "CNN 5,000 whole": factory("cnn", 5000, form="whole"),
    "CNN 5,000 Toom-Cook": factory("cnn", 5000, form="toom-cook"),
    "CNN 50,000": factory("cnn", 50_000),
    "CNN 5,000 batches of 128": factory("cnn", 5000, batch_size=128),
    "CNN 5,000 private": factory("cnn", 5000, privacy=_PRIVATE),
    "RecoNN MLP": network(7960, MNIST),
    "RecoNN Table VII": network(55_208, CIFAR, module=_TABLE_VII),
    "RecoNN LPIPS and GAN": network(
        55_208,
        CIFAR,
        loss=reconn.Loss(lpips=1.0, adversarial=0.01),
        module=_TABLE_VII,
    ),
    "inversion in the span": inversion_in_span,
    "response": response_of_the_fixed_set,
    "stationary": stationary_curvature,
    "seeds": seed_search,
    "KKT": kkt_descent,
    "bilevel": bilevel_attack,
}


@contextlib.contextmanager
def planned() -> Iterator[Mesh]:
    """Inside, programs are traced as on the card that is given."""
    with devices.as_on_an_accelerator(FREE):
        yield card()


def measure(names: list[str]) -> dict[str, dict[str, Any]]:
    """Compile and read these rows; an error is a row's result."""
    found: dict[str, dict[str, Any]] = {}
    with planned() as on:
        for name in names:
            started = time.monotonic()
            try:
                line = ROWS[name](on)
            except Exception as error:  # what fails is what is looked for
                line = {"failed": f"{type(error).__name__}: {error}"[:300]}
            line["seconds"] = round(time.monotonic() - started, 1)
            found[name] = line
            print(json.dumps({"program": name, **line}), file=sys.stderr, flush=True)
    return found


def summary(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The JSON line."""
    whole = [line for line in found.values() if "failed" not in line]
    exact = [line for line in whole if not line.get("rounds")]
    return {
        "programs": len(found),
        "failed": len(found) - len(whole),
        "largest_memory_fraction": max(line["memory_fraction"] for line in whole),
        "products_below_highest": sum(line["below_highest"] for line in exact),
        "scatters": sum(found[n].get("scatters", 0) for n in found if is_factory(n)),
        "seconds": round(sum(line["seconds"] for line in found.values()), 1),
    }


def is_factory(name: str) -> bool:
    """Whether a row is a program of the factory."""
    return name.startswith(("MLP", "CNN", "from_haiku"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose names begin so")
    arguments = parser.parse_args()
    names = [name for name in ROWS if name.startswith(arguments.only)]
    print(json.dumps(summary(measure(names))))


if __name__ == "__main__":
    main()
