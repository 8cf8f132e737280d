"""Reports of audits and runs: the document, its HTML page, tables and pictures."""

from informed.report.plots import (
    distance_histogram,
    png,
    reconstruction_grid,
    show,
    table,
)

__all__ = ["distance_histogram", "png", "reconstruction_grid", "show", "table"]
