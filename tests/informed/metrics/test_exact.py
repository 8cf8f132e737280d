"""What counts as exact: a thousandth of the spread, and nearer than any guess."""

import dataclasses

import numpy as np
import pytest

from informed.metrics import judging
from informed.play import Trial
from shadow import data, sources, tables


def trial(images, **fields):
    count = len(images)
    given = {"finished": np.ones(count, bool), **fields}
    return Trial(name="a", about="", sees="", knows="", images=images, **given)


def judged(guesses, truth, pool, groups=None, **fields):
    found = judging.baselines(truth, pool, groups=groups)
    return judging.judge(trial(guesses, **fields), truth, pool, found)


def exact(*args, **fields):
    return judged(*args, **fields)["exact"]["successes"]


@pytest.fixture
def log_normal(rng):
    """A table with columns of heavy tails: all but a few rows lie next to zero."""
    cells = {f"c{i}": np.exp(3 * rng.standard_normal(1000)) for i in range(6)}
    return tables.table_of({**cells, "label": np.arange(1000) % 2})


def test_medians_of_a_column_are_not_exact(log_normal):
    examples = log_normal.examples
    truth, pool = examples.take(np.arange(20)), examples.take(np.arange(20, 1000))
    medians = np.broadcast_to(np.median(pool.images, axis=0), truth.images.shape)
    near = np.mean((medians - truth.images) ** 2, axis=(1, 2, 3)) < 1e-6
    assert near.sum() >= 3, "else the case is not the one that was reported"
    certified = np.ones(20, bool)
    row = judged(medians, truth, pool, log_normal.groups, certified=certified)
    assert row["exact"]["successes"] == 0
    assert row["certified_wrong"] == 20
    # The truth is exact, and so is what is a ten-thousandth of its distance away.
    away = truth.images + np.float32(1e-4) * (truth.images - medians)
    for guesses in (truth.images, away):
        row = judged(guesses, truth, pool, log_normal.groups, certified=certified)
        assert row["exact"]["successes"] == 20
        assert row["certified_wrong"] == 0
    low, high = np.quantile(pool.images, [0.25, 0.75], axis=0)
    unit = np.maximum(high - low, np.abs(truth.images - medians))
    for guesses in (truth.images + 0.01 * unit, truth.images - 0.01 * unit):
        guesses = np.clip(guesses, 0, 1).astype(np.float32)
        assert exact(guesses, truth, pool, log_normal.groups) == 0


@pytest.mark.filterwarnings("ignore:dim.images")
def test_bits_kept_as_bytes_are_not_exact_when_guessed(rng):
    bits = (rng.random((300, 8, 8, 1)) < 0.05).astype(np.uint8)
    examples = data.Examples(
        images=bits, labels=np.arange(300) % 2, num_classes=2, name="dim"
    )
    truth, pool = examples.take(np.arange(20)), examples.take(np.arange(20, 300))
    for guesses in (
        np.zeros_like(truth.images),
        np.broadcast_to(pool.images.mean(axis=0), truth.images.shape),
        pool.images[:20],
        np.broadcast_to(truth.images[:1].mean(), truth.images.shape),
    ):
        assert np.mean((guesses - truth.images) ** 2) < 2e-6
        assert exact(guesses, truth, pool) == 0
    # A picture of nothing but zeros is guessed; all others are found.
    found = int((truth.images > 0).any(axis=(1, 2, 3)).sum())
    assert exact(truth.images * np.float32(0.9999), truth, pool) == found > 15


def test_what_is_guessed_without_the_release_is_not_exact(digits):
    """Whatever the baseline: its own answer, with records that hardly differ."""
    images = 0.5 + 1e-5 * (digits.images - 0.5)
    close = dataclasses.replace(digits, images=images.astype(np.float32))
    truth, pool = close.take(np.arange(20)), close.take(np.arange(100, 600))
    for baseline in judging.baselines(truth, pool):
        assert baseline.mse.max() < 1e-6
        assert exact(baseline.images, truth, pool) == 0, baseline.name


def test_the_oracle_of_a_near_copy_is_not_exact(digits, rng):
    truth = digits.take(np.arange(20))
    noise = 1e-4 * rng.standard_normal(truth.images.shape)
    copies = np.clip(truth.images + noise, 0, 1).astype(np.float32)
    rest = digits.take(np.arange(100, 300))
    pool = dataclasses.replace(
        rest,
        images=np.concatenate([rest.images, copies]),
        labels=np.concatenate([rest.labels, truth.labels]),
    )
    nearest = judging.baselines(truth, pool)[-1]
    assert nearest.mse.max() < 1e-6
    assert "20 of 20 targets have a near copy" in nearest.about
    assert exact(nearest.images, truth, pool) == 0
    assert exact(truth.images, truth, pool) == 20
    assert "copy" not in judging.baselines(truth, rest)[-1].about


def test_a_column_of_one_value_and_outliers_has_a_spread(rng):
    """Nine in ten are zero: the middle half says nothing, and the range too much."""
    gains = np.where(rng.random(500) < 0.1, 1000 * rng.random(500), 0.0)
    gains[-1] = 1e8
    table = tables.table_of({"gain": gains, "label": np.arange(500) % 2})
    pool = table.examples.take(np.arange(100, 500))
    unit = judging.spread(pool, np.zeros((1, 1, 1, 1), np.float32))
    assert 100 / 1e8 < unit[0, 0] < 4000 / 1e8


def test_ordinary_pictures_keep_their_unit(digits):
    unit = judging.spread(digits, digits.images[:1])
    assert unit.shape == (1, 64)
    assert 0.7 < unit.min() == unit.max() <= 1


@pytest.mark.parametrize(("dtype", "most"), [(np.uint8, 255), (np.uint16, 65535)])
def test_whole_numbers_are_scaled_by_their_type(dtype, most, rng):
    images = rng.integers(0, most, (4, 2, 2, 1), endpoint=True).astype(dtype)
    images[0, 0, 0] = most
    found = data.Examples(images=images, labels=np.arange(4) % 2, num_classes=2)
    np.testing.assert_allclose(found.images, images / most, rtol=1e-6)
    bits = data.Examples(images=images > 9, labels=np.zeros(4, int), num_classes=1)
    np.testing.assert_array_equal(bits.images, images > 9)
    with pytest.warns(UserWarning, match=rf"from 0 to 1, .* divided by {most}: "):
        data.Examples(images=images // most, labels=np.zeros(4, int), num_classes=1)


def test_pictures_of_sixteen_bits_are_not_cut_off(tmp_path):
    from PIL import Image

    pixels = (np.arange(64).reshape(8, 8) * 1000).astype(np.uint16)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(pixels).save(tmp_path / name / "1.png")
    found = sources.load(f"{tmp_path}/")
    np.testing.assert_allclose(found.images[0, ..., 0], pixels / 65535, rtol=1e-6)
    Image.fromarray(np.ones((8, 8), np.uint8)).save(tmp_path / "b" / "2.png")
    with pytest.raises(ValueError, match=r"one depth.*uint"):
        sources.load(f"{tmp_path}/")
