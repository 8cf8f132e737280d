"""Training in processes: who opens which accelerator."""

import os
import time

import jax
import numpy as np
import pytest

import shadow


def backends(images, labels, key):
    """How many backends of JAX are open in the process that trains."""
    from jax._src import xla_bridge

    return np.array([len(xla_bridge._backends), os.getpid()], np.float64)


def card(images, labels, key):
    """Which cards the process sees that trains."""
    time.sleep(0.3)
    seen = os.environ["CUDA_VISIBLE_DEVICES"]
    return np.array([float(seen), os.getpid()], np.float64)


def trained(split, train, **settings):
    algorithm = shadow.PythonFunction(train=train, version="1", **settings)
    factory = shadow.Factory(
        algorithm=algorithm, fixed=split.fixed, key=jax.random.key(0), width=6
    )
    return factory.train(split.shadow.take(slice(0, 6)))


def test_processes_that_train_open_no_backend_of_jax(split):
    """On a GPU each would hold the whole card."""
    found = trained(split, backends)
    assert os.getpid() not in found[:, 1]
    np.testing.assert_array_equal(found[:, 0], 0)


@pytest.mark.parametrize("visible", ["4,7", "5"])
def test_what_trains_on_cards_has_one_process_a_card(split, monkeypatch, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = trained(split, card, on_cards=True)
    assert os.getpid() not in found[:, 1]
    cards = {int(pid): {int(c) for c, p in found if p == pid} for pid in found[:, 1]}
    assert all(len(seen) == 1 for seen in cards.values())
    assert len(cards) == len(visible.split(","))
    assert set.union(*cards.values()) == set(map(int, visible.split(",")))
