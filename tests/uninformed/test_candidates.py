"""From candidates to counts."""

import numpy as np
import pytest
import scipy.stats
import skimage.metrics

from benchmarks import kkt_circle
from uninformed import candidates


@pytest.fixture
def images(digits) -> np.ndarray:
    return digits.images[:12]


def test_ncc_is_the_correlation_coefficient(images):
    expected = np.corrcoef(images.reshape(12, -1))
    for other in (images, 3 * images.astype(float) - 0.7):
        np.testing.assert_allclose(candidates.ncc(images, other), expected, atol=1e-9)


def test_thinning_keeps_one_of_near_copies_and_drops_what_has_no_multiplier():
    points = np.array([[0.0, 0], [0.01, 0], [1, 0], [5, 5]])
    multipliers = np.array([1.0, 0.9, 0.5, 0.001])
    kept = kkt_circle.thinned(points, multipliers)
    assert len(kept) == 2
    assert 2 in kept
    assert 3 not in kept


def test_merging_averages_copies(images):
    copies = np.concatenate([images[:2], 2 * images[:1]])
    groups = candidates.merged(copies, np.array([1.0, 0.5, 2.0]))
    assert len(groups) == 2
    np.testing.assert_allclose(groups[0], 1.5 * images[0], rtol=1e-6)
    np.testing.assert_allclose(groups[1], images[1])


def test_voting_averages_those_as_near(images, rng):
    noise = 0.02 * rng.standard_normal((2, *images.shape[1:]))
    near = images[0][None] + np.stack([noise[0], -noise[0]])
    others = np.concatenate([near, images[1:4]])
    alone, chosen = candidates.voted(images[:1], others)
    assert chosen[0] in (0, 1)
    np.testing.assert_array_equal(alone[0], others[chosen[0]])
    together, _ = candidates.voted(images[:1], others, share=0.9)
    np.testing.assert_allclose(together[0], images[0], atol=1e-6)


def test_stretching_fills_the_range(images):
    found = candidates.stretched(0.1 * images + 0.3)
    np.testing.assert_allclose(found.min(axis=(1, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(found.max(axis=(1, 2, 3)), 1, atol=1e-6)


def test_counts_of_a_perfect_attack_and_of_noise(digits, rng):
    targets, labels = digits.images[:10], digits.labels[:10]
    held_out, of = digits.images[100:600], digits.labels[100:600]
    mean = targets.mean(axis=0)
    exact = candidates.match(targets, labels, targets - mean, held_out, of, mean=mean)
    assert exact.recovered.all()
    np.testing.assert_allclose(exact.ssim, 1, atol=0.05)
    assert exact.precision == 1
    noise = rng.standard_normal(targets.shape)
    nothing = candidates.match(targets, labels, noise, held_out, of)
    assert nothing.recovered.sum() == 0
    assert nothing.summary()["candidates_recovered"] == 0


def test_class_averages_resemble_but_don_t_recover(digits):
    """Similar to their class: similar to held-out images no less."""
    labels = digits.labels[:20]
    held_out, of = digits.images[100:900], digits.labels[100:900]
    averages = np.stack([held_out[of == c].mean(axis=0) for c in range(10)])
    found = candidates.match(digits.images[:20], labels, averages, held_out, of)
    assert (found.ssim > candidates.SIMILAR).sum() >= 10
    assert found.recovered.sum() <= 2


def test_recovered_needs_both(digits, rng):
    """An image itself; a held-out image that resembles one; noise."""
    targets, labels = digits.images[:3], np.array([0, 1, 2])
    near = np.clip(targets[1] + 0.03 * rng.standard_normal(targets[1].shape), 0, 1)
    images = np.stack([targets[0], near, rng.random(targets[2].shape)])
    found = candidates.match(targets, labels, images, near[None], np.array([1]))
    np.testing.assert_array_equal(found.ssim > candidates.SIMILAR, [True, True, False])
    np.testing.assert_array_equal(found.recovered, [True, False, False])


@pytest.mark.parametrize("window", [3, 7])
def test_ssim_is_scikit_images(window, rng):
    images, others = rng.random((4, 12, 9, 3)), rng.normal(size=(5, 12, 9, 3))
    given = {"data_range": 1.0, "win_size": window, "channel_axis": -1}
    expected = np.array(
        [
            [skimage.metrics.structural_similarity(b, a, **given) for b in others]
            for a in images
        ]
    )
    found = candidates.ssim_of_all(images, others, window)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    found = candidates.ssim(others[:4], images, window)
    np.testing.assert_allclose(found, np.diagonal(expected), rtol=1e-9, atol=1e-12)


def test_control_and_training_images_change_places(digits, rng):
    """Nobody could tell them apart: their counts are exchanged with them."""
    sides = [
        (digits.images[i : i + 30], digits.labels[i : i + 30] % 2) for i in (0, 30)
    ]
    sides = [(images[np.argsort(of)[:12]], np.sort(of)[:12]) for images, of in sides]
    found = np.concatenate([sides[0][0][:3], sides[1][0][:2], rng.random((3, 8, 8, 1))])
    one, other = (
        candidates.match(*a, found, *b).summary() for a, b in (sides, sides[::-1])
    )
    assert one["recovered"] >= 3
    assert one["held_out_recovered"] >= 2
    for name, value in other.items():
        paired = name.removeprefix("held_out_")
        mirrored = f"held_out_{name}" if paired == name else paired
        assert one[mirrored] == pytest.approx(value)


def counts(recovered, control, similar=(8, 7), of=20):
    return {
        "targets": of,
        "similar": similar[0],
        "recovered": recovered,
        "candidates_recovered": recovered,
        "held_out_targets": of,
        "held_out_similar": similar[1],
        "held_out_recovered": control,
    }


def test_a_verdict_tells_both_counts_and_their_controls():
    assert candidates.verdict({"": counts(0, 0)}) == (
        "0 of 20 training images recovered; 8 look similar, and so do 7 of 20 images"
        " that were never trained on: chance."
    )
    assert candidates.verdict({"": counts(18, 0)}).startswith(
        "18 of 20 training images recovered, and by the same rule 0 of 20 images"
    )
    alike, not_alike = counts(0, 0, similar=(18, 3)), counts(0, 0, similar=(8, 7))
    both = {"": not_alike, "By all runs together, ": alike}
    lucky = {**both, "": counts(1, 0, similar=(8, 7))}
    for looks in ({"": alike}, both, lucky, {"": counts(1, 1, similar=(18, 3))}):
        assert "more than chance, but it" in candidates.verdict(looks)
    # All runs together may show what the chosen one doesn't.
    both = {"": counts(2, 0), "By all runs together, ": counts(9, 0)}
    assert candidates.verdict(both).startswith("By all runs together, 9 of 20 training")


@pytest.mark.parametrize("of", [2, 4, 20])
def test_recovered_is_said_only_of_what_the_control_does_not_reach(of):
    """By an oracle's p-value; what isn't more than the control is called chance."""
    for recovered in range(1, of + 1):
        for control in range(of + 1):
            table = [[recovered, of - recovered], [control, of - control]]
            p = scipy.stats.fisher_exact(table, alternative="greater")[1]
            text = candidates.verdict({"": counts(recovered, control, of=of)})
            assert ("images recovered" in text) == (p < 0.05)
            assert ("chance" in text) == (p >= 0.05)
            assert (": chance" in text) == (recovered <= control)


def test_a_candidate_that_passes_for_two_images_counts_once():
    blended = counts(6, 0) | {"candidates_recovered": 3}
    assert "too few to tell from chance" in candidates.verdict({"": blended})
