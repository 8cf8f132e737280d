"""Pictures, tables and pages of finished attacks.

pictures  PNG files and the table of a run
figures   SVG figures of a page, for light and dark
words     the answer in two sentences, and other sentences about numbers
page      one HTML file out of a document
report    the result of an audit or a run; JSON and CSV of it
"""

from informed.report.pictures import (
    distance_histogram,
    png,
    reconstruction_grid,
    show,
    table,
)

__all__ = [
    "distance_histogram",
    "png",
    "reconstruction_grid",
    "show",
    "table",
]
