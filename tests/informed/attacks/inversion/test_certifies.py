"""Which trainings the inversion may certify."""

import jax
import pytest
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from informed.attacks import registry
from informed.attacks.inversion import InversionConfig
from informed.attacks.row import Material


@pytest.mark.parametrize(
    ("estimator", "certifies"),
    [
        (LogisticRegression(max_iter=5), False),
        (LinearSVC(max_iter=5), False),
        (Ridge(), True),
        (MLPClassifier((4,), max_iter=2), True),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_linear_solver_that_stops_by_a_tolerance(estimator, certifies, tmp_path):
    """Of eight answers for such solvers six were certified, all of them wrong."""
    x, y = datasets.make_blobs(40, 6, centers=3, random_state=0)
    material = Material(
        workdir=tmp_path, key=jax.random.key(0), template=estimator.fit(x, y)
    )
    attack = registry.find("inversion").make(InversionConfig(), material)
    assert attack.certifies is certifies
