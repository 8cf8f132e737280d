"""Settings that did something else than they said, or nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from informed.cli.commands import main
from uninformed import homogeneous
from uninformed import max_margin as margin
from uninformed.deletion import data, remedies, services
from uninformed.deletion.config import DeletionConfig
from uninformed.homogeneous import HomogeneousConfig
from uninformed.max_margin import MarginConfig


def test_the_least_loss_of_squared_errors_is_no_logarithm(rng):
    points = rng.normal(size=(20, 5))
    labels = (points[:, 0] > 0).astype(int)
    config = MarginConfig(loss="mse", route="none", least_loss=0.3, fitting_steps=4000)
    network = homogeneous.init(HomogeneousConfig(widths=(16,)), 5, jax.random.key(0))
    trained = margin.train(config, network, points.astype(np.float32), labels)
    outputs = homogeneous.apply(trained, jnp.asarray(points, jnp.float32))
    assert 0.25 < float(margin.loss("mse", outputs, jnp.asarray(labels))) <= 0.3


def test_squared_errors_are_of_one_output(rng):
    network = homogeneous.init(
        HomogeneousConfig(widths=(16,), outputs=3), 5, jax.random.key(0)
    )
    config = MarginConfig(loss="mse", route="none", fitting_steps=1)
    points = rng.normal(size=(6, 5)).astype(np.float32)
    with pytest.raises(ValueError, match="one output"):
        margin.train(config, network, points, np.arange(6) % 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"models": ()},
        {"methods": ()},
        {"noise": (-1.0,)},
        {"noise": (float("nan"),)},
        {"data": "diabetes", "models": ("ridge", "logistic")},
    ],
)
def test_settings_of_deletions_that_mean_nothing(changes):
    with pytest.raises(ValueError, match=next(reversed(changes))):
        DeletionConfig(**changes)


def test_the_nearest_of_many_rows_has_a_control():
    """A guess that is a row of nobody's is as near to any twenty rows."""
    config = DeletionConfig(data="wine", batches=(12,), targets=20)
    sides = data.split(config)
    service = services.make("ridge", config, sides)
    rng = np.random.default_rng(0)
    made = remedies.batches(
        config, service, sides, lambda _: rng.normal(size=sides.service.x.shape[1])
    )["12"]
    assert made["nearest"] == pytest.approx(made["nearest_of_nobodys"], abs=0.1)
    assert made["nearest"] > 0.3, "chance alone"


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (["--config=x.py", "--workdir=w", "--card=h100"], "--card"),
        (["--config=x.py", "--workdir=w", "--sample=0"], "--sample"),
        (["info", "store", "--worker=3/16"], "--worker"),
        (["plan", "--config=x.py", "--launcher=ray"], "--launcher"),
    ],
)
def test_options_of_other_actions_are_refused(options, option, capsys):
    with pytest.raises(SystemExit):
        main(["shadow", *options])
    assert f"{option} is of `informed shadow" in capsys.readouterr().err
