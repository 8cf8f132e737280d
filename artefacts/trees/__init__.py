"""Trees and forests of scikit-learn, replayed: what they tell of a missing row.

    determined   the answer: bounds, values, what makes it certain
    grown        fitted trees of every estimator, as arrays of nodes
    bags         how often each row was drawn for each tree, from the stored seeds
    paths        which leaf the missing row fell into, from counts
    neighbours   thresholds are midpoints: a value of the missing row, or a bound
    bounds       what all trees say together; values that a column can take
    labels       the missing row's label, from what the nodes store
    stripped     what remains when seeds, or counts, are gone
    histograms   histogram gradient boosting: the edges of its bins
    refits       trees fitted again with the row put back: the certificate
    replay       the attack

THREAT: the estimator is the release; all training rows but one are known, in the order
of the training set (where one is missing need not be known). Source of the idea that
seeds give the bootstrap away, and of the comparison: Ferry et al. 2024, "Trained random
forests completely reveal your dataset" (arXiv:2402.19232), whose attack isn't given
them.
"""

from artefacts.trees.determined import Determined
from artefacts.trees.replay import SUPPORTED, replay, replay_rows

__all__ = ["SUPPORTED", "Determined", "replay", "replay_rows"]
