import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import entropy

from informed import cli
from informed.cli.configuration import load_experiment
from informed.metrics.classifier import (
    Classifier,
    ClassifierConfig,
    _convolution,
    train,
)
from informed.runs import evaluation
from informed.runs.stages import Paths
from shadow import Examples, ShadowStore
from tests.informed.commands import SMALL


@pytest.fixture(scope="module")
def trained(digits):
    return train(
        digits.take(np.random.default_rng(0).permutation(1000)),
        ClassifierConfig(epochs=8, batch_size=32),
        key=jax.random.key(0),
        progress=False,
    )


@pytest.mark.slow
def test_it_tells_digits_apart(trained, digits):
    """What it says of its accuracy holds for images it never saw."""
    fresh = digits.take(np.arange(1000, 1797))
    found = trained.log_probabilities(fresh.images).argmax(axis=1)
    assert trained.accuracy > 0.9
    assert np.mean(found == fresh.labels) > 0.88


@pytest.mark.slow
def test_kl_against_scipy(rng):
    """On a network that is a matrix."""
    matrix = rng.normal(size=(16, 5)).astype(np.float32)
    classifier = Classifier(lambda p, x: x.reshape(len(x), -1) @ p, matrix, 1.0)
    one, two = rng.random((2, 7, 4, 4, 1)).astype(np.float32)
    logs = [log_softmax(v.reshape(7, 16) @ matrix, axis=1) for v in (one, two)]
    expected = entropy(np.exp(logs[0]), np.exp(logs[1]), axis=1)
    np.testing.assert_allclose(classifier.kl(one, two), expected, rtol=1e-3, atol=1e-6)
    assert np.abs(classifier.kl(one, one)).max() < 1e-7


@pytest.mark.slow
def test_kl_grows_with_the_damage(trained, digits, rng):
    images = digits.images[1000:1100]
    noisy = [images + s * rng.normal(size=images.shape) for s in (0.05, 0.3)]
    small, large = (trained.kl(images, n.astype(np.float32)).mean() for n in noisy)
    assert 0 < small < large
    other = np.roll(images, 1, axis=0)
    assert large < trained.kl(images, other).mean()


@pytest.mark.slow
def test_save_and_load(trained, digits, tmp_path):
    trained.save(tmp_path / "classifier.npz")
    loaded = Classifier.load(tmp_path / "classifier.npz", digits.image_shape, 10)
    np.testing.assert_array_equal(
        loaded.log_probabilities(digits.images[:9]),
        trained.log_probabilities(digits.images[:9]),
    )
    assert loaded.accuracy == trained.accuracy


@pytest.mark.slow
def test_colour_images(rng):
    """Two classes by hue, which the network for colour tells apart."""
    labels = np.arange(200, dtype=np.int32) % 2
    images = rng.random((200, 16, 16, 3)).astype(np.float32)
    images[labels == 1, :, :, 0] *= 0.5
    examples = Examples(images=images, labels=labels, num_classes=2, name="hues")
    config = ClassifierConfig(epochs=4, batch_size=20)
    found = train(examples, config, key=jax.random.key(0), progress=False)
    assert found.accuracy > 0.9


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


def test_bad_input():
    with pytest.raises(ValueError, match=r"epochs >= 0"):
        ClassifierConfig(epochs=-1)
    with pytest.raises(ValueError, match=r"held_out in \[0, 1\), got 1"):
        ClassifierConfig(held_out=1.0)


FEW = [
    *SMALL,
    "--config.shadow.count=64",
    "--config.data.num_test=6",
    "--config.attacks.reconn.targets=0",
    "--config.attacks.inversion.targets=2",
]


def test_the_classifier_of_kl_sees_no_copy_of_a_target(tmp_path, digits, monkeypatch):
    twice = {
        "images": np.concatenate([digits.images[:400]] * 2),
        "labels": np.concatenate([digits.labels[:400]] * 2),
    }
    np.savez(tmp_path / "twice.npz", **twice)
    arguments = [*FEW, f"--config.data.name={tmp_path / 'twice.npz'}"]
    arguments += ["--config.evaluation.classifier.epochs=1"]
    cli.main(["shadow", *arguments, f"--workdir={tmp_path}", "--quiet"])
    seen, train = [], evaluation.classifier.train

    def noted(examples, *others, **named):
        seen.append(examples.images)
        return train(examples, *others, **named)

    monkeypatch.setattr(evaluation.classifier, "train", noted)
    released = ShadowStore(tmp_path / "released")
    paths = Paths(workdir=tmp_path, shadow=tmp_path, data_dir=None)
    evaluation.classifier_of(load_experiment(arguments), paths, released)
    assert len(seen[0]) == 800 - 2 * 6
    targets = {image.tobytes() for image in released.read().images}
    assert not targets & {image.tobytes() for image in seen[0]}
