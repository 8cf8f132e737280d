"""Training in single precision: no value is told more exactly than it was computed."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import MinMaxScaler

from artefacts import reconstruct, sanitise
from artefacts.findings import ReconstructionImpossibleError


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


def test_a_stripped_scaler_tells_no_last_digit():
    """Of single precision "exactly 6.9999995" was told, and 7 had been trained on."""
    told = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = np.round(rng.uniform(-9, 9, size=(20, 4)) * 7).astype(np.float32) / 7
        row = int(rng.integers(20))
        scaler = sanitise(MinMaxScaler().fit(x), x).estimator
        try:
            found = reconstruct(scaler, np.delete(x, row, axis=0))
        except ReconstructionImpossibleError:
            continue
        told += int((found.upper - found.lower < 1e-3).sum())
        assert (found.lower <= x[row]).all()
        assert (x[row] <= found.upper).all()
    assert told
