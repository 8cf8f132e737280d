"""Attribute inference, beside the conditional mean of a normal distribution."""

import dataclasses

import jax
import numpy as np
import pytest

import informed
from informed.attacks import registry
from informed.attacks.attack_row import Material
from informed.attacks.inversion.gauss_newton import Linearised, Slopes
from informed.attacks.mean_image import mean_image
from informed.experiment.named import NamedAttack
from informed.play import play
from shadow import Examples, ShadowModels, publish
from shadow.known import Known, rows_of
from shadow.threat import Knowledge

_SHAPE = (4, 1, 1)


def _normal(count, seed=0):
    """Images of four pixels, normal around 0.5, and their covariance."""
    root = np.random.default_rng(1).normal(size=(4, 4)) / 20
    draws = np.random.default_rng(seed).normal(size=(count, 4))
    images = 0.5 + draws @ root
    return images.reshape(-1, *_SHAPE).astype(np.float32), root.T @ root


def _conditional_mean(images, covariance, known):
    told = images.reshape(len(images), -1)[:, known] - 0.5
    gain = covariance[np.ix_(~known, known)] @ np.linalg.inv(
        covariance[np.ix_(known, known)]
    )
    return 0.5 + told @ gain.T


def _examples(images):
    labels = np.zeros(len(images), np.int32)
    return Examples(images=images, labels=labels, num_classes=2, name="normal")


def _nothing(count):
    return publish(np.zeros((count, 3), np.float32))


@pytest.mark.parametrize("told", [False, True])
def test_the_mean_image_becomes_the_conditional_mean(told):
    images, covariance = _normal(20_000)
    targets, _ = _normal(50, seed=2)
    mask = rows_of(_SHAPE, 2)
    knowledge = Knowledge(
        fixed=_examples(images),
        known=Known.of(targets, mask),
        labels=np.zeros(50, np.int32) if told else None,
    )
    found = mean_image(_nothing(50), knowledge, key=jax.random.key(0)).images
    expected = _conditional_mean(targets, covariance, mask.ravel())
    np.testing.assert_allclose(found[:, 2:, 0, 0], expected, atol=2e-3)
    np.testing.assert_array_equal(found[:, :2], targets[:, :2])


def test_no_unknown_pixel_is_kept():
    targets, _ = _normal(3)
    known = Known.of(targets, rows_of(_SHAPE, 1))
    assert np.isnan(known.values[:, 1:]).all()
    assert np.isfinite(known.values[:, :1]).all()


@pytest.mark.parametrize("rows", [0, 4, 7])
def test_all_or_nothing_is_refused(rows):
    with pytest.raises(ValueError, match=rf"known in \[1, 3\], got {rows}"):
        rows_of(_SHAPE, rows)


def test_values_off_the_mask_are_refused():
    targets, _ = _normal(3)
    with pytest.raises(ValueError, match=r"NaN elsewhere; 9 differ"):
        Known(mask=rows_of(_SHAPE, 1), values=targets)


def test_known_pixels_of_examples_are_those_of_their_images():
    targets, _ = _normal(3)
    known = Known.of(_examples(targets), rows_of(_SHAPE, 1))
    np.testing.assert_array_equal(known.values, Known.of(targets, known.mask).values)


def test_as_many_targets_as_releases():
    targets, _ = _normal(3)
    known = Known.of(targets, rows_of(_SHAPE, 1))
    knowledge = Knowledge(fixed=_examples(targets), known=known)
    with pytest.raises(ValueError, match="one per release, 2, got 3"):
        mean_image(_nothing(2), knowledge, key=jax.random.key(0))


def test_a_laplace_posterior_is_conditioned_as_a_normal_distribution_is():
    rng = np.random.default_rng(0)
    outputs, jacobian = rng.normal(size=(5, 7)), rng.normal(size=(6, 3))
    directions = np.linalg.qr(rng.normal(size=(5, 3)))[0].T
    known = np.array([True, False, True, False, False, False, False])
    gaps, variance = rng.normal(size=2), 0.3
    slopes = Slopes(Linearised(jacobian, directions))
    moved, left = slopes.conditioned(outputs, known, gaps, variance)
    whole = jacobian @ directions
    covariance = outputs.T @ np.linalg.inv(whole.T @ whole + np.eye(5)) @ outputs
    pick = np.eye(7)[known]
    gain = covariance @ pick.T
    gain = gain @ np.linalg.inv(pick @ covariance @ pick.T + variance * np.eye(2))
    np.testing.assert_allclose(moved, gain @ gaps, rtol=1e-9)
    np.testing.assert_allclose(
        left, np.diag(covariance - gain @ pick @ covariance), rtol=1e-9, atol=1e-12
    )


def test_a_kernel_infers_the_rest_better_than_either_alone(tmp_path, key):
    """Theta tells the sum of the pixels: with three known, the fourth is what is left.

    Without theta the fourth is a guess; without the known ones it is one as well.
    """
    rng = np.random.default_rng(0)
    images = rng.uniform(0.2, 0.8, size=(1200, *_SHAPE)).astype(np.float32)
    sums = images.reshape(-1, 4).sum(axis=1, keepdims=True)
    weights = np.concatenate([sums, -sums], axis=1).astype(np.float32)
    labels = np.zeros(1200, np.int32)
    shadows = ShadowModels(
        weights=weights[:1000], images=images[:1000], labels=labels[:1000]
    )
    targets = images[1000:]
    release = publish(weights[1000:])
    knowledge = Knowledge(fixed=_examples(images[:1000]))
    row = registry.find("kernel")
    material = Material(
        settings=row.settings(validation_fraction=0.3),
        shadows=shadows,
        workdir=tmp_path,
        key=key,
    )

    def error(knowledge):
        trial = play(row, material, release, knowledge, key=key)
        return float(np.mean((trial.images[:, 3:] - targets[:, 3:]) ** 2))

    known = Known.of(targets, rows_of(_SHAPE, 3))
    alone = error(knowledge)
    together = error(dataclasses.replace(knowledge, known=known))
    assert together < 0.1 * alone


def test_inversion_keeps_its_certificate_only_where_the_known_pixels_agree(
    factory, split, key
):
    targets = split.test.take(np.arange(2))
    release = publish(factory.train(targets))
    told = targets.images.copy()
    told[1, :4] = 1 - told[1, :4]  # someone is wrong about the second target
    known = Known.of(told, rows_of(told.shape[1:], 4))
    knowledge = dataclasses.replace(factory.knowledge(public=split.shadow), known=known)
    found = informed.Inversion()(release, knowledge, key=key)
    assert found.certified.tolist() == [True, False]
    np.testing.assert_allclose(found.images[0], targets.images[0], atol=1e-3)
    np.testing.assert_array_equal(found.images[:, :4], told[:, :4])


def test_an_attack_that_makes_no_use_of_known_pixels_says_so(tmp_path, key):
    images, _ = _normal(4)
    known = Known.of(images, rows_of(_SHAPE, 1))
    knowledge = Knowledge(fixed=_examples(images), known=known)
    material = Material(workdir=tmp_path, key=key)
    row = registry.find("stationary")
    with pytest.raises(ValueError, match=r"stationary makes no use of known pixels"):
        play(row, material, _nothing(4), knowledge, key=key)
    with pytest.raises(ValueError, match=r"stationary makes no use of known pixels"):
        NamedAttack.of("stationary", known=2)
