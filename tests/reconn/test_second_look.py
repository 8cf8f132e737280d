"""The second look, and the regressions that leave models out, against refitting."""

import dataclasses

import numpy as np
import pytest

from reconn import kernel
from reconn.kernel import Kernel
from reconn.ridge import Regression
from reconn.second_look import LEAST


@pytest.fixture
def points(rng):
    features = rng.normal(size=(30, 5)).astype(np.float32)
    values = np.sin(features @ rng.normal(size=(5, 4)))
    return features, values, rng.normal(size=(30, 5)).astype(np.float32)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_leaving_out_is_refitting_without(points, elsewhere):
    """The model's share in the offset goes; the kernel's width stays."""
    features, values, at = points
    values = values + 3.0
    _, found = Regression.fit_left_out(
        features, values, scale=4.0, ridge=1e-2, at=at if elsewhere else None
    )
    whole = Regression.fit(features, values, scale=4.0, ridge=1e-2)
    where = at if elsewhere else features

    def k(left, right):
        apart = np.sum((left[:, None] - right[None]) ** 2, axis=-1, dtype=np.float64)
        return 1 / np.sqrt(1 + apart / whole.width)

    for i in range(len(features)):
        rest = np.arange(len(features)) != i
        gram = k(features[rest], features[rest]) + 1e-2 * np.eye(rest.sum())
        mean = values[rest].mean(axis=0)
        weights = np.linalg.solve(gram, values[rest] - mean)
        expected = mean + k(where[i : i + 1], features[rest]) @ weights
        np.testing.assert_allclose(found[i], expected[0], atol=1e-4)


@pytest.fixture
def bent(rng):
    """One label. What tells the last dimensions is hidden by what the first ones do."""
    codes = rng.normal(size=(700, 6)) * np.array([3.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    images = 0.5 + 0.05 * codes @ rng.normal(size=(6, 16))
    strong = codes[:, :2]
    hiding = np.stack([strong[:, 0] ** 2, strong[:, 1] ** 2, strong.prod(axis=1)], 1)
    weak = codes[:, 2:] @ rng.normal(size=(4, 20)) + hiding @ rng.normal(size=(3, 20))
    theta = np.concatenate([strong, 0.3 * weak], axis=1)
    images = np.clip(images, 0, 1).reshape(-1, 4, 4, 1)
    return theta.astype(np.float32), images.astype(np.float32)


def fitted(theta, images, rows):
    """A fit on these rows, with the last 100 of the first 400 for validation."""
    labels, check = np.full(len(theta), 3), slice(300, 400)
    return kernel.fit(
        theta[rows],
        images[rows],
        labels[rows],
        Kernel(),
        validation=(theta[check], images[check], labels[check]),
        progress=False,
    )[0]


def test_a_second_look_is_nearer(bent):
    theta, images = bent
    found = fitted(theta, images, slice(0, 300))
    assert set(found.second) == {3}
    first = dataclasses.replace(found, second={})
    errors = [
        np.mean((each(theta[400:]) - images[400:]) ** 2) for each in (first, found)
    ]
    assert errors[1] < 0.9 * errors[0]


def test_a_label_of_few_models_has_one_look(bent):
    theta, images = bent
    found = fitted(theta, images, slice(0, LEAST - 1))
    assert not found.second
    assert np.isfinite(found(theta[400:])).all()


def test_noise_gets_no_second_look_that_is_worse(bent, rng):
    """Theta that tells nothing: what is kept is no worse on validation models."""
    _, images = bent
    noise = rng.normal(size=(700, 20)).astype(np.float32)
    found = fitted(noise, images, slice(0, 300))
    first = dataclasses.replace(found, second={}, mixed=False)
    check = slice(300, 400)
    errors = [
        np.mean((each(noise[check]) - images[check]) ** 2) for each in (first, found)
    ]
    assert errors[1] <= errors[0] + 1e-9


def test_what_is_read_back_answers_alike(bent, tmp_path):
    theta, images = bent
    found = fitted(theta, images, slice(0, 300))
    kernel.save(found, tmp_path)
    read = kernel.load(tmp_path, (4, 4, 1))
    np.testing.assert_array_equal(read(theta), found(theta))


def test_labels_are_told_by_the_features_that_differ(rng):
    """Two features in a thousand tell the label; the others see the image."""
    labels = np.repeat(np.arange(4), 100)
    order = rng.permutation(len(labels))
    labels = labels[order]
    corners = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])[labels]
    telling = corners + 0.1 * rng.normal(size=(400, 2))
    features = np.concatenate([telling, rng.normal(size=(400, 998))], axis=1)
    features = features.astype(np.float32)
    images = rng.random((400, 2, 2, 1), np.float32)
    rows = features[:200], images[:200], labels[:200]
    found, _ = kernel.fit(*rows, Kernel(), validation=rows, progress=False)
    assert np.mean(found.labelled(features[200:])[1] == labels[200:]) > 0.95
    plain = dataclasses.replace(
        found,
        label_relevance=np.ones(1000, np.float32),
        label=Regression.fit(
            features[:200], np.eye(4)[labels[:200]], scale=4.0, ridge=1e-3
        ),
    )
    assert np.mean(plain.labelled(features[200:])[1] == labels[200:]) < 0.7
