"""Training in single precision: no value is told more exactly than it was computed."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid

from artefacts import reconstruct


@pytest.mark.parametrize("kind", [NearestCentroid, GaussianNB])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_of_classes_hold_the_row(kind, dtype):
    """NearestCentroid means in single precision and stores in double."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(200, 6)) * rng.uniform(0.1, 50, size=6) + 100
        x, labels = x.astype(np.float32), rng.integers(3, size=200)
        found = reconstruct(kind().fit(x, labels), x[1:].astype(dtype), labels[1:])
        assert (found.lower <= x[0]).all()
        assert (x[0] <= found.upper).all()
