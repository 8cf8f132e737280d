"""Every program of a GPU, compiled for an H100: `python -m benchmarks.cuda`.

XLA's compiler for NVIDIA's cards is in build/gate (`make gate`); it exists for Linux on
x86-64.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
WHEELS = ROOT / "build" / "gate"
# Kernels of a step, compiled by jaxlib 0.10.2. A tenth more would be noticed.
KERNELS = {
    "MLP 10,000": 22,
    "MLP 10,000 Adam": 24,
    "MLP 10,000 random start": 22,
    "MLP 1,000 in the span": 20,
    "MLP 1,000 batches of 128": 23,
    "MLP 1,000 batches of 128 unknown": 23,
    "MLP 10,000 batches of 1,024 unknown": 23,
    # Noise of four draws, rounded, and lengths in units of the largest slope took 31 to
    # 36, and 54 to 62.
    "MLP 10,000 private": 36,
    "MLP 10,000 private sampled": 36,
    "MLP (100) 10,000": 22,
    "MLP (1000, 1000) 10,000": 32,
    # Ghost norms off the trace. Per-example gradients took 30, in a loop of 200 turns.
    "from_haiku 10,000 private": 44,
    "CNN 500": 56,
    "CNN 5,000": 36,
    "CNN 5,000 whole": 56,
    "CNN 5,000 Toom-Cook": 47,
    "CNN 50,000": 37,
    "CNN 5,000 batches of 128": 57,
    "CNN 5,000 private": 62,
    "RecoNN MLP": 35,
    "RecoNN Table VII": 42,
    "RecoNN LPIPS and GAN": 194,
    "inversion in the span": 49,
    "response": 33,
    "stationary": 32,
    "seeds": 335,
    "KKT": 28,
    "bilevel": 67,
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (WHEELS / "jax_cuda12_plugin").exists(), reason="`make gate` wasn't run"
    ),
]


def benchmark(program):
    """What a program prints, in a process that has the compiler."""
    paths = os.pathsep.join([str(WHEELS), str(ROOT)])
    return subprocess.run(
        [sys.executable, *program],
        env=os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.fixture(scope="module")
def compiled():
    """The lines of all programs, and the last one."""
    found = benchmark(["-m", "benchmarks.cuda"])
    lines = [
        json.loads(line)
        for line in found.stderr.splitlines()
        if line.startswith('{"program"')
    ]
    return {line["program"]: line for line in lines}, json.loads(found.stdout)


def test_all_of_them_compile_and_fit(compiled):
    lines, summary = compiled
    failed = {name: line["failed"] for name, line in lines.items() if "failed" in line}
    assert failed == {}
    assert summary["programs"] == len(KERNELS)
    assert summary["largest_memory_fraction"] <= 0.8
    assert lines["MLP 10,000"]["width"] == 512


def test_products_are_exact_and_the_factory_scatters_nothing(compiled):
    lines, summary = compiled
    assert summary["products_below_highest"] == 0
    assert summary["scatters"] == 0
    assert all(
        line["products"] for name, line in lines.items() if name.startswith(("M", "C"))
    )


@pytest.mark.parametrize("name", KERNELS)
def test_a_step_starts_no_more_kernels_than_it_did(name, compiled):
    assert compiled[0][name]["kernels"] <= 1.1 * KERNELS[name]


PLANTED = """
import json, jax, jax.numpy as jnp
from benchmarks import cuda, hlo
on = cuda.card()
x = jnp.zeros((256, 256))
def rounded(x):
    return x @ x
def exact(x):
    return jnp.dot(x, x, precision="highest")
def scattered(x):
    return x.at[x[:, 0].astype(int), 3].add(x[0])
def looped(x):
    return jax.lax.fori_loop(0, 9, lambda i, y: jnp.sin(exact(y)), x)
for function in (rounded, exact, scattered, looped):
    about = hlo.read(cuda.compiled(cuda.lower(on, jax.jit(function), x)))
    print(json.dumps([about.products, about.below_highest, about.scatters]))
"""


def test_what_is_planted_is_found():
    """A rounded product, an exact one, a scatter, and an exact one in a loop."""
    found = [json.loads(x) for x in benchmark(["-c", PLANTED]).stdout.splitlines()]
    assert found[0] == [1, 1, 0]
    assert found[1] == [1, 0, 0]
    assert found[2][2] == 1
    assert found[3] == [1, 0, 0]
