"""Derivatives by the answer of the known points: against those of training itself."""

import dataclasses

import jax
import numpy as np
import pytest

import shadow
from informed.attacks.inversion import response
from informed.attacks.inversion.derivatives import Differentiated
from informed.threat import Knowledge


@pytest.fixture
def slopes(split, rng, monkeypatch):
    """Of theta, by known points repeated so often, and by whether they answer."""

    def made(repeats, *, answering, **fields):
        monkeypatch.setattr(response, "_FEWEST", 0 if answering else 10**9)
        fixed = dataclasses.replace(
            split.fixed,
            images=np.tile(split.fixed.images, (repeats, 1, 1, 1)),
            labels=np.tile(split.fixed.labels, repeats),
        )
        factory = shadow.Factory(
            algorithm=shadow.GradientDescent(
                victim=shadow.build_victim(
                    shadow.VictimConfig(widths=(6,)),
                    image_shape=(8, 8, 1),
                    num_classes=10,
                ),
                training=shadow.TrainingConfig(**({"epochs": 20} | fields)),
            ),
            fixed=fixed,
            key=jax.random.key(7),
            role="released",
        )
        runs = Differentiated(
            Knowledge.informed(factory),
            tangents=16,
            rank=64,
            width=4,
            draws=3,
            key=jax.random.key(5),
        )
        target = split.test.images[:1].astype(np.float64)
        with jax.enable_x64():
            found = runs.slopes(target, split.test.labels[:1], np.eye(64))
        assert (runs._span._response is not None) == answering
        return found

    return made


@pytest.mark.parametrize(
    "fields", [{}, {"momentum": 0.0, "weight_decay": 0.02}, {"learning_rate": 0.02}]
)
def test_what_is_neglected_falls_with_the_target_s_share(slopes, fields):
    """Known points said k times train alike, and the target weighs 1 / k of it."""
    errors = []
    for repeats in (1, 8):
        exact = slopes(repeats, answering=False, **fields)
        found = slopes(repeats, answering=True, **fields)
        errors.append(np.abs(found - exact).max() / np.abs(exact).max())
    assert errors[1] < errors[0] / 5
    assert errors[1] < 0.02


def test_one_step_has_nothing_to_answer(slopes):
    """After one step theta is theta_0 less the gradients, each its own."""
    exact = slopes(1, answering=False, epochs=1)
    np.testing.assert_allclose(
        slopes(1, answering=True, epochs=1), exact, atol=1e-6 * np.abs(exact).max()
    )


def test_it_is_left_where_it_does_not_fit_or_pay():
    assert response.pays(10_000, 1000, 120, 100)
    assert not response.pays(300, 1000, 120, 100)
    assert not response.pays(10_000, 10_000, 120, 100)
