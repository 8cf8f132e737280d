"""Judging against baselines, ranking, and the game of noise; planted answers."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from sklearn import linear_model

import dp
import shadow
from informed.audit import contract, noise_game, ranked_records
from informed.metrics import judging
from tests.informed.metrics.test_exact import trial


@pytest.fixture
def truth(digits):
    return digits.take(np.arange(10))


@pytest.fixture
def pool(digits):
    return digits.take(np.arange(100, 600))


def row_of(images, truth, pool, **fields):
    baselines = judging.baselines(truth, pool)
    return judging.judge(trial(images, **fields), truth, pool, baselines)


def test_the_truth_succeeds_and_the_baseline_itself_does_not(truth, pool):
    row = row_of(truth.images, truth, pool)
    assert row["success"]["successes"] == row["exact"]["successes"] == 10
    found = judging.baselines(truth, pool)
    nearest = next(b for b in found if b.name == "nearest public record")
    mean = np.broadcast_to(pool.images.mean(axis=0), truth.images.shape)
    for images in (nearest.images, mean):
        assert row_of(images, truth, pool)["success"]["successes"] == 0


def test_rates_are_of_what_was_finished(truth, pool):
    images = truth.images.copy()
    images[3] = np.nan
    finished = np.arange(10) != 3
    certified = finished.copy()
    row = row_of(images, truth, pool, finished=finished, certified=certified)
    assert row["success"]["successes"] == 9
    assert row["success"]["trials"] == 9
    assert (row["targets"], row["finished"]) == (10, 9)


def test_nothing_finished_has_no_rate(truth, pool):
    """An attack that ran out of time says nothing about the model, no rate of zero."""
    images = np.full_like(truth.images, np.nan)
    row = row_of(images, truth, pool, finished=np.zeros(10, bool))
    rates = ("success", "exact", "mse_mean", "mse_median")
    assert [row[name] for name in rates] == [None] * len(rates)


def test_a_finished_answer_without_numbers_is_a_failure(truth, pool):
    images = truth.images[:6].copy()
    images[:3] = np.nan
    row = row_of(images, truth, pool)
    assert (row["finished"], row["mse_mean"]) == (6, 0.0)
    for name in ("success", "exact"):
        assert (row[name]["successes"], row[name]["trials"]) == (3, 6)


def test_a_wrong_certificate_is_counted(truth, pool):
    images = truth.images.copy()
    images[0] = images[1]
    row = row_of(images, truth, pool, certified=np.ones(10, bool))
    assert (row["certified"], row["certified_wrong"]) == (10, 1)


def test_columns_that_follow_from_others_are_imputed(rng):
    x = rng.random((200, 3))
    rows = np.concatenate([x, x.mean(axis=1, keepdims=True)], axis=1).astype(np.float32)
    examples = shadow.Examples(
        images=rows[:, None, :, None], labels=np.arange(200) % 2, num_classes=2
    )
    found = judging.baselines(
        examples.take(np.arange(5)),
        examples.take(np.arange(5, 200)),
        groups=np.arange(4),
    )
    imputed = next(b for b in found if b.name == "imputed")
    assert imputed.oracle
    assert imputed.mse.max() < 1e-4
    assert judging.thresholds(found).max() < 1e-4


def test_imputation_is_a_regression_on_the_other_columns(rng):
    pool = rng.uniform(size=(60, 9))
    pool[:, 4] = 0.5 * pool[:, 1] + 0.3
    targets, groups = rng.uniform(size=(5, 9)), np.array([0, 1, 2, 2, 2, 3, 4, 5, 6])
    found = judging._imputed(pool, targets, groups)
    for column in range(9):
        others = groups != groups[column]
        model = linear_model.Ridge(alpha=1e-3).fit(pool[:, others], pool[:, column])
        wanted = np.clip(model.predict(targets[:, others]), 0, 1)
        np.testing.assert_allclose(found[:, column], wanted, atol=1e-10)


def test_words_of_a_column_are_not_imputed_from_each_other(rng):
    """They exclude each other: each would follow from the rest, and be no guess."""
    words = np.eye(4, dtype=np.float32)[rng.integers(0, 4, 200)]
    examples = shadow.Examples(
        images=words[:, None, :, None], labels=np.arange(200) % 2, num_classes=2
    )
    some, pool = examples.take(np.arange(5)), examples.take(np.arange(5, 200))
    found = judging.baselines(some, pool, groups=np.zeros(4, int))
    imputed = next(b for b in found if b.name == "imputed")
    mean = pool.images.mean(axis=0)
    np.testing.assert_allclose(imputed.images, np.broadcast_to(mean, (5, 1, 4, 1)))
    mixed = np.concatenate([words, rng.random((200, 1), dtype=np.float32)], axis=1)
    examples = dataclasses.replace(examples, images=mixed[:, None, :, None])
    some, pool = examples.take(np.arange(5)), examples.take(np.arange(5, 200))
    found = judging.baselines(some, pool, groups=np.array([0, 0, 0, 0, 1]))
    assert next(b for b in found if b.name == "imputed").mse.min() > 0.05


def test_an_exact_guess_is_a_success_whatever_comes_near(truth, pool):
    near = dataclasses.replace(pool, images=pool.images.copy())
    near.images[:10] = truth.images
    row = row_of(truth.images, truth, near)
    assert row["success"]["successes"] == row["exact"]["successes"] == 10


def test_an_exact_guess_is_a_success_however_near_an_imputed_column(rng):
    """Every column stands twice, so that each can be had from the other."""
    rows = rng.random((60, 1, 4, 1)).astype(np.float32)
    twice = np.concatenate([rows, rows], axis=2)
    every = shadow.Examples(images=twice, labels=np.arange(60) % 3, num_classes=3)
    records, others = every.take(slice(0, 10)), every.take(slice(10, None))
    found = judging.baselines(records, others, groups=np.arange(8))
    row = judging.judge(
        trial((records.images + 1e-5).astype(np.float32)), records, others, found
    )
    assert row["success"]["successes"] == row["exact"]["successes"] == 10


def test_records_are_ranked_by_the_least_error(truth, pool):
    strength = np.linspace(0, 1, 10)
    guesses = truth.images + 0.3 * strength[:, None, None, None].astype(np.float32)
    baselines = judging.baselines(truth, pool)
    played, least = trial(guesses), judging.thresholds(baselines)
    verdict = judging.verdict(played, truth, pool, baselines)
    rows, order = ranked_records.rank(truth, np.arange(10), [played], [verdict], least)
    assert order == list(range(10))
    assert [row["record"] for row in rows] == list(range(10))


def gaussian(means, sigma):
    def train(targets, ids):
        noise = [
            np.random.default_rng(int(i)).standard_normal(means.shape[1]) for i in ids
        ]
        return means[targets.labels] + sigma * np.array(noise)

    return train


def game(train, chosen, quiet, learnt, played):
    labels, truth = np.repeat(np.arange(4), learnt), np.repeat(np.arange(4), played)
    theta = train(chosen.take(labels), np.arange(len(labels)))
    asked = train(chosen.take(truth), len(labels) + np.arange(len(truth)))
    return noise_game.likeliest(theta, labels, asked, quiet) == truth


def test_the_game_attains_what_theory_says_of_orthogonal_means(digits):
    """Four means sqrt(2) apart in ten dimensions, noise 1/2; integral by scipy."""
    means, sigma = np.eye(4, 10), 0.5
    chosen = dataclasses.replace(digits.take(np.arange(4)), labels=np.arange(4))
    right = game(gaussian(means, sigma), chosen, means, 100, 400)
    grid = np.linspace(-8, 10, 4001)
    wanted = np.trapezoid(
        stats.norm.pdf(grid - 1 / sigma) * stats.norm.cdf(grid) ** 3, grid
    )
    error = np.sqrt(wanted * (1 - wanted) / len(right))
    assert np.mean(right) == pytest.approx(wanted, abs=4 * error)
    bound = dp.rero_bound(
        dp.Gaussian(noise_multiplier=sigma, steps=1, relation="zero_out"), kappa=0.25
    )
    assert np.mean(right) < float(bound.gamma)


def test_without_a_signal_the_game_is_guessing(digits):
    chosen = dataclasses.replace(digits.take(np.arange(4)), labels=np.arange(4))
    right = game(gaussian(np.zeros((4, 10)), 1.0), chosen, None, 24, 20)
    assert np.mean(right) < 0.45


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ({"sigma": 1.0}, "Did you mean|one of"),
        ({"noise_multiplier": 1.0}, "lacks steps"),
        ({"steps": 10, "sampling_probability": 2.0}, "sampling_probability"),
    ],
)
def test_a_wrong_declaration_is_refused(privacy, message):
    with pytest.raises(ValueError, match=message):
        contract.mechanism(privacy, 1.0)


def test_the_least_noise_is_that_of_dp():
    found = noise_game.calibrated({"steps": 100}, 0.5, 0.25)
    run = dp.Gaussian(
        noise_multiplier=found["noise_multiplier"], steps=100, relation="zero_out"
    )
    assert float(dp.rero_bound(run, kappa=0.25).gamma) == pytest.approx(0.5, abs=1e-3)
