"""Networks: the row by running training again, where the artefact allows it."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import informed

MISSING = 7


@pytest.fixture(scope="module")
def rows():
    x, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(x)[::4], y[::4]


def fitted(x, y, **settings):
    model = MLPClassifier(
        (4,),
        activation="tanh",
        solver="sgd",
        learning_rate_init=0.1,
        max_iter=30,
        batch_size=len(x),
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(x, y)


def test_a_seeded_network_gives_the_row(rows):
    x, y = rows
    model = fitted(x, y, random_state=3)
    known = np.delete(x, MISSING, axis=0), np.delete(y, MISSING)
    told = informed.reconstruct_sklearn(model, *known, position=MISSING, retrain=True)
    assert told.certified
    assert told.y == y[MISSING]
    assert (told.lower <= x[MISSING]).all()
    assert (x[MISSING] <= told.upper).all()
    np.testing.assert_allclose(told.value, x[MISSING], atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "retrain", "note"),
    [
        ({"random_state": 3}, False, "Everything it needs is stored"),
        ({"random_state": None}, True, "its seed"),
    ],
)
def test_it_says_what_is_missing_and_claims_nothing(settings, retrain, note, rows):
    x, y = rows
    model = fitted(x, y, **settings)
    told = informed.reconstruct_sklearn(model, x[1:], y[1:], retrain=retrain)
    assert not told.determined.any()
    assert not told.certified
    assert any(note in each for line in told.lines for each in line.finding.notes)
