"""What victims are trained on: shares, offsets, and a control that is apart."""

import numpy as np
import pytest

from uninformed.kkt import training_images
from uninformed.kkt.training_images import PointsConfig


def test_a_version_of_a_data_set_is_the_same_task(monkeypatch, digits):
    """CIFAR-10 is vehicles against animals by any of its names."""
    monkeypatch.setattr(training_images.sources, "load", lambda name, data_dir: digits)
    plain, versioned = (
        training_images.load(PointsConfig(name=name))
        for name in ("cifar10", "cifar10:3.0.2")
    )
    np.testing.assert_array_equal(plain.labels, versioned.labels)
    np.testing.assert_array_equal(plain.images, versioned.images)
    assert plain.fingerprint() == versioned.fingerprint()


def test_training_and_held_out_images_are_disjoint():
    images = training_images.load(PointsConfig(name="digits", points=20, held_out=500))
    seen = {image.tobytes() for image in images.images}
    assert not seen & {image.tobytes() for image in images.held_out}
    np.testing.assert_array_equal(np.bincount(images.labels), [10, 10])
    np.testing.assert_allclose(images.points.mean(axis=0), 0, atol=1e-6)


def test_an_offset_passes_over_the_first_of_each_class():
    both = training_images.load(PointsConfig(name="digits", points=30))
    later = training_images.load(PointsConfig(name="digits", points=20, offset=5))
    for label in (0, 1):
        np.testing.assert_array_equal(
            both.images[both.labels == label][5:], later.images[later.labels == label]
        )


def test_too_many_points_are_refused():
    for change in ({"points": 1790}, {"offset": 1790}):
        field, value = next(iter(change.items()))
        with pytest.raises(ValueError, match=rf"{field} (is )?{value}"):
            training_images.load(PointsConfig(name="digits", classes="all", **change))


def test_a_file_names_training_images_and_those_of_the_control(tmp_path, rng):
    file = tmp_path / "mine.npz"
    arrays = {
        "images": rng.random((5, 4, 4)),
        "labels": np.array([0, 1, 1, 1, 0]),
        "held_out": rng.random((9, 4, 4)),
        "held_out_labels": np.arange(9) % 2,
    }
    np.savez(file, **arrays)
    plain = training_images.given(PointsConfig(name=str(file)))
    np.testing.assert_allclose(plain.points, arrays["images"].reshape(5, 16), rtol=1e-6)
    np.testing.assert_array_equal(plain.held_out_labels, arrays["held_out_labels"])
    np.savez(file, **arrays, mean=np.full((4, 4), 0.5))
    shifted = training_images.given(PointsConfig(name=str(file)))
    np.testing.assert_allclose(shifted.points, plain.points - 0.5, atol=1e-6)
    np.savez(file, **arrays | {"held_out_labels": np.zeros(9, int)})
    with pytest.raises(ValueError, match="fewer held-out images of class 1 than the 3"):
        training_images.given(PointsConfig(name=str(file)))
    np.savez(file, **arrays | {"held_out": rng.random((9, 4, 5))})
    with pytest.raises(ValueError, match="of one shape"):
        training_images.given(PointsConfig(name=str(file)))


def test_of_other_data_another_program_sees_pixels_as_they_are():
    images = training_images.given(PointsConfig(name="digits", points=20))
    np.testing.assert_array_equal(images.points, images.images.reshape(20, -1))
