"""Clouds of runs: against closed forms, and planted answers behind kinks and jumps."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import informed
import shadow
from informed.attacks.inversion import (
    Inversion,
    InversionConfig,
    certificate,
    cloud_search,
    clouds,
    gauss_newton,
)
from informed.attacks.inversion import cloud_regression as regression
from informed.attacks.inversion import weight_noise as noises
from informed.attacks.inversion.problem import Candidate, Published, Start
from informed.attacks.inversion.shared_measurements import SharedMeasurements
from informed.experiment.training_settings import TrainingConfig

KEY = jax.random.key(0)


@given(st.integers(0, 10**6), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_a_linear_function_is_seen_through(seed, unknowns):
    """Whatever was believed before; noise only where there is some."""
    rng = np.random.default_rng(seed)
    moves = rng.normal(size=(40, unknowns))
    slopes = rng.normal(size=(unknowns, 3))
    changes = 0.5 + moves @ slopes
    changes[:, 2] += 0.1 * rng.normal(size=40)
    fit = regression.regress(moves, changes, rng.normal(size=(unknowns, 3)))
    np.testing.assert_allclose(fit.slopes[:, :2], slopes[:, :2], atol=1e-5)
    np.testing.assert_allclose(fit.intercept[:2], 0.5, atol=1e-5)
    assert fit.misfit[:2].max() < 1e-8
    assert 0.1 / 2 < np.sqrt(fit.misfit[2]) < 0.1 * 2


def test_few_points_correct_known_slopes_and_do_not_forget_them(rng):
    """Against the least change that explains the points, which Broyden would take."""
    known, moves = rng.normal(size=(30, 4)), rng.normal(size=(8, 30))
    truth = known + 0.1 * rng.normal(size=(30, 4))
    fit = regression.regress(moves, moves @ truth, known)
    before, after = np.linalg.norm(known - truth), np.linalg.norm(fit.slopes - truth)
    assert after < before
    apart = moves - moves.mean(axis=0)
    across = np.eye(30) - np.linalg.pinv(apart) @ apart
    np.testing.assert_allclose(across @ fit.slopes, across @ known, atol=1e-9)


def test_what_is_left_is_what_was_not_fitted(rng):
    moves, changes = rng.normal(size=(30, 4)), rng.normal(size=(30, 7))
    fit = regression.regress(moves, changes)
    np.testing.assert_allclose(
        fit.residuals, changes - fit.intercept - moves @ fit.slopes, atol=1e-12
    )


def test_the_step_in_closed_form(rng):
    """Weighted least squares with a penalty, as a longer least-squares problem."""
    weighted, residual, radius = rng.normal(size=(5, 20)), rng.normal(size=20), 0.3
    rows = np.concatenate([weighted.T, np.eye(5) / (3 * radius)])
    right = np.concatenate([-residual, np.zeros(5)])
    expected = np.linalg.lstsq(rows, right, rcond=None)[0]
    result = regression.step(weighted, residual, radius)
    np.testing.assert_allclose(result, expected, rtol=1e-8)


def begun(function, start):
    return clouds.CloudState.start(start, function(start[None])[0])


def kinked(rng, unknowns, outputs=60):
    """Folds and small jumps everywhere; (function, a point, its value)."""
    first = rng.normal(size=(unknowns, 40))
    second = rng.normal(size=(40, outputs))
    jumps = rng.normal(size=(40, outputs))

    def function(us):
        inner = us @ first
        steps = np.floor(20 * inner) / 20 - inner
        return np.maximum(inner, 0.1 * inner) @ second + 0.1 * steps @ jumps

    truth = 0.5 * rng.normal(size=unknowns)
    return function, truth, function(truth[None])[0]


def search(function, aim, at, rng, *, rounds=150, points=48, **options):
    settings = {"rounds": rounds, "points": points, "rng": rng, **options}
    return clouds.minimise(function, aim, begun(function, at), **settings)


@pytest.mark.parametrize("unknowns", [4, 12])
def test_a_planted_point_behind_kinks_and_jumps(unknowns, rng):
    """Derivatives of its pieces point elsewhere; clouds come near in all directions."""
    function, truth, aim = kinked(rng, unknowns)
    result = search(function, aim, np.zeros(unknowns), rng)
    assert np.linalg.norm(truth) > 0.5
    assert np.linalg.norm(result.u - truth) < 0.02
    np.testing.assert_allclose(result.value, function(result.u[None])[0], atol=1e-9)


def test_kinks_that_move_many_outputs_together_are_seen_through(rng):
    """A linear function under noise in three directions, larger, at every scale.

    With each output weighted by its own misfit the error is 0.6 to 2.
    """
    matrix = rng.normal(size=(8, 60))
    jumps, across = 3 * rng.normal(size=(3, 60)), rng.normal(size=(8, 3))

    def function(us):
        return us @ matrix + np.sin(997 * us @ across) @ jumps

    truth = rng.normal(size=8)
    aim = function(truth[None])[0]
    result = search(function, aim, np.zeros(8), rng, rounds=12)
    assert np.linalg.norm(result.u - truth) < 0.05


def test_what_is_known_of_slopes_is_not_learned_again(rng):
    """Fifty unknowns by clouds of eight; the search is left, and gone on with."""
    known, features = rng.normal(size=(50, 80)), rng.normal(size=(50, 2)) / 7
    bend = rng.normal(size=(2, 80))

    def function(us):
        return us @ known + np.abs(us @ features) @ bend

    truth = rng.normal(size=50)
    result = begun(function, np.zeros(50))
    for _ in range(2):
        result = clouds.minimise(
            function,
            function(truth[None])[0],
            result,
            points=8,
            rounds=15,
            heats=0,
            rng=rng,
            local=lambda u: regression.Local(features, known),
        )
    assert np.linalg.norm(result.u - truth) < 1e-3
    assert result.radius is not None
    assert result.radius < 0.1


def test_only_allowed_points_are_run_and_likely_ones_end_it(rng):
    function, truth, _ = kinked(rng, 6)
    truth = np.round(truth, 1)
    run = []

    def recorded(us):
        run.append(us)
        return function(us)

    aim = function(truth[None])[0]
    result = search(
        recorded,
        aim,
        np.zeros(6),
        rng,
        allowed=lambda us: np.clip(us, -1, 1),
        likely=lambda us: np.clip(np.round(us, 1), -1, 1),
        explained=lambda residual: not residual.any(),
    )
    np.testing.assert_array_equal(np.round(result.u, 9), truth)
    assert np.abs(np.concatenate(run)).max() <= 1


def test_draws_scatter_as_the_step_errs(rng):
    weighted = 5 * rng.standard_normal((3, 50))
    drawn = regression.draws(weighted, 100.0, 40_000, rng)
    expected = np.linalg.inv(weighted @ weighted.T)
    # The mean square of scales of 1, 2 and 4 is 7.
    np.testing.assert_allclose(np.cov(drawn.T) / 7, expected, atol=2e-5)


def test_a_search_that_stalls_is_heated(rng):
    """A long valley of noise that small clouds fit; the likely points are far."""
    matrix = rng.standard_normal((30, 5))
    truth = np.round(4 * rng.standard_normal(5)) / 4

    def runs(us):
        jumps = 0.3 * np.sign(np.sin(997 * us @ matrix.T))  # no slope says anything
        return us @ matrix.T + jumps

    ends = []
    for heats in (0, 6):
        result = search(
            runs,
            runs(truth[None])[0],
            truth + 0.3 * rng.standard_normal(5),
            np.random.default_rng(1),
            points=16,
            heats=heats,
            likely=lambda us: np.round(4 * us) / 4,
        )
        ends.append(np.abs(result.u - truth).max())
    assert ends[1] < 1e-9
    assert ends[1] <= ends[0]


def test_runs_that_diverge_are_left_out(rng):
    function, truth, aim = kinked(rng, 4)

    def broken(us):
        values = function(us)
        values[us[:, 0] > truth[0] + 0.4] = np.nan
        return values

    def nowhere(us):
        return np.full((len(us), 3), np.nan)

    result = search(broken, aim, np.zeros(4), rng)
    assert np.linalg.norm(result.u - truth) < 0.05
    lost = search(nowhere, np.zeros(3), np.zeros(4), rng)
    np.testing.assert_array_equal(lost.u, 0)


@pytest.fixture(scope="module")
def parts(digits):
    return shadow.split(digits, num_fixed=60, num_shadow=600, num_test=3, seed=0)


def make(parts, activation, **fields):
    config = shadow.VictimConfig(widths=(8,), activation=activation)
    return shadow.Factory(
        algorithm=TrainingConfig(**fields).algorithm(
            shadow.build_victim(config, image_shape=(8, 8, 1), num_classes=10)
        ),
        fixed=parts.fixed,
        key=jax.random.key(7),
        role="released",
        width=8,
    )


def test_relu_is_inverted_exactly_and_the_attack_knows(parts):
    """Without labels, where derivatives alone lead nowhere."""
    factory, targets = make(parts, "relu", epochs=40), parts.test.take(slice(0, 2))
    release = shadow.publish(factory.train(targets))
    told = factory.knowledge(public=parts.shadow)
    config = InversionConfig(clouds=30, starts=2)
    result = Inversion(config=config)(release, told, key=KEY)
    exact = informed.mse(targets.images, result.images) <= 1e-6
    assert exact.any()
    np.testing.assert_array_equal(result.certified, exact)
    np.testing.assert_array_equal(result.labels[exact], targets.labels[exact])
    assert (result.label_margins >= 1).all()


def test_a_start_that_leads_nowhere_is_left_early(parts):
    """The wrong label first; then the right one, before the wrong one's last cloud."""
    factory, targets = make(parts, "relu", epochs=40), parts.test.take(slice(0, 1))
    told = factory.knowledge(public=parts.shadow)
    config = InversionConfig(neighbours=60)
    shared = SharedMeasurements(config, told, KEY)
    published = Published.of(shadow.publish(factory.train(targets)), 0)
    label = int(targets.labels[0])
    order = np.array([(label + 5) % 10, label])
    starts = [
        Start(
            labels=np.array([each]),
            images=shared.known.mean(each)[None].astype(np.float64),
            patient=False,
        )
        for each in order.tolist()
    ]
    result = next(cloud_search.certificates(shared, published, starts))
    assert result.explained
    np.testing.assert_array_equal(result.labels, targets.labels)
    assert informed.mse(targets.images, result.images)[0] <= 1e-6
    assert shared.runs.runs < config.clouds * clouds.POINTS


@pytest.mark.parametrize("share", [0.02, 1.0], ids=["near", "where it began"])
def test_clouds_go_on_where_derivatives_ended_near(parts, share):
    factory, targets = make(parts, "relu", epochs=40), parts.test.take(slice(0, 1))
    knowledge = factory.knowledge(public=parts.shadow)
    shared = SharedMeasurements(InversionConfig(neighbours=60), knowledge, KEY)
    published = Published.of(shadow.publish(factory.train(targets)), 0)
    mean = shared.known.mean(int(targets.labels[0]))[None].astype(np.float64)
    start = Start(labels=targets.labels, images=mean, patient=False)
    problem = shared.pose(published, start)
    begun, true = (problem.space.of(some) for some in (mean, targets.images))
    nothing = gauss_newton.Linearised(np.zeros((1, len(true))), np.eye(len(true)))
    end = Candidate(
        u=true + share * (begun - true), slopes=gauss_newton.Slopes(nothing)
    )
    before = shared.runs.runs
    certificates = list(cloud_search.from_near(problem, start, end))
    if share == 1:
        assert not certificates
        assert shared.runs.runs - before <= 2
        return
    assert certificates[0].certified
    assert informed.mse(targets.images, certificates[0].images)[0] <= 1e-6


def test_rounding_as_large_as_the_distance_explains_nothing():
    """As in chaos; unless it is the rounding of what was published."""
    theta, value = np.zeros(100), np.full(100, 0.5)
    small, large = noises.Independent(value * 1e-4), noises.Independent(value * 0.5)
    exact, coarse = Published(theta, None), Published(theta, value)
    limit = certificate.rounding_limit
    assert limit(exact, small, value) == np.inf
    assert limit(exact, large, value) == pytest.approx(25e-6)
    assert limit(coarse, large, value) == np.inf


def test_another_fixed_set_explains_nothing(parts):
    factory, targets = make(parts, "relu", epochs=40), parts.test.take(slice(0, 1))
    told = factory.knowledge(public=parts.shadow)
    told = dataclasses.replace(
        told, fixed=parts.shadow.take(slice(0, 60)), labels=targets.labels
    )
    config = InversionConfig(clouds=3, starts=1, neighbours=20)
    release = shadow.publish(factory.train(targets))
    result = Inversion(config=config)(release, told, key=KEY)
    assert not result.certified.any()


@pytest.mark.parametrize(
    ("activation", "prefer_clouds"), [("elu", False), ("tanh", False), ("relu", True)]
)
def test_kinks_are_measured(activation, prefer_clouds, parts):
    factory = make(parts, activation, epochs=40)
    told = factory.knowledge(public=parts.shadow)
    assert (
        SharedMeasurements(InversionConfig(), told, KEY).prefer_clouds is prefer_clouds
    )


def test_derivatives_that_explode_are_noticed(parts):
    """Adam with ReLU: theta changes almost linearly, and no derivative says how."""
    adam = {"optimiser": "adam", "learning_rate": 0.003, "epochs": 100}
    factory = make(parts, "relu", **adam)
    told = factory.knowledge(public=parts.shadow)
    shared = SharedMeasurements(InversionConfig(), told, KEY)
    assert shared.misleading > 1e3
    assert shared.prefer_clouds
    smooth = make(parts, "elu", **adam).knowledge(public=parts.shadow)
    assert not SharedMeasurements(InversionConfig(), smooth, KEY).prefer_clouds


def test_residuals_whose_slopes_overflow_tell_nothing(rng):
    matrix = rng.standard_normal((6, 3))
    matrix[[1, 4], [0, 2]] = np.inf, np.nan
    at = gauss_newton.Iterate(np.zeros(3), rng.standard_normal(6), 1.0)
    slopes = gauss_newton.Slopes(gauss_newton.Linearised(matrix, np.eye(3)))
    finite = [0, 2, 3, 5]
    least = np.linalg.lstsq(matrix[finite], -at.residuals[finite])[0]
    smallest = gauss_newton.DAMPINGS.argmin()
    np.testing.assert_allclose(slopes.moves(at, 0.0)[smallest], least, rtol=1e-3)


def test_wrong_settings_are_refused_by_name():
    with pytest.raises(ValueError, match=r"clouds >= 1, got 0"):
        InversionConfig(clouds=0)
