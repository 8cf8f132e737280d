"""Training in processes: who opens which accelerator."""

import os
import time

import jax
import numpy as np
import pytest
from joblib.externals import loky

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


def trained(split, train, width=6, **settings):
    algorithm = shadow.PythonFunction(train=train, version="1", **settings)
    factory = shadow.Factory(
        algorithm=algorithm, fixed=split.fixed, key=jax.random.key(0), width=width
    )
    return factory.train(split.shadow.take(slice(0, 6)))


def test_processes_that_train_open_no_backend_of_jax(split):
    """On a GPU each would hold the whole card."""
    # Processes are kept, and those of an earlier test may have used JAX.
    loky.get_reusable_executor().shutdown(wait=True)
    found = trained(split, backends)
    assert os.getpid() not in found[:, 1]
    np.testing.assert_array_equal(found[:, 0], 0)


@pytest.mark.parametrize("visible", ["4,7", "5"])
def test_what_trains_on_cards_has_one_process_a_card(split, monkeypatch, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = trained(split, card, width=3, on_cards=True)
    assert os.getpid() not in found[:, 1]
    cards = {int(pid): {int(c) for c, p in found if p == pid} for pid in found[:, 1]}
    assert all(len(seen) == 1 for seen in cards.values())
    assert len(cards) == len(visible.split(",")), "the same processes for all batches"
    assert set.union(*cards.values()) == set(map(int, visible.split(",")))


def test_the_layout_of_what_trains_on_cards_is_found_on_one(split, monkeypatch):
    """The process that asks opens no card."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6")

    def train(images, labels, key):
        return {"card": np.full(3, float(os.environ["CUDA_VISIBLE_DEVICES"]))}

    algorithm = shadow.PythonFunction(train=train, version="1", on_cards=True)
    layout = algorithm.layout(split.fixed)
    assert [(part.name, part.shape) for part in layout] == [("card", (3,))]


def test_a_function_that_uses_jax_stays_on_the_cpu_in_its_process(split):
    def train(images, labels, key):
        return np.array([jax.config.jax_platforms == "cpu"], float)

    np.testing.assert_array_equal(trained(split, train), 1)
