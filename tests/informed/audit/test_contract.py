"""The training function: found, called, and what it returns as arrays."""

import sys

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from informed.audit import contract
from shadow import released

MINE = """
import helper
PRIVACY = {"steps": 3, "noise_multiplier": 1.0}
def train(images, labels, seed: int):
    return helper.double(images.mean())
def predict(released, images):
    return images
"""


def with_annotated(images, labels, number: int):
    return images


def with_whole_option(images, labels, epochs: int = 10):
    return images


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (lambda images, labels, key: images, "key"),
        (lambda images, labels, seed: images, "seed"),
        (with_annotated, "seed"),
        (with_whole_option, "nothing"),
        (lambda images, labels, epochs=3: images, "nothing"),
        (lambda images, labels: images, "nothing"),
        (lambda images, labels, key, *, noise_multiplier=1.0: images, "key"),
        (lambda *a: a, "key"),
    ],
)
def test_what_the_third_argument_is(function, takes):
    assert contract.takes_of(function) == takes


@pytest.mark.parametrize(
    "function", [lambda images: 0, lambda a, b, c, d: 0, lambda a, b, c, *, d: 0]
)
def test_what_cannot_be_called_is_refused(function):
    with pytest.raises(ValueError, match=r"take \(images, labels, key\)"):
        contract.takes_of(function)


def test_a_function_in_a_file(tmp_path):
    (tmp_path / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    file = tmp_path / "mine_of_test.py"
    file.write_text(MINE)
    found = contract.load_training(f"{file}:train")
    assert found.takes == "seed"
    assert found.privacy == {"steps": 3, "noise_multiplier": 1.0}
    assert found.train(np.ones(3), None, 0) == 2
    assert found.predict is not None
    file.write_text(MINE + "\n# changed\n")
    assert contract.load_training(f"{file}:train").version != found.version
    with pytest.raises(ValueError, match=r"has no function 'trian'.*'train'"):
        contract.load_training(f"{file}:trian")
    with pytest.raises(ValueError, match=r"FILE\.py:FUNCTION"):
        contract.load_training("mine.train")


def test_a_file_that_cannot_be_run_is_an_error_in_a_line(tmp_path):
    file = tmp_path / "broken_of_test.py"
    file.write_text("1 / 0")
    with pytest.raises(ValueError, match=r"broken_of_test.py can't be read: ZeroDiv"):
        contract.load_training(f"{file}:train")


def test_buffers_count_and_prefixes_are_cut():
    torch = pytest.importorskip("torch")
    inner = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    state = {f"_module._orig_mod.{k}": v for k, v in inner.state_dict().items()}
    names = sorted(part.name for part in released.parts(state))
    assert names == sorted(part.name for part in released.parts(inner))
    assert "1.running_mean" in names
    total = sum(np.size(part.array) for part in released.parts(inner))
    assert total == 3 * 4 + 4 + 4 * 4 + 1
    inner.register_buffer("rows", torch.ones(5, dtype=torch.complex64), False)
    inner[0].kept = torch.ones(7)  # no state_dict has it
    arrays = {part.name: part.array for part in released.parts([inner])}
    np.testing.assert_array_equal(arrays["0/rows"], np.array([[1.0] * 5, [0.0] * 5]))
    assert released.left_out([inner]) == ["0/0.kept"]


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        MLPClassifier((4,), max_iter=2),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_estimators_are_taken_apart_and_put_together(estimator, rng):
    x, y = rng.standard_normal((30, 5)), np.arange(30) % 3
    fitted = estimator.fit(x, y)
    theta = np.concatenate([np.ravel(part.array) for part in released.parts(fitted)])
    again = released.with_theta(fitted, theta)
    np.testing.assert_allclose(again.predict_proba(x), fitted.predict_proba(x))
    zeros = released.with_theta(fitted, 0 * theta + 1)
    assert np.abs(zeros.predict_proba(x) - fitted.predict_proba(x)).max() > 0.01


@pytest.mark.parametrize("model", [LinearRegression(), Ridge(), PoissonRegressor()])
def test_a_regressors_intercept_is_released(model, rng):
    """It is a single number there; without it the template's would be used."""
    x, y = rng.standard_normal((30, 5)), rng.integers(1, 9, 30)
    first, second = (clone(model).fit(x, outputs) for outputs in (y, y + 1))
    assert "intercept_" in [part.name for part in released.parts(first)]
    theta = np.concatenate([np.ravel(p.array) for p in released.parts(second)])
    again = released.with_theta(first, theta)
    np.testing.assert_array_equal(again.predict(x), second.predict(x))


def test_leaves_without_numbers_are_left_out():
    tree = {"w": np.ones(2), "f": len, "key": jax.random.key(0), "name": "x", "n": 3}
    assert [part.name for part in released.parts(tree)] == ["n", "w"]
    with pytest.raises(ValueError, match="without any array"):
        released.parts({"f": len})


def test_a_file_that_was_edited_is_read_again(tmp_path):
    file = tmp_path / "edited_training.py"
    (tmp_path / "beside_it.py").write_text("RATE = 1\n")
    file.write_text("def train(images, labels):\n    return 1\n")
    first = contract.load_training(f"{file}:train")
    file.write_text(
        "from beside_it import RATE\ndef train(images, labels):\n    return 1 + RATE\n"
    )
    second = contract.load_training(f"{file}:train")
    assert (first.version == second.version) is False
    assert second.train(None, None) == 2
    assert first.train(None, None) == 1, "an audit has one code from first to last"
    file.write_text("from beside_it import RATE\ndef train(x, y):\n    return 9\n")
    assert contract.load_training(f"{file}:train").train(None, None) == 9
    sys.modules.pop("beside_it")
