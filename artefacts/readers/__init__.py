"""Readers: what the fields that an estimator stores tell of the missing row.

class_means    means of classes: naive Bayes, discriminants, nearest centroid
centres        KMeans
counts         naive Bayes on counts, presences and categories; dummies
forests        trees, forests and boosting, by `artefacts.trees`
linear         linear predictors at the optimum of a smooth loss, by `artefacts.glm`
moments        means and second moments: scalers, decompositions, covariances
networks       multilayer perceptrons: what running training again would need
order          extremes, medians, quantiles, edges of bins
rows           training rows as they are: neighbours, support vectors, kernels
sparse_linear  Lasso and elastic net
vocabularies   categories, classes, words

Each registers itself for the classes that it reads. A new reader is one file here, with
one `register` at its end, and its name in the import below.
"""

from artefacts.readers import (  # noqa: F401 (each registers itself)
    centres,
    class_means,
    counts,
    forests,
    linear,
    moments,
    networks,
    order,
    rows,
    sparse_linear,
    vocabularies,
)
