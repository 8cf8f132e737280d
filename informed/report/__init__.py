"""Reports of audits and runs; `plots` is exported, the rest is imported by module."""

from informed.report.plots import (
    distance_histogram,
    png,
    reconstruction_grid,
    show,
    table,
)

__all__ = ["distance_histogram", "png", "reconstruction_grid", "show", "table"]
