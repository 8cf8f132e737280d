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


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"points": 1790, "classes": "all"}, "points (is )?1790"),
        ({"offset": 1790, "classes": "all"}, "offset 1790"),
        ({"points": 3}, "Expected points"),
        ({"held_out": 2}, "Expected held_out"),
    ],
)
def test_shares_that_do_not_come_out_even_are_refused(change, match):
    with pytest.raises(ValueError, match=match):
        training_images.load(PointsConfig(**{"name": "digits"} | change))


def test_another_program_sees_pixels_less_the_mean_of_the_file(tmp_path, digits):
    config = PointsConfig(name=str(tmp_path / "mine.npz"), points=20)
    arrays = {"images": digits.images, "labels": digits.labels}
    for mean in (0.0, 0.5):
        np.savez(config.name, **arrays, mean=np.full((8, 8), mean))
        images = training_images.given(config)
        flat = images.images.reshape(20, -1)
        np.testing.assert_allclose(images.points, flat - mean, atol=1e-6)
    np.savez(config.name, **arrays, mean=np.zeros(3))
    with pytest.raises(ValueError, match=r"^name is .* whose mean has shape \(3,\)"):
        training_images.given(config)


def test_a_mean_in_another_layout_is_refused(tmp_path, rng):
    images = rng.random((60, 6, 5, 3), dtype=np.float32)
    config = training_images.PointsConfig(
        name=str(tmp_path / "mine.npz"), classes="all", points=10, held_out=40
    )
    arrays = {"images": images, "labels": np.arange(60) % 2}
    mean = images.mean(axis=0)
    for given in (mean, mean.ravel()):
        np.savez(config.name, **arrays, mean=given)
        assert np.array_equal(training_images.given(config).shift, mean)
    for wrong in (mean.transpose(2, 0, 1), 255 * mean):
        np.savez(config.name, **arrays, mean=wrong)
        with pytest.raises(ValueError, match="whose mean has shape"):
            training_images.given(config)
