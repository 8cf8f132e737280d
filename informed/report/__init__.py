"""Pictures, tables and pages of finished attacks, which `document` holds."""

from informed.report.plots import (
    distance_histogram,
    png,
    reconstruction_grid,
    show,
    table,
)

__all__ = ["distance_histogram", "png", "reconstruction_grid", "show", "table"]
