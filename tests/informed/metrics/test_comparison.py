"""Reconstructions side by side: numbers by hand, and what is refused."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import beta

import informed
import shadow
from informed.metrics import Comparison
from shadow.threat import Reconstruction


@pytest.fixture
def targets():
    """Four flat pictures; the nearest other one is 0.1, 0.1, 0.2 and 0.4 away."""
    greys = np.array([0.0, 0.1, 0.3, 0.7], np.float32)
    images = np.broadcast_to(greys[:, None, None, None], (4, 2, 3, 1)).copy()
    return shadow.Examples(images=images, labels=np.arange(4), num_classes=4)


def moved(targets, by, **fields):
    return Reconstruction(images=targets.images + np.float32(by), **fields)


def test_numbers_by_hand(targets):
    certified = np.array([True, False, True, True])
    first = moved(targets, 0.15, labels=np.array([0, 1, 2, 0]), certified=certified)
    found = informed.compare(targets, first, moved(targets, 0.0))
    assert isinstance(found, Comparison)
    row, exact = found.guesses
    assert row.mse == pytest.approx(0.15**2)
    assert row.mse_interval == pytest.approx((0.15**2, 0.15**2))
    assert (row.nearer.successes, row.nearer.trials) == (2, 4)
    assert (row.certified, row.failed) == (3, 0)
    assert (exact.mse, exact.nearer.rate, exact.labels) == (0.0, 1.0, None)
    assert exact.certified is None
    wanted = np.mean(np.square([0.1, 0.1, 0.2, 0.4]))
    assert found.oracle_mse == pytest.approx(wanted, rel=1e-5)
    ends = beta.ppf([0.025, 0.975], [3, 4], [2, 1])  # Clopper and Pearson, of 3 in 4
    assert (row.labels.low, row.labels.high) == pytest.approx(tuple(ends))


def test_a_copy_of_a_target_is_no_neighbour_of_it(targets):
    twice = targets.take(np.array([0, 0, 1, 2]))
    (exact,) = informed.compare(twice, moved(twice, 0.0)).guesses
    assert exact.nearer.rate == 1.0
    with pytest.raises(ValueError, match="all targets are equal"):
        informed.compare(same := twice.take(slice(0, 2)), moved(same, 0.0))


def test_the_interval_is_about_that_of_the_normal_law(rng):
    images = rng.random((400, 2, 2, 1), dtype=np.float32)
    some = shadow.Examples(images=images, labels=np.zeros(400, int), num_classes=1)
    guess = Reconstruction(images=rng.random(images.shape, dtype=np.float32))
    row = informed.compare(some, guess).guesses[0]
    errors = informed.mse(images, guess.images)
    half = 1.96 * errors.std(ddof=1) / 20
    wanted = (errors.mean() - half, errors.mean() + half)
    assert row.mse_interval == pytest.approx(wanted, rel=0.02)


def test_a_guess_without_numbers_is_a_failure(targets):
    images = targets.images.copy()
    images[1] = np.nan
    guess = Reconstruction(images=images, certified=np.ones(4, bool))
    row = informed.compare(targets, guess).guesses[0]
    assert (row.failed, row.mse, row.certified) == (1, 0.0, 3)
    assert (row.nearer.successes, row.nearer.trials) == (3, 4)
    nothing = Reconstruction(images=np.full_like(images, np.nan))
    row = informed.compare(targets, nothing).guesses[0]
    assert (row.failed, row.mse, row.mse_interval) == (4, None, None)
    assert row.nearer.successes == 0


def test_the_table_says_what_the_oracle_draws_from(targets):
    near = dataclasses.replace(targets, images=targets.images + np.float32(0.01))
    text = str(informed.compare(targets, moved(targets, 0.15), gallery=near))
    lines = text.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("guess 1")
    assert lines[1].split()[-6:] == ["0", "of", "4", "(0", "to", "60", "%)"][-6:]
    assert lines[1].count(" - ") == 2  # neither labels nor certificates
    assert lines[2].split() == ["nearest", "neighbour", "0.0001"]
    assert lines[3].endswith("nearest neighbours from a gallery of 4 records")
    alone = str(informed.compare(targets, moved(targets, 0.15)))
    assert alone.endswith("4 targets; nearest neighbours from the other targets")


def test_names_of_guesses_stand_in_the_table(targets):
    text = str(informed.compare(targets, moved(targets, 0.1), kernel=moved(targets, 0)))
    assert [line.split("  ")[0] for line in text.splitlines()[1:3]] == [
        "guess 1",
        "kernel",
    ]
    lines = str(informed.compare(targets, **{"k" * 30: moved(targets, 0)})).splitlines()
    assert lines[0].index("MSE") == lines[1].index("0") == lines[2].index("0.")
    with pytest.raises(ValueError, match="kernel to be a Reconstruction, got ndarray"):
        informed.compare(targets, kernel=targets.images)


def test_what_cannot_be_compared_is_refused(targets):
    guess = moved(targets, 0.0)
    few, one = targets.take(slice(0, 3)), targets.take(slice(0, 1))
    small = dataclasses.replace(targets, images=targets.images[:, :1])
    of_few, of_one = moved(few, 0.0), moved(one, 0.0)
    with pytest.raises(ValueError, match="at least one of guesses"):
        informed.compare(targets)
    with pytest.raises(ValueError, match=r"guess 2\.images a target, 3, got 4"):
        informed.compare(few, of_few, guess)
    with pytest.raises(ValueError, match="Expected guesses of the targets' shape"):
        informed.compare(small, guess)
    with pytest.raises(ValueError, match="gallery with records of shape"):
        informed.compare(targets, guess, gallery=small)
    with pytest.raises(ValueError, match="gallery without the targets"):
        informed.compare(few, of_few, gallery=targets)
    with pytest.raises(ValueError, match="no other targets"):
        informed.compare(one, of_one)
