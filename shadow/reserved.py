"""Whether a worker that was given a GPU has one.

A JAX without CUDA trains on the CPU and says so in a warning that nobody sees on a
cluster: ten times slower, on a node that is paid for.
"""

import os
import sys

import jax

from shadow import devices

# Set by Slurm where a job has GPUs.
_OF_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
INSTALL = "pip install 'informed-adversary[cuda12]' (or cuda13); see docs/gpus.md"


class NoAcceleratorError(RuntimeError):
    """A GPU was reserved, and JAX has none."""


def require(what: str) -> None:
    """Raise NoAcceleratorError where JAX runs on a CPU, and nobody said that it should.

    Args:
      what: who reserved a GPU, as the subject of a sentence: "Ray".
    """
    if not _cpu_is_meant() and jax.default_backend() == "cpu":
        raise NoAcceleratorError(
            f"{what} reserved a GPU for this worker, and JAX found none: it would train"
            f" on the CPU. Install a JAX that uses it: {INSTALL}; or reserve none; or"
            " say that the CPU is meant: JAX_PLATFORMS=cpu."
        )


def prepare() -> None:
    """Of a process that is going to train on what is here, before JAX is used."""
    # CUDA counts cards as NVIDIA's driver does, which is asked for their free memory.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    check()


def check() -> None:
    """Of a worker that begins: as `require` under Slurm; else a hint where it helps."""
    slurm = next((name for name in _OF_SLURM if os.environ.get(name)), "")
    if slurm:
        require(f"Slurm ({slurm}={os.environ[slurm]})")
        return
    if (
        not _cpu_is_meant()
        and devices.has_nvidia_driver()
        and jax.default_backend() == "cpu"
    ):
        print(
            "This machine has an NVIDIA driver, and JAX runs on the CPU. To use the"
            f" GPU: {INSTALL}. To say that the CPU is meant: JAX_PLATFORMS=cpu.",
            file=sys.stderr,
        )


def _cpu_is_meant() -> bool:
    return os.environ.get("JAX_PLATFORMS") == "cpu"
