"""Several devices: in a process of its own, since JAX counts them once."""

import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

import reconn
from shadow import ShadowModels

PATIENCE = 1500  # seconds, on a slow machine beside other tests

PROGRAM = """
import sys
import jax, numpy as np, optax
import reconn
from shadow import Knowledge, ShadowModels, publish

jax.config.update("jax_num_cpu_devices", 4)
rng = np.random.default_rng(0)
images = rng.random((64, 8, 8, 1)).astype(np.float32)
weights = images.reshape(64, 64) @ rng.normal(size=(64, 128)).astype(np.float32)
release = publish(weights)
models = ShadowModels(weights=weights, images=images, labels=np.zeros(64, np.int32))

def config(epochs, batch_size=12):
    return reconn.Network(
        module=reconn.mlp(widths=(512, 512), input_dropout=0.0, dropout=0.0),
        optimiser=optax.adamw(5e-4), epochs=epochs, batch_size=batch_size,
        loss=reconn.Loss(adversarial=0.1),
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
expected = one(release, Knowledge()).images
of_four = four(release, Knowledge()).images
np.testing.assert_allclose(of_four, expected, atol=2e-4)
# What four devices have written, one can read, and the other way round.
loaded = reconn.load(sys.argv[1] + "/four")(release, Knowledge()).images
np.testing.assert_allclose(loaded, of_four, atol=1e-5)
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
    program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    subprocess.run(program, check=True, timeout=PATIENCE)


WORKER = """
import sys
import jax, numpy as np, optax
import reconn
from shadow import Knowledge, ShadowModels, publish

folder, address, process, processes = sys.argv[1:3] + [int(n) for n in sys.argv[3:5]]
jax.config.update("jax_num_cpu_devices", 1)
if processes > 1:
    jax.distributed.initialize(address, processes, process)
rng = np.random.default_rng(0)
images = rng.random((64, 8, 8, 1)).astype(np.float32)
weights = images.reshape(64, 64) @ rng.normal(size=(64, 128)).astype(np.float32)
models = ShadowModels(weights=weights, images=images, labels=np.zeros(64, np.int32))
for epochs in (int(n) for n in sys.argv[5:]):
    config = reconn.Network(module=reconn.mlp(widths=(512, 512)),
        optimiser=optax.adamw(5e-4), epochs=3, batch_size=12)
    count = 0

    def stop():
        global count
        count += 1
        if count == epochs:
            raise KeyboardInterrupt

    try:
        made = reconn.train(models, config, key=jax.random.key(0), workdir=folder,
            progress=False, on_epoch=stop)
    except KeyboardInterrupt:
        continue
    guess = made(publish(weights), Knowledge())
    np.save(f"{folder}/images-{process}.npy", guess.images)
"""


def run_workers(folder, processes, *epochs):
    """Train in so many processes; each saves its images."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    running = [
        subprocess.Popen(
            [
                *(sys.executable, "-c", WORKER, str(folder), address),
                *map(str, (process, processes, *epochs)),
            ]
        )
        for process in range(processes)
    ]
    try:
        assert [worker.wait(PATIENCE) for worker in running] == [0] * processes
    finally:
        for worker in running:
            worker.kill()
    return [np.load(folder / f"images-{process}.npy") for process in range(processes)]


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path):
    (expected,) = run_workers(tmp_path / "one", 1, 9)
    # Interrupted after two epochs, and gone on with.
    first, second = run_workers(tmp_path / "two", 2, 2, 9)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, expected, atol=2e-4)


def test_a_kernel_regression_is_one_affair_of_one_process(monkeypatch, tmp_path):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    models = ShadowModels(
        weights=np.zeros((4, 3), np.float32),
        images=np.zeros((4, 2, 2, 1), np.float32),
        labels=np.zeros(4, np.int32),
    )
    with pytest.raises(ValueError, match=r"method to be a Network.*there are 2"):
        reconn.train(models, reconn.Kernel(), key=jax.random.key(0), workdir=tmp_path)
