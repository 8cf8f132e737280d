"""How the time of an audit is divided, and that it is kept."""

import time

import pytest

from informed.audit import contract, subject, timetable, trials
from shadow import checks, limits
from tests.informed.audit.audited_trainings import slow_numpy


def test_what_is_not_used_is_passed_on():
    clock = limits.Clock(100.0)
    parts = ("inversion", "shadow models", "kernel")
    whole = timetable.Schedule(clock, parts)
    without = timetable.Schedule(clock, parts[1:])
    assert whole.limit("inversion") == pytest.approx(100 * 0.45 / 0.8, rel=1e-2)
    assert without.limit("shadow models") == pytest.approx(100 * 0.2 / 0.35, rel=1e-2)
    assert whole.limit("kernel") == pytest.approx(100.0, rel=1e-2)


def test_an_inversion_has_the_time_that_it_can_use():
    share = timetable.of_inversion(100.0, 1.0, 5)
    assert share == pytest.approx(45.0)
    assert timetable.of_inversion(100.0, 11.0, 5) == pytest.approx(1.25 * 55)
    assert timetable.of_inversion(100.0, 70.0, 5) == pytest.approx(75.0)
    assert timetable.of_inversion(100.0, 80.0, 5) == 0.0
    minutes = timetable.advised(9 * 60.0, 5)
    assert minutes == 90
    assert timetable.of_inversion(60.0 * minutes, 9 * 60.0, 5) >= 45 * 60


def test_a_preflight_that_took_the_time_is_said():
    with pytest.raises(checks.FieldError, match=r"pre-flight took 70 s.*takes 0.5 s"):
        plan(minutes=1.0, seconds_a_model=0.5, passed=70.0)
    assert plan(minutes=2.0, seconds_a_model=0.5, passed=70.0).targets == 10


@pytest.fixture(scope="module")
def slow(digits):
    """A subject whose training is slow."""
    terms = contract.load_training(slow_numpy, version="1")
    return subject.prepare(terms, digits, targets=2)


def test_shadow_models_end_with_their_time(slow):
    models = trials.train(slow, targets=2)
    started = time.monotonic()
    made = trials.with_shadows(models, 500, limit=3.0)
    assert time.monotonic() - started < 20
    assert 0 < len(made.shadows) < 100
    none = trials.with_shadows(models, 500, limit=1.0, fewest=400)
    assert none.shadows is None
    assert "only" in none.why_no_shadows


def test_a_batch_is_not_begun_when_the_time_is_over(slow):
    made = trials.with_shadows(trials.train(slow, targets=2), 500, limit=0.01)
    together = slow.factory("shadow", answers=True).models_at_once
    assert len(made.shadows) == together


def plan(**changed):
    given = {
        "minutes": 10.0,
        "seconds_a_model": 0.1,
        "targets": 20,
        "public": 5000,
        "params": 1000,
        "features": 64,
        "num_classes": 10,
        "differentiable": True,
    }
    return timetable.plan(**{**given, **changed})


def test_the_budget_is_kept():
    found = plan()
    assert found.targets == 20
    assert found.most_shadows == 5000
    assert plan(seconds_a_model=10.0).targets == 6
    assert plan(public=40).most_shadows == 40
    assert plan(public=20).most_shadows == 0
    with pytest.raises(ValueError, match=r"minutes.*a model takes 100 s"):
        plan(minutes=1.0, seconds_a_model=100.0)
