"""Several devices: in a process of its own, since JAX counts them once."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jax, numpy as np
import reconn
from reconn.losses import LossConfig
from shadow import ShadowModels, publish

jax.config.update("jax_num_cpu_devices", 4)
rng = np.random.default_rng(0)
images = rng.random((64, 8, 8, 1)).astype(np.float32)
weights = images.reshape(64, 64) @ rng.normal(size=(64, 128)).astype(np.float32)
release = publish(weights)
models = ShadowModels(weights=weights, images=images, labels=np.zeros(64, np.int32))

def config(epochs, batch_size=12):
    return reconn.ReconnConfig(
        widths=(512, 512), epochs=epochs, batch_size=batch_size, input_dropout=0.0,
        dropout=0.0, schedule="constant", loss=LossConfig(adversarial=0.1),
    )

def train(workdir, epochs, devices, **fields):
    return reconn.train(
        models, config(epochs, **fields), key=jax.random.key(0), workdir=workdir,
        devices=jax.devices()[:devices], progress=False,
    )

one = train(sys.argv[1] + "/one", 3, 1)
four = train(sys.argv[1] + "/four", 3, 4)
# The first layer is divided, and so is what it's multiplied by.
parts = [leaf for leaf in jax.tree.leaves(four.model.params) if leaf.size == 128 * 512]
assert len({shard.device for shard in parts[0].addressable_shards}) == 4
assert parts[0].addressable_shards[0].data.size * 4 == parts[0].size
expected = one(release)
np.testing.assert_allclose(four(release), expected, atol=2e-4)
# What four devices have written, one can read, and the other way round.
loaded = reconn.load(sys.argv[1] + "/four", config(3), (8, 8, 1))
np.testing.assert_allclose(loaded(release), four(release), atol=1e-5)
assert np.abs(expected - images).mean() < 0.25
try:
    train(sys.argv[1] + "/odd", 3, 4, batch_size=10)
except ValueError as error:
    assert "multiple of the 4 devices, got 10" in str(error), error
else:
    raise AssertionError("a batch of 10 on 4 devices")
"""


@pytest.mark.slow
def test_four_devices_train_what_one_does(tmp_path):
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], check=True, timeout=300
    )
