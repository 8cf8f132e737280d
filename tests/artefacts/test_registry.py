"""The package alone, without JAX; an estimator of one's own, by one `register`."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn import base, pipeline, preprocessing

from artefacts import Finding, Removed, reconstruct, register, registry, sanitise
from artefacts.findings import around
from artefacts.glm import ReconstructionImpossibleError
from tests.artefacts.planted import answer, table

ALONE = """
import sys
import artefacts
ours = [each for each in sys.modules if each.partition(".")[0] in ("informed", "jax")]
assert not ours, ours[:5]
"""
AGAIN = """
import numpy as np, warnings
from sklearn import datasets, neural_network
import artefacts
warnings.simplefilter("ignore")
x, y = datasets.load_iris(return_X_y=True)
model = neural_network.MLPClassifier((2,), solver="lbfgs", max_iter=3, random_state=0)
artefacts.reconstruct(model.fit(x, y), x[1:], y[1:])
try:
    artefacts.reconstruct(model, x[1:], y[1:], retrain=True)
except artefacts.findings.ReconstructionImpossibleError as error:
    print(error)
"""


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_importing_it_brings_neither_jax_nor_the_packages_above():
    run(ALONE)


def test_networks_need_the_package_above_only_to_train_again():
    assert "use informed.reconstruct_sklearn" in run(AGAIN)
    import informed

    assert informed.reconstruct_sklearn is reconstruct
    for name in ("MLPClassifier", "MLPRegressor"):
        assert registry.kind_of(name).retrain is not None


class MeanShift(base.TransformerMixin, base.BaseEstimator):
    """Subtracts the mean row, and keeps the spread that nothing uses."""

    def fit(self, X, y=None):
        self.middle_ = np.mean(X, axis=0)
        self.spread_ = np.std(X, axis=0)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X - self.middle_


def read(leaf):
    row = leaf.count * leaf.estimator.middle_ - leaf.known.sum(axis=0)
    return [Finding(field="middle_", tells="the row", **around(row, 1e-9))]


def strip(estimator):
    del estimator.spread_
    return [
        Removed(field="spread_", action="removed", helps=False, why="nothing uses it")
    ]


def inverse(transformer, bounds, features):
    return bounds[0] + transformer.middle_, bounds[1] + transformer.middle_


def test_an_estimator_of_ones_own_is_one_register(monkeypatch):
    x, y = table("wine")
    alone = MeanShift().fit(x)
    with pytest.raises(ReconstructionImpossibleError, match="no reader for MeanShift"):
        answer(alone, x, y, 3)
    monkeypatch.setattr(registry, "KINDS", dict(registry.KINDS))
    register("MeanShift", read, strip=strip, inverse=inverse)
    found = answer(alone, x, y, 3)
    assert found.determined.all()
    np.testing.assert_allclose(found.value, x[3])
    stripped = sanitise(alone, x)
    assert stripped.equal
    assert [each.field for each in stripped.removed if each.helps is False] == [
        "spread_"
    ]
    assert not hasattr(stripped.estimator, "spread_")
    np.testing.assert_allclose(answer(stripped.estimator, x, y, 3).value, x[3])
    # What a model behind it tells comes back through `inverse`.
    behind = pipeline.make_pipeline(MeanShift(), preprocessing.MinMaxScaler())
    lines = answer(behind.fit(x, y), x, y, 3).lines
    (scaled,) = [line for line in lines if line.estimator == "MinMaxScaler"]
    assert (scaled.lower <= x[3] + 1e-9).all()
    assert (x[3] <= scaled.upper + 1e-9).all()
    assert np.isfinite(scaled.lower).all()


def test_it_is_gone_with_its_row():
    x, y = table("wine")
    with pytest.raises(ReconstructionImpossibleError, match="no reader for MeanShift"):
        answer(MeanShift().fit(x), x, y, 3)


def test_columns_that_are_not_given_stay(monkeypatch):
    monkeypatch.setattr(registry, "KINDS", dict(registry.KINDS))
    before = registry.kind_of("PCA")
    register(("PCA", "Mine"), read)
    assert registry.kind_of("PCA").read is read
    assert registry.kind_of("PCA").inverse is before.inverse is not None
    assert registry.kind_of("Mine") == registry.Kind(read=read)
    assert registry.kind_of("Nobody") == registry.Kind()
