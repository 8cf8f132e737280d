"""The hardware of this machine: cores, caches, memory, JAX devices, determinism.

Commands set devices up before JAX starts (`one_a_core`, `make_deterministic`,
`cpu_only`). `width`, `plan` and attacks ask for memory and caches; commits of blocks
record the `kind` of device. It reads /proc and /sys, and runs nvidia-smi.
"""

import contextlib
import contextvars
import functools
import importlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_FRESH_S = 5.0  # seconds for which an answer of NVIDIA's driver is reused
_UNKNOWN_MEMORY = 8 << 30  # bytes assumed if unknown: about the smallest card's
# Memory of the accelerator that is planned for; None: that of this machine.
_planned: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "memory of an accelerator that is not here", default=None
)
# With these flags XLA takes the same kernels in every process. Without timing, Triton's
# first choice of a product's tiles may not compile, so cuBLAS computes products.
DETERMINISTIC = (
    "--xla_gpu_deterministic_ops=true",
    "--xla_gpu_autotune_level=0",
    "--xla_gpu_enable_triton_gemm=false",
)


def one_a_core() -> None:
    """Show every core to JAX as a separate device; does nothing to accelerators.

    The factory then trains one batch per core without barriers inside each operation:
    14 % faster on two cores.

    Raises: RuntimeError: JAX has been used already.
    """
    jax.config.update("jax_num_cpu_devices", num_cores())


def num_cores() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cache_bound() -> bool:
    """Return whether training is fast only in pieces that fit a core's cache: on a CPU.

    `as_on_an_accelerator` answers otherwise.
    """
    return _planned.get() is None and jax.default_backend() == "cpu"


@functools.cache
def columns_alike() -> bool:
    """Return whether matrix products sum all columns in one order, for `parallel`.

    Without AVX-512 the library behind XLA's products on a CPU (oneDNN, jaxlib 0.10)
    sums the last few in another order, in some layouts, at widths from 8 to 8,000:
    equal columns then differ in their last bits. The test has 56 columns, which showed
    it in every layout that ever did, at all depths from 20 to 1,000.
    """
    if not cache_bound():
        return True  # for GPUs see `DETERMINISTIC`
    rng = np.random.default_rng(0)
    column, matrix = rng.random(64, np.float32), rng.random((64, 20), np.float32)
    equal = np.tile(column, (56, 1))
    tall = np.ascontiguousarray(equal.T)
    for axes in ("ij,jk->ik", "ij,jk->ki", "ji,jk->ik", "ji,jk->ki"):
        product = jax.jit(functools.partial(jnp.einsum, axes, precision="highest"))
        result = product(equal if axes.startswith("ij") else tall, matrix)
        columns = np.asarray(result if axes.endswith("ik") else result.T)
        if not (columns == columns[0]).all():
            return False
    return True


@contextlib.contextmanager
def as_on_an_accelerator(free_bytes: int) -> Iterator[None]:
    """Trace programs inside as for an accelerator with so much free memory."""
    token = _planned.set(free_bytes)
    try:
        yield
    finally:
        _planned.reset(token)


def cpu_only() -> None:
    """Keep this process from opening an accelerator; one that is open stays open."""
    jax.config.update("jax_platforms", "cpu")


def free_bytes() -> int:
    """Return the bytes that this process may still take of each of its accelerators.

    That is JAX's limit less what is in use, and no more than other processes leave.
    """
    planned = _planned.get()
    if planned is not None:
        return planned
    return min(_free_bytes_of(device) for device in jax.local_devices())


def _free_bytes_of(device: Any) -> int:
    stats, number = device.memory_stats() or {}, device.local_hardware_id or 0
    limit = stats.get("bytes_limit", _UNKNOWN_MEMORY)
    names = _visible()  # JAX numbers the cards among these
    name = names[number] if names and number < len(names) else str(number)
    left = _free_on(name, int(time.monotonic() / _FRESH_S))
    if left is not None:
        limit = min(limit, left + stats.get("pool_bytes", stats.get("bytes_in_use", 0)))
    return max(0, limit - stats.get("bytes_in_use", 0))


@functools.lru_cache(maxsize=64)
def _free_on(name: str, _: int) -> int | None:
    """Return the free bytes of a card, by NVIDIA's driver; None: it doesn't answer."""
    answer = _asked(
        f"--id={name}", "--query-gpu=memory.free", "--format=csv,noheader,nounits"
    )
    return int(answer) << 20 if answer and answer.isdigit() else None


def has_nvidia_driver() -> bool:
    """Return whether NVIDIA's driver is installed, even if JAX doesn't use it."""
    return shutil.which("nvidia-smi") is not None


def card_names() -> list[str]:
    """Name the NVIDIA cards that this process may see, without opening one."""
    names = _visible()
    if names is not None:
        return names
    lines = (_asked("--list-gpus") or "").splitlines()
    return [str(i) for i in range(sum(line.startswith("GPU ") for line in lines))]


def _visible() -> list[str] | None:
    """Return the cards in CUDA_VISIBLE_DEVICES; None: unset, so all are visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    names = [name.strip() for name in visible.split(",")]
    return [name for name in names if name not in ("", "-1")]


def _asked(*query: str) -> str | None:
    """Query NVIDIA's driver; None: it doesn't answer."""
    try:
        answer = subprocess.check_output(
            ["nvidia-smi", *query], stderr=subprocess.DEVNULL, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.strip()


def memory_bytes() -> int:
    """Return the physical memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cache_bytes() -> int:
    """Return the second-level cache of one core; 1 MiB where it can't be read."""
    file = Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
    try:
        return int(file.read_text().strip().removesuffix("K")) * 1024
    except (OSError, ValueError):
        return 1 << 20


def kind() -> str:
    """Describe what decides bits: devices, processor or libraries, flags of XLA."""
    devices = jax.local_devices()
    name = devices[0].device_kind
    if devices[0].platform == "cpu":
        name = f"{platform.machine()}, {_processor()}, {num_cores()} cores"
    else:
        runtime = " ".join(devices[0].client.platform_version.split())
        name = ", ".join(part for part in (name, runtime, _cuda()) if part)
    flags = os.environ.get("XLA_FLAGS", "")
    return f"{devices[0].platform}: {name} x {len(devices)} {flags}".strip()


def repeats_bits(kind: str) -> bool:
    """Return whether two processes on devices of this kind make the same bits.

    On a GPU XLA chooses kernels by timing them anew in each process, unless flags
    forbid it (`DETERMINISTIC`). `kind` is what the function of that name returned.
    """
    return kind.startswith("cpu:") or set(DETERMINISTIC) <= set(kind.split())


def make_deterministic() -> None:
    """Have XLA take the same kernels in every process; call it before using JAX."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    own = {flag.partition("=")[0] for flag in DETERMINISTIC}
    kept = [flag for flag in flags if flag.partition("=")[0] not in own]
    os.environ["XLA_FLAGS"] = " ".join([*kept, *DETERMINISTIC])


@functools.cache
def _cuda() -> str:
    """Return versions of driver, cuBLAS and cuDNN; "" where JAX isn't on CUDA."""
    for plugin in ("jax_cuda12_plugin", "jax_cuda13_plugin"):
        with contextlib.suppress(Exception):  # a library may be missing
            versions = importlib.import_module(f"{plugin}._versions")
            return (
                f"driver {versions.cuda_driver_get_version()},"
                f" cuBLAS {versions.cublas_get_version()},"
                f" cuDNN {versions.cudnn_get_version()}"
            )
    return ""


@functools.cache
def _processor() -> str:
    """Return the model of the processor; read on Linux."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
