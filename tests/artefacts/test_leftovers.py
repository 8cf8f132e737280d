"""Finding 3: what stripping leaves of the training set is removed or named.

The scan is independent of the product's: a pickler that notes every array which a
pickle of an attribute would write.
"""

import contextlib
import functools
import io
import pickle
import warnings

import numpy as np
import pytest
from sklearn import cluster, linear_model, manifold, neighbors, pipeline, preprocessing
from sklearn.utils import all_estimators
from sklearn.utils._test_common.instance_generator import _construct_instances

from artefacts import sanitise

ROWS = 41


class Spy(pickle._Pickler):
    """Notes arrays as they are pickled; `pickle._Pickler` is the one in Python."""

    def __init__(self):
        super().__init__(io.BytesIO(), protocol=4)
        self.arrays = []

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, np.ndarray):
            self.arrays.append(obj)
        return super().save(obj, save_persistent_id)


def arrays_of(value):
    spy = Spy()
    # What can't be pickled can't be shipped; what came before it counts.
    with contextlib.suppress(TypeError, AttributeError, pickle.PicklingError):
        spy.dump(value)
    return spy.arrays


def told_by(arrays, x):
    """Whether one of them is a training set long, or holds one of its rows."""
    for array in arrays:
        if ROWS in array.shape:
            return True
        if (
            array.ndim == 2
            and array.shape[1] == x.shape[1]
            and array.dtype.kind in "fiu"
        ):
            for row in array:
                if np.isclose(x, row, rtol=1e-9, atol=0).all(axis=1).any():
                    return True
    return False


@functools.cache
def data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(ROWS, 4)) + np.repeat([0.0, 3.0], [20, 21])[:, None]
    return np.abs(x) + 0.1, (np.arange(ROWS) >= 20).astype(int)


def fit(estimator):
    """Fitted on rows and labels, rows alone, or whatever it takes; None: neither."""
    x, y = data()
    for arguments in ((x, y), (x, x[:, :2]), (x,), (x[:, 0], y), (y,)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return estimator.fit(*arguments), arguments[0]
        except Exception:  # whatever an estimator says to data of another kind
            continue
    return None, None


def instances():
    for name, kind in all_estimators():
        try:
            made = next(iter(_construct_instances(kind)))
        except Exception:
            continue
        yield pytest.param(made, id=name)


def takes(fitted, rows):
    """Whether it transforms the rows; estimators that learn nothing fit to anything."""
    try:
        getattr(fitted, "transform", lambda rows: rows)(rows)
    except (AttributeError, TypeError, ValueError):
        return hasattr(fitted, "predict")
    return True


def named(removed, prefix=""):
    return [
        word.strip().split(" ")[0].removeprefix(prefix)
        for each in removed
        if each.action.startswith("kept")
        for word in each.field.replace(":", ",").split(",")
    ]


@pytest.mark.parametrize("estimator", instances())
def test_finding_3_nothing_of_the_rows_is_left_without_a_name(estimator):
    fitted, rows = fit(estimator)
    if fitted is None:
        pytest.skip("it takes other data than 41 rows of numbers")
    if rows.ndim == 1 or not takes(fitted, rows):
        pytest.skip("its input is no table of numbers")
    before = {
        name
        for name, value in vars(fitted).items()
        if told_by(arrays_of(value), data()[0])
    }
    made = sanitise(fitted, rows, known=rows)
    kept = named(made.removed)
    for name, value in vars(made.estimator).items():
        if told_by(arrays_of(value), data()[0]):
            assert any(word.split(".")[0].split("[")[0] == name for word in kept), (
                f"{name} of {type(fitted).__name__} is left and not named; {kept}"
            )
    told = " ".join(each.field for each in made.removed)
    for name in before:
        assert name in told


@pytest.mark.parametrize(
    ("estimator", "field", "action"),
    [
        (cluster.HDBSCAN(copy=True), "_raw_data", "removed"),
        (neighbors.NearestNeighbors(), "_tree", "kept"),
        (linear_model.HuberRegressor(max_iter=1000), "outliers_", "removed"),
        (preprocessing.OneHotEncoder(), "categories_", "kept"),
        (preprocessing.QuantileTransformer(n_quantiles=20), "quantiles_", "kept"),
        (
            pipeline.make_pipeline(
                manifold.Isomap(n_components=2), linear_model.Ridge()
            ),
            "isomap.nbrs_._tree",
            "kept",
        ),
        (cluster.KMeans(3, init=data()[0][[1, 5, 30]], n_init=1), "init", "removed"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
@pytest.mark.parametrize("compared", [True, False], ids=["rows", "shapes"])
def test_finding_3_named_examples(estimator, field, action, compared):
    fitted, rows = fit(estimator)
    if not compared and field == "init":
        pytest.skip("three rows are no training set long")
    made = sanitise(fitted, rows, known=rows if compared else None)
    assert made.compared is compared
    assert made.equal
    told = {each.field: each for each in made.removed}
    assert told[field].action.startswith(action)
    assert told[field].why
    if action == "kept":
        assert told[field] in made.kept


def test_settings_without_rows_in_them_stay():
    x, y = data()
    model = linear_model.RidgeCV(alphas=[0.1, 1.0, 10.0]).fit(x, y)
    for known in (x, None):
        made = sanitise(model, x, known=known)
        assert made.estimator.alphas == [0.1, 1.0, 10.0]
