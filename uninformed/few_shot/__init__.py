"""Heads trained on one record a class, read by whoever has the weights alone.

The setting of Maciazek and Allison 2025 (arXiv 2505.14323): a linear head on a frozen
encoder, trained by full-batch gradient descent on a few records of each class. The
adversary knows encoder, recipe and other records of the same distribution, and none of
the training set. They train a network on millions of such heads; here training itself
is inverted, with no head trained.

heads    the training, and what it makes of the records' inner products
prior    what other records tell of an embedding
attack   the records whose training ends at these weights
"""
