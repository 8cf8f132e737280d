"""Precision is part of A: the user's is the user's, the toolkit's is "highest"."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from informed.experiment.training_settings import TrainingConfig
from shadow import victims
from shadow.training import JaxFunction
from shadow.training.algorithm import Draw


def products(images, labels, key):
    x = images.reshape(len(images), -1)
    return x.T @ x


def precisions(function, *arguments):
    """Of every product in a program, as it is lowered."""
    text = jax.jit(function).lower(*arguments).as_text()
    lines = [line for line in text.splitlines() if "dot_general" in line]
    assert lines
    return ["HIGHEST" in line for line in lines]


def run(algorithm):
    data = jnp.ones((3, 2, 2, 1)), jnp.zeros(3, jnp.int32)
    target = jnp.ones((1, 2, 2, 1)), jnp.zeros(1, jnp.int32)
    return lambda fixed: algorithm((fixed, data[1]), *target, Draw(key=None)), data[0]


def test_a_function_of_the_users_is_trained_at_their_precision():
    plain = JaxFunction(train=products, version="1")
    assert plain.precision == "default"
    assert not any(precisions(*run(plain)))
    with jax.default_matmul_precision("highest"):
        exact = JaxFunction(train=products, version="1")
    assert exact.precision == "highest"
    # What was in force then is kept, wherever it is run.
    assert all(precisions(*run(exact)))
    with jax.default_matmul_precision("highest"):
        assert not any(precisions(*run(plain)))


def test_the_record_holds_it():
    found = JaxFunction(train=products, version="1").configuration["algorithm"]
    assert found["matmul_precision"] == "default"


def test_the_toolkits_own_training_is_at_the_highest():
    victim = victims.build(
        victims.VictimConfig(widths=(3,)), image_shape=(2, 2, 1), num_classes=2
    )
    train = TrainingConfig(epochs=2).algorithm(victim).train
    arguments = (
        victim.init(jax.random.key(0)),
        (np.ones((3, 2, 2, 1), np.float32), np.zeros(3, np.int32)),
        (np.ones((2, 2, 1), np.float32), np.int32(1)),
        jax.random.key(1),
    )
    assert all(precisions(train, *arguments))


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="precision"):
        JaxFunction(train=products, version="1", precision="fine")
