"""Deletions: closed forms against retraining, planted answers, controls."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from shadow.checks import FieldError
from tests.informed.commands import ROOT, refused, run
from uninformed.deletion import attack, command, measures, services
from uninformed.deletion.config import DeletionConfig
from uninformed.deletion.data import LabelledRows, split
from uninformed.deletion.models import Affine, Fourier, TanhNetwork, softmax, with_ones

SMALL = DeletionConfig(
    data="wine", targets=4, features=60, width=4, steps=4000, batches=(1, 2)
)


@pytest.fixture(scope="module")
def sides():
    return split(SMALL)


def test_sides_share_no_row_and_the_scale_is_public(sides) -> None:
    rows = [*map(tuple, np.vstack([sides.service.x, sides.public.x, sides.held_out.x]))]
    assert len(set(rows)) == len(rows)
    np.testing.assert_allclose(sides.public.x.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(sides.public.x.std(axis=0), 1, atol=1e-12)


def test_ridge_and_softmax_regression_are_those_of_scikit_learn(sides) -> None:
    f, y = with_ones(sides.service.x), sides.service.y
    ridge = Ridge(alpha=2.0, fit_intercept=False).fit(f, y)
    np.testing.assert_allclose(Affine(False, 2.0).fit(f, y), ridge.coef_.T, atol=1e-9)
    logistic = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12, max_iter=5000)
    logistic.fit(f, y.argmax(axis=1))
    np.testing.assert_allclose(Affine(True, 2.0).fit(f, y), logistic.coef_.T, atol=1e-5)


@pytest.mark.parametrize("gone", [[3], [3, 8, 20]])
@pytest.mark.parametrize("name", ["ridge", "logistic"])
def test_deleting_by_retraining_is_fitting_without(sides, name: str, gone) -> None:
    service = services.make(name, SMALL, sides)
    stay = np.delete(with_ones(sides.service.x), gone, 0)
    fresh = service.model.fit(stay, np.delete(sides.service.y, gone, 0))
    np.testing.assert_allclose(
        service.without(np.array(gone), "retrain"), fresh.ravel(), atol=1e-8
    )


def test_the_hessian_of_softmax_and_network_is_that_of_differences(sides) -> None:
    generator = np.random.default_rng(0)
    rows, step = sides.service, 1e-6
    for name in ("logistic", "network"):
        service = services.make(name, dataclasses.replace(SMALL, steps=20), sides)
        v = generator.normal(size=service.theta.shape)
        slopes = []
        for sign in (1, -1):
            moved = services.make(name, dataclasses.replace(SMALL, steps=20), sides)
            moved.theta = service.theta + sign * step * v
            slopes.append(moved.slope(rows))
        wanted = (slopes[0] - slopes[1]) / (2 * step)
        np.testing.assert_allclose(
            service.curved(v, rows, 1.0), wanted, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", ["ridge", "logistic", "fourier", "network"])
@pytest.mark.parametrize("method", ["retrain", "newton", "ascent"])
def test_with_the_services_own_hessian_the_row_comes_out(
    sides, name: str, method: str
) -> None:
    """What is left to the adversary's error is the Hessian from public rows."""
    service = services.make(name, SMALL, sides)
    target = int(sides.targets[0])
    difference = service.without(np.array([target]), method) - service.theta
    gradient = attack.gradient_of_deleted(
        service, difference, method, sides.service, len(sides.service)
    )
    guess = attack.row_of(service, gradient, sides.public)
    near = measures.cosine(guess, sides.service.x[target])
    exact = name == "ridge" or method == "ascent"
    assert near > (1 - 1e-9 if exact and name != "fourier" else 0.98)


@pytest.mark.parametrize("name", ["ridge", "logistic"])
def test_who_knows_all_other_rows_needs_no_second_model(sides, name: str) -> None:
    service = services.make(name, SMALL, sides)
    for target in sides.targets:
        others = sides.service.without(int(target))
        gradient = attack.informed_gradient(service, others)
        guess = attack.row_of(service, gradient, sides.public)
        assert measures.nearness(guess, sides.service.x[target], guess)["error"] < 1e-5


def test_rows_come_back_from_their_random_features() -> None:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(30, 5))
    fourier = Fourier.draw(5, 80, 3.0, 0)
    near = x[:1] + 0.1 * generator.normal(size=(1, 5))
    found = fourier.invert(fourier(x[:1])[0], np.vstack([x[1:], near]))
    np.testing.assert_allclose(found, x[0], atol=1e-6)


def test_the_attack_does_not_see_the_deleted_row(sides) -> None:
    """Other rows in the service's place, after the fact, change nothing."""
    service = services.make("ridge", SMALL, sides)
    target = int(sides.targets[0])
    difference = service.without(np.array([target]), "retrain") - service.theta
    count = len(sides.service)
    first = attack.gradient_of_deleted(
        service, difference, "retrain", sides.public, count
    )
    changed = services.make("ridge", SMALL, sides)
    changed.rows = LabelledRows(np.zeros_like(sides.service.x), sides.service.y)
    second = attack.gradient_of_deleted(
        changed, difference, "retrain", sides.public, count
    )
    np.testing.assert_array_equal(first, second)


def test_much_noise_leaves_nothing_and_other_seeds_little(sides) -> None:
    config = dataclasses.replace(
        SMALL, models=("ridge",), methods=("retrain",), noise=(1e-6, 1e3), targets=20
    )
    told = command.of_model(config, "ridge", split(config))[0]
    noise = told["remedies"]["noise"]
    assert noise["1e-06"]["cosine"] == pytest.approx(
        told["methods"]["retrain"]["cosine"], abs=1e-3
    )
    assert abs(noise["1000"]["cosine"]) < 0.35
    assert 0.1 < told["methods"]["retrain"]["nearer_to_undeleted"] < 0.9


def test_softmax_does_not_overflow() -> None:
    assert np.isfinite(softmax(np.array([[1e4, -1e4]]))).all()


def test_networks_begin_from_their_seed_and_train(sides) -> None:
    network = TanhNetwork(13, 3, 4, True, 1.0, 200, 0.1)
    one, two = network.initial(0), network.initial(1)
    assert not np.allclose(one, two)
    theta = network.fit(one, sides.service.x, sides.service.y)
    np.testing.assert_array_equal(
        theta, network.fit(one, sides.service.x, sides.service.y)
    )
    service = services.make("network", SMALL, sides)
    assert service.score(service.theta, sides.held_out) > 0.8


def test_the_command_writes_what_it_prints(capsys, tmp_path: Path) -> None:
    config = f"--config={ROOT / 'configs' / 'deletion.py'}:smoke"
    models = "--config.models=('ridge',)"
    folder = f"--workdir={tmp_path}"
    printed = run(capsys, "deletion", config, models, folder, "--json")
    results = json.loads((tmp_path / "results.json").read_text())
    assert json.loads(printed) == results
    assert results["models"]["ridge"]["methods"]["ascent"]["exact"] == 4
    assert (tmp_path / "similarities.png").stat().st_size > 1000
    assert "who knows all other rows" in run(capsys, "deletion", config, models, folder)


def test_bad_configurations_are_named(capsys, tmp_path: Path) -> None:
    config = f"--config={ROOT / 'configs' / 'deletion.py'}:smoke"
    folder = f"--workdir={tmp_path}"
    assert "rigde" in refused(
        capsys, "deletion", config, folder, "--config.models=('rigde',)"
    )
    assert "targets" in refused(
        capsys, "deletion", config, folder, "--config.targets=0"
    )
    with pytest.raises(FieldError, match="rows"):
        split(DeletionConfig(data="wine", rows=170, public=100))
