"""What scikit-learn artefacts tell of the one training row that is not known.

reconstruct   an estimator, and its answer
reading       the walk over all leaves
contents      every array that an artefact holds
sanitise      a copy without what predictions don't need
registry      readers by class: `register` adds one
files         skops files and tables
page          one HTML page
"""

from artefacts.answer import Answer, Line
from artefacts.findings import Finding, Leaf, Removed
from artefacts.reconstruct import reconstruct
from artefacts.registry import register
from artefacts.sanitise import Sanitised, sanitise

__all__ = [
    "Answer",
    "Finding",
    "Leaf",
    "Line",
    "Removed",
    "Sanitised",
    "reconstruct",
    "register",
    "sanitise",
]
