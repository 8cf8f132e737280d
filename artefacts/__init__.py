"""What scikit-learn artefacts tell of the one training row that is not known.

reconstruct   an estimator, and its answer
sanitise      a copy without what predictions don't need
registry      what is known of each class: `register` adds one

walk, parts   from an estimator to its leaves; `resampled`: members that saw some rows
readers/      what the fields of a leaf tell, one kind of field a file
glm/, trees/  linear models in closed form; trees and forests replayed
span/         models of more features than known rows: the row off their span
reading       the walk over all leaves, each read and carried back by `inverse`
contents      every array that an artefact holds; `stored`: rows in any of them
strip         what can be taken off which estimator
files, page   skops files and tables; one HTML page;  passages: words in order

Imports numpy, scipy and scikit-learn, and no JAX. Networks, whose rows are found by
training again, are searched by `informed.reconstruct_sklearn`.
"""

# Importing these modules fills the registry.
from artefacts import inverse, parts, readers, resampled, strip  # noqa: F401
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
