"""A trained reconstructor is an attack, and its folder is all that it takes."""

import json
import subprocess
import sys

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reconn
from shadow import ConfigurationMismatchError, Knowledge, ShadowModels, publish
from shadow.known import Known, rows_of
from shadow.threat import Attack
from tests.reconn.planted import train

FRESH = """
import sys
import numpy as np
import reconn
from shadow import Knowledge, publish

attack = reconn.load(sys.argv[1])
guess = attack(publish(np.load(sys.argv[2])), Knowledge())
np.save(sys.argv[3], guess.images)
"""


@pytest.fixture
def models(digits, rng):
    images = digits.images[:80]
    weights = images.reshape(80, 64) @ rng.normal(size=(64, 30)).astype(np.float32)
    return ShadowModels(weights=weights, images=images, labels=digits.labels[:80])


def of_haiku(inputs, *, training):
    hidden = jax.nn.relu(hk.Linear(16)(inputs))
    if training:
        hidden = hk.dropout(hk.next_rng_key(), 0.1, hidden)
    return jax.nn.sigmoid(hk.Linear(64)(hidden)).reshape(-1, 8, 8, 1)


def init(key, inputs, training):
    del training
    return [0.01 * jax.random.normal(key, (inputs.shape[1], 64)), (jnp.zeros(64),)]


def apply(params, key, inputs, training):
    del key, training
    images = jax.nn.sigmoid(inputs @ params[0] + params[1][0][None])
    return images.reshape(-1, 8, 8, 1)


def init_deep(key, inputs, training):
    return [0.1 * jax.random.normal(k, (64,)) for k in jax.random.split(key, 12)]


def apply_deep(params, key, inputs, training):
    hidden = jnp.pad(inputs, ((0, 0), (0, 34)))
    for bias in params:  # whose order counts
        hidden = jnp.sin(2 * hidden + bias[None])
    return jax.nn.sigmoid(hidden).reshape(-1, 8, 8, 1)


class Inverted(reconn.mlp):
    def decode(self, hidden, image_shape):
        return -super().decode(hidden, image_shape)


def network(module, **fields):
    defaults = {"optimiser": optax.adamw(1e-2), "epochs": 2, "batch_size": 16}
    return reconn.Network(module=module, **(defaults | fields))


@pytest.mark.parametrize(
    "module",
    [of_haiku, (init, apply), (init_deep, apply_deep), Inverted(widths=(8,))],
    ids=["haiku", "pair", "twelve", "subclass"],
)
def test_a_network_of_ones_own_is_loaded_in_another_process(
    module, models, key, tmp_path
):
    """Without its source; for another number of releases too; bit for bit."""
    pytest.importorskip("flatbuffers")
    attack = train(models, network(module), key=key, workdir=tmp_path / "run")
    np.save(tmp_path / "weights.npy", models.weights[:7])
    arguments = [tmp_path / name for name in ("run", "weights.npy", "images.npy")]
    program = [sys.executable, "-c", FRESH, *map(str, arguments)]
    subprocess.run(program, check=True)
    guess = attack(publish(models.weights[:7]), Knowledge())
    np.testing.assert_array_equal(np.load(tmp_path / "images.npy"), guess.images)
    tuned = train(models, network(module), key=key, start=reconn.load(tmp_path / "run"))
    assert tuned.errors.shape == (4, 8, 8, 1)


def test_another_module_or_optimiser_is_refused_by_its_name(models, key, tmp_path):
    pytest.importorskip("flatbuffers")
    run = {"key": key, "workdir": tmp_path}
    train(models, network(of_haiku), **run)

    def wider(inputs, *, training):
        return of_haiku(2 * inputs, training=training)

    for other, name in (
        (network(wider), "network.module"),
        (network(of_haiku, optimiser=optax.adamw(2e-2)), "network.optimiser"),
        (network(of_haiku, loss=reconn.Loss(mae=0.5)), "network.loss.mae"),
    ):
        with pytest.raises(ConfigurationMismatchError, match=f"{name}: .* there"):
            train(models, other, **run)
    # The same computation, written down elsewhere, is the same.
    again = network(lambda inputs, *, training: of_haiku(inputs, training=training))
    train(models, again, **run)


def test_modules_that_are_none_are_refused(models, key):
    for module, message in (
        (lambda inputs: inputs, "module to be a Haiku function"),
        (lambda inputs, *, training: inputs, r"module to return images of shape"),
    ):
        with pytest.raises(ValueError, match=message):
            train(models, network(module), key=key)


def test_without_a_folder_the_same_and_nothing_is_kept(
    models, key, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, method in (("kernel", reconn.Kernel()), ("network", network(of_haiku))):
        if name == "network":
            pytest.importorskip("flatbuffers")
        alone = train(models, method, key=key)
        assert not list(tmp_path.iterdir())
        folder = tmp_path / "run"
        train(models, method, key=key, workdir=folder / name)
        release = publish(models.weights[:5])
        np.testing.assert_array_equal(
            alone(release, Knowledge()).images,
            reconn.load(folder / name)(release, Knowledge()).images,
        )
        for file in sorted(folder.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
        folder.rmdir()


def test_known_pixels_use_the_errors_on_the_models_that_validate(models, key, tmp_path):
    method = reconn.Kernel(models=60, validation_fraction=0.25)
    attack = train(models, method, key=key, workdir=tmp_path)
    release = publish(models.weights[45:60])
    errors = models.images[45:60] - attack(release, Knowledge()).images
    np.testing.assert_allclose(attack.errors, errors, atol=1e-6)
    known = Known.of(models.images[45:60], rows_of((8, 8, 1), 3))
    guess = attack(release, Knowledge(known=known))
    loaded = reconn.load(tmp_path)(release, Knowledge(known=known))
    np.testing.assert_array_equal(loaded.images, guess.images)
    np.testing.assert_array_equal(guess.images[:, :3], models.images[45:60, :3])
    assert guess.labels is not None


def test_it_is_an_attack_and_a_release_of_another_view_is_refused(models, key):
    attack = train(models, reconn.Kernel(), key=key)
    assert isinstance(attack, Attack)
    view = reconn.trainer.EVERYTHING.__class__(columns=np.arange(30), params=30)
    with pytest.raises(ValueError, match="Expected a release of all weights"):
        attack(publish(models.weights, view), Knowledge())


def test_folders_of_earlier_versions_are_named(models, key, tmp_path):
    train(models, reconn.Kernel(), key=key, workdir=tmp_path)
    file = tmp_path / "run.json"
    record = json.loads(file.read_text())
    record["versions"]["revision of kernel"] = 1
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="revision of kernel: 1 there"):
        reconn.load(tmp_path)
    record["configuration"] = {"reconn": {"kind": "kernel"}}
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="made by an earlier version"):
        reconn.load(tmp_path)
