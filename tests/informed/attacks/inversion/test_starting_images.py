"""Starting images and labels from few shadow models, with planted answers."""

import numpy as np
import pytest

from informed.attacks.inversion.starting_images import by_vote, guess
from shadow.models import ShadowModels

CLASSES, PARAMS, SHAPE = 4, 60, (3, 3, 1)


@pytest.fixture
def drawn(rng):
    """Return (label, count) -> models, whose theta is linear in label and image."""
    of_label = rng.normal(size=(CLASSES, PARAMS))
    of_image = rng.normal(size=(9, PARAMS))

    def drawn(label: int, count: int) -> ShadowModels:
        images = rng.random((count, *SHAPE)).astype(np.float32)
        weights = of_label[label] + images.reshape(count, -1) @ of_image
        weights += 0.01 * rng.normal(size=weights.shape)
        return ShadowModels(
            weights=weights.astype(np.float32),
            images=images,
            labels=np.full(count, label, np.int32),
        )

    return drawn


def test_a_vote_names_the_label_and_a_guess_is_nearer_than_the_mean(drawn):
    shadows = [drawn(label, 40) for label in range(CLASSES)]
    for label in range(CLASSES):
        fresh = drawn(label, 20)
        mean, gains = shadows[label].images.mean(axis=0), []
        for theta, image in zip(fresh.weights, fresh.images, strict=True):
            assert by_vote(shadows, theta)[0] == label
            error = np.mean((guess(shadows[label], theta) - image) ** 2)
            gains.append(np.mean((mean - image) ** 2) / error)
        assert np.median(gains) > 4


def test_labels_may_have_different_numbers_of_models(drawn):
    shadows = [drawn(0, 60), drawn(1, 7)]
    for theta in drawn(1, 5).weights:
        assert by_vote(shadows, theta).tolist() == [1, 0]


def test_a_single_label_needs_no_vote_and_a_single_model_no_regression(drawn):
    alone, theta = drawn(2, 1), drawn(2, 1).weights[0]
    assert by_vote([alone], theta).tolist() == [0]
    np.testing.assert_array_equal(guess(alone, theta), alone.images[0])


def test_copies_of_one_record_are_guessed_as_that_record(drawn):
    one = drawn(3, 1)
    twice = [np.repeat(x, 2, axis=0) for x in (one.weights, one.images, one.labels)]
    models = ShadowModels(weights=twice[0], images=twice[1], labels=twice[2])
    np.testing.assert_array_equal(guess(models, drawn(3, 1).weights[0]), one.images[0])
