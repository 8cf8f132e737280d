import dataclasses

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import pairwise_distances

import reconn
from reconn import kernel
from reconn.kernel import Kernel
from reconn.ridge import RIDGES, Regression, squared_errors
from reconn.shrinkage import Shrinkage, best_weight
from shadow import ConfigurationMismatchError, ShadowModels
from tests.reconn.planted import history, part, read_out, train


@pytest.fixture
def planted(digits, rng):
    """Weights that bend with the target, and differently for each label."""
    images, labels = digits.images[:900], digits.labels[:900]
    mixing = rng.normal(size=(10, 64, 90)).astype(np.float32)
    bent = np.einsum("ni,nij->nj", images.reshape(900, 64), mixing[labels])
    return ShadowModels(weights=np.tanh(bent / 8), images=images, labels=labels)


METHODS = {
    "kernel": Kernel(),
    "network": reconn.Network(module=reconn.mlp(widths=(8,)), epochs=1),
}


def fitted(models, config):
    """A fit on these models, which validate it too."""
    rows = models.weights, models.images, models.labels
    model, _ = kernel.fit(*rows, config, validation=rows)
    return model


def test_against_scikit_learn(planted):
    """One label: the same kernel, centred the same way, in another library."""
    config = Kernel(scale=3.0, ridge=1e-2)
    rows = planted.labels == 4
    x, images = planted.weights[rows], planted.images[rows]
    found = dataclasses.replace(
        fitted(part(planted, np.flatnonzero(rows)[:60]), config), second={}, mixed=False
    )
    squared = pairwise_distances(x[:60].astype(float)) ** 2
    scale = 3.0 * np.median(squared[np.triu_indices(60, 1)])

    def values(distances):
        return 1 / np.sqrt(1 + distances / scale)

    flat = images.reshape(len(images), -1)
    ridge = KernelRidge(alpha=1e-2, kernel="precomputed")
    ridge.fit(values(squared), flat[:60] - flat[:60].mean(axis=0))
    between = pairwise_distances(x[60:].astype(float), x[:60].astype(float)) ** 2
    expected = ridge.predict(values(between)) + flat[:60].mean(axis=0)
    np.testing.assert_allclose(
        found(x[60:]).reshape(len(expected), -1), np.clip(expected, 0, 1), atol=2e-4
    )


def test_a_planted_target_is_read_back(planted, key, tmp_path):
    """Unseen targets and their labels; shuffled weights teach nothing."""
    seen, unseen = part(planted, slice(0, 800)), part(planted, slice(800, None))

    def kernel_of(models, name):
        return train(models, Kernel(), key=key, workdir=tmp_path / name)

    found = kernel_of(seen, "true")
    errors = np.mean((read_out(found, unseen.weights) - unseen.images) ** 2)
    baseline = np.mean((seen.images.mean(axis=0) - unseen.images) ** 2)
    assert errors < 0.25 * baseline
    inputs = found.standardiser(unseen.weights)
    assert np.mean(found.model.labelled(inputs)[1] == unseen.labels) > 0.9
    (line,) = history(tmp_path / "true")
    assert line["validation_mse"] < 0.3 * baseline
    shuffled = ShadowModels(
        weights=seen.weights[::-1], images=seen.images, labels=seen.labels
    )
    control = kernel_of(shuffled, "control")
    assert (
        np.mean((read_out(control, unseen.weights) - unseen.images) ** 2)
        > 0.8 * baseline
    )
    # What was saved is what was trained, and another run isn't mixed up with it.
    loaded = reconn.load(tmp_path / "true")
    np.testing.assert_array_equal(
        read_out(loaded, unseen.weights), read_out(found, unseen.weights)
    )
    again = kernel_of(seen, "true")
    np.testing.assert_array_equal(
        read_out(again, unseen.weights), read_out(found, unseen.weights)
    )
    other = Kernel(ridge=0.1)
    with pytest.raises(ConfigurationMismatchError, match="ridge"):
        train(seen, other, key=key, workdir=tmp_path / "true")


@pytest.mark.parametrize("kind", ["kernel", "network"])
def test_a_flipped_bit_in_a_kept_reconstructor_is_refused(
    planted, key, tmp_path, rng, kind
):
    train(planted, METHODS[kind], key=key, workdir=tmp_path)
    files = [tmp_path / "reconstructor.safetensors", *tmp_path.glob("kernel/*.npy")]
    for file in files:
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole) // 2, len(whole))] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged|whole \.safetensors file"):
            reconn.load(tmp_path)
        file.write_bytes(whole)
    reconn.load(tmp_path)


def test_a_model_that_validates_is_checked_as_those_that_teach(planted, key, tmp_path):
    planted.weights[-1, 0] = np.nan
    with pytest.raises(ValueError, match="found NaN or infinity"):
        train(planted, Kernel(), key=key, workdir=tmp_path)


@pytest.mark.parametrize("kind", ["kernel", "network"])
@pytest.mark.parametrize("noise", [1e9, 3.0])
def test_under_noise_no_attack_is_worse_than_knowing_nothing(
    planted, key, tmp_path, rng, kind, noise
):
    """Weights drowned in noise, fresh releases: the mean image, or better."""
    drowned = planted.weights + noise * rng.normal(size=planted.weights.shape)
    models = ShadowModels(
        weights=drowned.astype(np.float32), images=planted.images, labels=planted.labels
    )
    seen, unseen = part(models, slice(0, 700)), part(models, slice(700, None))
    module = reconn.mlp(widths=(50,))
    method = Kernel(validation_fraction=0.2)
    if kind == "network":
        method = reconn.Network(module=module, epochs=8, validation_fraction=0.2)
    found = train(seen, method, key=key, workdir=tmp_path)
    errors = np.mean(
        (read_out(found, unseen.weights) - unseen.images) ** 2, axis=(1, 2, 3)
    )
    mean = seen.images.mean(axis=0)
    nothing = np.mean((mean - unseen.images) ** 2, axis=(1, 2, 3))
    apart = errors - nothing
    assert apart.mean() < 3 * apart.std() / np.sqrt(len(apart)) + 1e-6
    loaded = reconn.load(tmp_path)
    np.testing.assert_array_equal(
        read_out(loaded, unseen.weights), read_out(found, unseen.weights)
    )


def test_the_shrinkage_of_least_error(rng):
    """Against a grid; noise is shrunk away, the truth is left alone."""
    mean, truth = rng.random((4, 4, 1)), rng.random((30, 4, 4, 1))
    predicted = truth + 0.4 * rng.normal(size=truth.shape)

    def fitted(images):
        factor = best_weight(images - mean, truth - mean, default=1.0)
        return Shrinkage(mean=mean, factor=factor)

    shrinkage = fitted(predicted)
    grid = np.linspace(0, 1, 1001)
    errors = [np.mean((mean + f * (predicted - mean) - truth) ** 2) for f in grid]
    assert shrinkage.factor == pytest.approx(grid[np.argmin(errors)], abs=1e-3)
    assert np.mean((shrinkage(predicted) - truth) ** 2) == pytest.approx(min(errors))
    assert fitted(truth).factor == pytest.approx(1)
    assert fitted(2 * mean - truth).factor == 0


def test_ridges_are_judged_as_refitting_would(planted):
    """One eigendecomposition for all ridges, against a fit of each."""
    x, images = planted.weights[:200], planted.images[:200].reshape(200, -1)
    unseen, truth = planted.weights[200:240], planted.images[200:240].reshape(40, -1)
    config = Kernel()
    found = squared_errors(x, images, unseen, truth, config.scale)
    for ridge, error in zip(RIDGES, found, strict=True):
        fitted = Regression.fit(x, images, scale=config.scale, ridge=ridge)
        expected = np.sum((fitted(unseen) - truth) ** 2)
        assert error == pytest.approx(expected, rel=1e-3)


def test_labels_with_one_model_or_few_votes(planted):
    """A label that only one shadow model has is still a label."""
    rows = np.flatnonzero(planted.labels < 3)[:80]
    lonely = np.flatnonzero(planted.labels == 7)[:1]
    some = part(planted, np.concatenate([rows, lonely]))
    found = fitted(some, Kernel(voters=40))
    assert np.isfinite(found(planted.weights)).all()
    np.testing.assert_allclose(
        found.of_label[7](some.weights[-1:])[0], some.images[-1].ravel(), atol=1e-6
    )


def test_a_crash_while_saving_leaves_nothing_whole(planted, tmp_path, monkeypatch):
    some = part(planted, slice(0, 60))
    found = fitted(some, Kernel())
    written = []

    def write(path, values):
        if len(written) == 5:
            raise OSError("no space left")
        written.append(path)

    monkeypatch.setattr(kernel.files, "write_array", write)
    with pytest.raises(OSError, match="no space"):
        kernel.save(found, tmp_path)
    with pytest.raises(FileNotFoundError, match="no kernel regression"):
        kernel.load(tmp_path, some.image_shape)
