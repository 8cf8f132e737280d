"""Accelerators by name: what a plan has to know of one."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Card:
    """An accelerator, by its maker's data sheet.

    Attributes:
      title: its name, for people.
      memory_bytes: its memory.
      bytes_per_s: how fast that memory is read and written.
      flops_per_s: float32 operations, without tensor cores: products are made at
        precision "highest".
    """

    title: str
    memory_bytes: int
    bytes_per_s: float
    flops_per_s: float


CARDS = {
    "h100": Card(
        title="NVIDIA H100 SXM",
        memory_bytes=84_942_979_072,
        bytes_per_s=3.35e12,
        flops_per_s=67e12,
    ),
    "h200": Card(
        title="NVIDIA H200 SXM",
        memory_bytes=150_109_880_320,
        bytes_per_s=4.8e12,
        flops_per_s=67e12,
    ),
    "a100": Card(
        title="NVIDIA A100 SXM 80 GB",
        memory_bytes=85_094_825_984,
        bytes_per_s=2.04e12,
        flops_per_s=19.5e12,
    ),
    "l4": Card(
        title="NVIDIA L4",
        memory_bytes=23_622_320_128,
        bytes_per_s=0.3e12,
        flops_per_s=30.3e12,
    ),
}
# The part of a card's memory that JAX takes, unless XLA_PYTHON_CLIENT_MEM_FRACTION says
# otherwise.
JAX_TAKES = 0.75
