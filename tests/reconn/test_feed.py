"""Every row once an epoch, in the order asked for, and nothing else."""

import numpy as np
import pytest

from reconn import feed as feeding
from reconn.feed import Batches


@pytest.mark.parametrize("ahead", [1, 1000, 1 << 20])
@pytest.mark.parametrize("batch_size", [1, 7, 40, 100])
def test_the_rows_in_their_order(ahead, batch_size, rng, monkeypatch):
    monkeypatch.setattr(feeding, "_AHEAD_BYTES", ahead)
    inputs = rng.random((40, 5), dtype=np.float32)
    images = rng.random((40, 2, 3, 1), dtype=np.float32)
    feed = Batches(inputs, images, batch_size=batch_size)
    order = rng.permutation(40)
    parts = list(feed.epoch(order))
    whole = 40 // feed.batch_size * feed.batch_size
    for values, at in ((inputs, 0), (images, 1)):
        found = np.concatenate(
            [part[at].reshape(-1, *values.shape[1:]) for part in parts]
        )
        np.testing.assert_array_equal(found, values[order[:whole]])
    assert sum(len(part[0]) for part in parts) == feed.steps
    assert {part[0].shape[1] for part in parts} == {min(batch_size, 40)}


def test_an_error_in_the_thread_reaches_the_caller(rng):
    inputs = rng.random((4, 5), dtype=np.float32)
    feed = Batches(inputs, inputs.reshape(4, 5, 1, 1), batch_size=2)
    with pytest.raises(IndexError):
        list(feed.epoch(np.arange(3, 7)))
