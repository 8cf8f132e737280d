"""Pictures, tables and pages of finished attacks.

pictures  PNG files and the table of a run
figures   SVG figures of a page, for light and dark
words     the answer in two sentences, and other sentences about numbers
page      one HTML file out of a document
workdir   the document of any work directory
"""

from informed.report.pictures import (
    ATTACKS,
    distance_histogram,
    png,
    reconstruction_grid,
    show,
    table,
)

__all__ = [
    "ATTACKS",
    "distance_histogram",
    "png",
    "reconstruction_grid",
    "show",
    "table",
]
