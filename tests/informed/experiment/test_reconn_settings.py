"""Names in a configuration become the objects that `reconn` takes."""

import dataclasses

import jax
import numpy as np
import pytest

import reconn
from informed.experiment.named import NamedAttack
from informed.experiment.reconn_settings import (
    KernelReconnConfig,
    KernelSettings,
    ReconnConfig,
    RefinedReconnConfig,
)
from shadow import checks


def test_the_defaults_are_those_of_the_methods():
    optimiser = reconn.adam_cosine()
    network = dataclasses.replace(ReconnConfig().method(), optimiser=optimiser)
    assert network == reconn.Network(optimiser=optimiser)
    assert KernelReconnConfig().method() == reconn.Kernel()
    given, chosen = RefinedReconnConfig().method(), reconn.Refined()
    assert given.optimiser.rule.keywords == chosen.optimiser.rule.keywords
    assert dataclasses.replace(given, optimiser=optimiser) == dataclasses.replace(
        chosen, optimiser=optimiser
    )


@pytest.mark.parametrize("row", ["kernel", "refined", "black_box"])
def test_a_row_is_not_played_by_another_method(row):
    network = dataclasses.asdict(ReconnConfig())
    with pytest.raises(checks.FieldError, match=r"x\.kind.*got 'network'"):
        NamedAttack.from_values({"type": row, **network}, "x")


def test_only_a_module_that_corrects_images_refines():
    with pytest.raises(checks.FieldError, match="architecture = 'residual_cnn' with"):
        RefinedReconnConfig(architecture="mlp")


def test_every_field_reaches_the_method():
    config = ReconnConfig(
        models=9,
        standardise=False,
        architecture="transposed_cnn",
        widths=(64,),
        activation="tanh",
        loss=reconn.Loss(mae=2.0),
        optimiser="adam",
        weight_decay=0.1,
        learning_rate=0.2,
        schedule="constant",
        warmup_epochs=3.0,
        batch_size=7,
        epochs=8,
        input_dropout=0.1,
        dropout=0.3,
        clip=5.0,
        validation_fraction=0.3,
        kept="last",
        shrink=False,
    )
    network = config.method()
    assert network.module == reconn.transposed_cnn(
        widths=(64,), activation="tanh", input_dropout=0.1, dropout=0.3
    )
    for name in ("learning_rate", "warmup_epochs"):
        assert getattr(network.optimiser, name) == getattr(config, name)
    assert network.optimiser.rule.keywords == {"weight_decay": 0.1}
    assert not network.optimiser.decays
    both = {f.name for f in dataclasses.fields(network)} - {"module", "optimiser"}
    for name in both:
        assert getattr(network, name) == getattr(config, name)
    kernel = dataclasses.replace(
        config, kind="kernel", kernel=KernelSettings(scale=2.0, ridge=0.5, voters=3)
    ).method()
    assert kernel == reconn.Kernel(
        scale=2.0,
        ridge=0.5,
        voters=3,
        models=9,
        standardise=False,
        clip=5.0,
        validation_fraction=0.3,
        shrink=False,
    )


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_the_rate_rises_and_falls_or_stays(optimiser, schedule):
    """The size of the first and the last update, of a slope that stays."""
    network = ReconnConfig(optimiser=optimiser, schedule=schedule, epochs=10).method()
    rule = network.optimiser_for(5)
    params = np.zeros(3, np.float32)
    state, sizes = rule.init(params), []
    for _ in range(50):
        change, state = rule.update(np.ones(3, np.float32), state, params)
        sizes.append(float(abs(jax.device_get(change)).max()))
    assert sizes[0] == 0
    assert sizes[5] == pytest.approx(5e-4, rel=1e-3)
    assert (sizes[-1] < 1e-5) == (schedule == "cosine")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "kernal"}, r"kind.*'kernel'"),
        ({"optimiser": "rmspop"}, r"optimiser.*Did you mean 'rmsprop'"),
        ({"schedule": "cos"}, r"schedule to be one of"),
        ({"architecture": "cnn"}, r"architecture to be one of"),
        ({"activation": "Relu"}, r"activation.*Did you mean 'relu'"),
        ({"learning_rate": 0.0}, r"learning_rate > 0"),
        ({"validation_fraction": 1.0}, r"validation_fraction in \[0, 1\), got 1"),
        ({"epochs": 0}, r"epochs >= 1"),
        ({"kernel": KernelSettings(ridge=0.0)}, r"kernel.ridge > 0"),
        (
            {"optimiser": "rmsprop", "weight_decay": 0.1},
            r"weight_decay is of the optimiser 'adam'",
        ),
    ],
)
def test_bad_configurations_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ReconnConfig(**fields)
