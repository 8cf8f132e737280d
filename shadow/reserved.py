"""A check that a worker uses the GPU that Ray or Slurm reserved for it.

A JAX without CUDA trains on the CPU, ten times slower, and its warning is easily missed
on a paid cluster. Commands that train call `prepare`, and Ray tasks `require`.
"""

import os
import sys

import jax

from shadow import devices

# Variables that Slurm sets where a job has GPUs.
_OF_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
INSTALL = "pip install '.[cuda12]' (or cuda13); see docs/clusters.md"


class NoAcceleratorError(RuntimeError):
    """A GPU was reserved, and JAX has none."""


def require(what: str) -> None:
    """Raise NoAcceleratorError where JAX is on a CPU, unless JAX_PLATFORMS=cpu says so.

    Args:
      what: the scheduler that reserved a GPU, as the subject of a sentence: "Ray".
    """
    if not _cpu_is_meant() and jax.default_backend() == "cpu":
        raise NoAcceleratorError(
            f"{what} reserved a GPU for this worker, and JAX found none: it would train"
            f" on the CPU. Install a JAX that uses it: {INSTALL}; or reserve none; or"
            " say that the CPU is meant: JAX_PLATFORMS=cpu."
        )


def prepare() -> None:
    """Prepare a process to train on this machine's devices, before JAX is used.

    Under Slurm call `require`; elsewhere print a hint if a GPU isn't used.
    """
    # Number cards as NVIDIA's driver does, which `devices` asks for free memory.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
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
