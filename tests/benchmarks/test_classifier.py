"""The classifier behind KL: what it learns, what it is trained on, and KL itself."""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import entropy

from benchmarks.papers import classifier as classifiers
from benchmarks.papers.classifier import Classifier, _convolution, train
from informed.cli import configuration


@pytest.fixture(scope="module")
def trained(digits):
    return train(
        digits.take(np.random.default_rng(0).permutation(1000)),
        key=jax.random.key(0),
        epochs=8,
        batch_size=32,
    )


@pytest.mark.slow
def test_it_tells_digits_apart(trained, digits):
    fresh = digits.take(np.arange(1000, 1797))
    found = trained.log_probabilities(fresh.images).argmax(axis=1)
    assert trained.accuracy > 0.9
    assert np.mean(found == fresh.labels) > 0.88


@pytest.mark.slow
def test_kl_against_scipy(rng):
    matrix = rng.normal(size=(16, 5)).astype(np.float32)
    classifier = Classifier(lambda p, x: x.reshape(len(x), -1) @ p, matrix, 1.0)
    one, two = rng.random((2, 7, 4, 4, 1)).astype(np.float32)
    logs = [log_softmax(v.reshape(7, 16) @ matrix, axis=1) for v in (one, two)]
    expected = entropy(np.exp(logs[0]), np.exp(logs[1]), axis=1)
    np.testing.assert_allclose(classifier.kl(one, two), expected, rtol=1e-3, atol=1e-6)
    assert np.abs(classifier.kl(one, one)).max() < 1e-7


def test_its_convolution_is_xlas(rng):
    images = jnp.asarray(rng.normal(size=(2, 7, 5, 3)), jnp.float32)
    network = hk.without_apply_rng(hk.transform(lambda x: _convolution(x, 4)))
    params = network.init(jax.random.key(0), images)
    kernel = params["linear"]["w"].reshape(3, 3, 3, 4)
    expected = jax.lax.conv_general_dilated(
        images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    found = network.apply(params, images)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_it_sees_no_copy_of_a_target(tmp_path, digits, monkeypatch):
    file, seen = tmp_path / "twice.npz", []
    images = np.concatenate([digits.images[:400]] * 2)
    np.savez(file, images=images, labels=np.concatenate([digits.labels[:400]] * 2))
    experiment = configuration.load_experiment(
        ["--config=digits", f"--config.data.name={file}"]
    )
    monkeypatch.setattr(
        classifiers, "train", lambda examples, *, key: seen.append(examples.images)
    )
    classifiers.of_run(experiment, np.arange(6))
    assert len(seen[0]) == 800 - 2 * 6
    targets = {image.tobytes() for image in images[:6]}
    assert not targets & {image.tobytes() for image in seen[0]}
