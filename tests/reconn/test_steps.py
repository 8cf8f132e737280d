"""Batches from the host and batches gathered on the device are the same training."""

import jax
import numpy as np
import pytest

import reconn
from reconn import feed as feeding
from reconn import modules
from reconn.feed import Batches
from reconn.input_layout import InputLayout
from reconn.placement import Placement
from reconn.steps import Steps
from shadow import devices

EPOCHS, BATCH_SIZE, SHAPE = 3, 8, (3, 3, 1)
LAYERS = {"widths": (16,), "dropout": 0.1}


@pytest.fixture
def feed(rng):
    return Batches(
        rng.standard_normal((60, 20), np.float32),
        rng.random((60, *SHAPE), np.float32),
        batch_size=BATCH_SIZE,
    )


def run_of(feed, builder=reconn.mlp, resident=None):
    run = Steps(
        modules.build(
            builder(**LAYERS),
            InputLayout(num_features=20, image_shape=feed.arrays[1].shape[1:]),
        ),
        reconn.adam_cosine()(EPOCHS * feed.steps, feed.steps),
        reconn.Loss(),
        feed,
        epochs=EPOCHS,
        key=jax.random.key(0),
        placement=Placement.of(None),
    )
    run._resident = resident
    return run


def trained(run):
    state, losses = run.start(), []
    for epoch in range(EPOCHS):
        state, loss = run.epoch(state, epoch)
        losses.append(loss)
    return state["params"], losses


def test_who_gathers_makes_no_difference(feed, monkeypatch):
    # Small calls, so that more than two of them are on their way.
    monkeypatch.setattr(feeding, "_MOST_STEPS", 2)
    on_device, losses = trained(run_of(feed, resident=True))
    from_host, others = trained(run_of(feed, resident=False))
    np.testing.assert_allclose(losses, others, rtol=1e-6)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), on_device, from_host
    )
    assert len(set(losses)) == EPOCHS


def test_a_step_at_a_time_is_the_same_training(rng):
    """As convolutions are trained on a CPU, and in a loop, as on an accelerator."""
    feed = Batches(
        rng.standard_normal((60, 20), np.float32),
        rng.random((60, 4, 4, 1), np.float32),
        batch_size=BATCH_SIZE,
    )
    alone = run_of(feed, reconn.transposed_cnn)
    assert alone._one_by_one
    one_by_one, losses = trained(alone)
    with devices.as_on_an_accelerator(64 << 30):
        together = run_of(feed, reconn.transposed_cnn, resident=False)
    assert not together._one_by_one
    in_a_loop, others = trained(together)
    np.testing.assert_allclose(losses, others, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), one_by_one, in_a_loop
    )


def test_the_host_gathers_nothing_where_the_device_does(feed, monkeypatch):
    monkeypatch.setattr(Batches, "epoch", None)
    trained(run_of(feed, resident=True))


@pytest.mark.parametrize("resident", [True, False])
def test_the_device_is_read_once_an_epoch(feed, resident, monkeypatch):
    run = run_of(feed, resident=resident)
    state, _ = run.epoch(run.start(), 0)  # what is read once a run is read
    reads, get = [], jax.device_get

    def counted(parts):
        reads.append(sum(map(len, parts)))
        return get(parts)

    monkeypatch.setattr(jax, "device_get", counted)
    array, asarray = type(jax.numpy.zeros(1)), np.asarray

    def of_the_host(values, *arguments, **settings):
        assert not isinstance(values, jax.Array), "read from the device"
        return asarray(values, *arguments, **settings)

    monkeypatch.setattr(np, "asarray", of_the_host)
    for name in ("__float__", "item", "tolist"):
        monkeypatch.setattr(array, name, None)
    run.epoch(state, 1)
    monkeypatch.undo()
    assert reads == [feed.steps]


def test_features_stay_on_the_host_where_they_would_fill_the_device(feed):
    run, size = run_of(feed), sum(values.nbytes for values in feed.arrays)
    assert not run._is_resident(), "a CPU's own memory is no other place"
    for free, fits in ((2 * size, True), (2 * size - 2, False)):
        with devices.as_on_an_accelerator(free):
            assert run_of(feed)._is_resident() is fits


def test_a_loss_that_is_not_finite_is_named_by_its_step(feed):
    feed.arrays[1][...] = np.nan
    for resident in (True, False):
        run = run_of(feed, resident=resident)
        with pytest.raises(FloatingPointError, match=f"step 1 of {feed.steps}"):
            run.epoch(run.start(), 0)
