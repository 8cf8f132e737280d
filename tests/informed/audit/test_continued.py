"""An inversion that time cut off goes on with the time that other attacks left."""

import dataclasses

import numpy as np
import pytest

from informed.attacks import registry
from informed.audit import auditing, timetable, trials
from informed.audit.audit_state import AuditState
from informed.audit.ledger import Ledger
from shadow import limits
from shadow.threat import Reconstruction
from tests.informed.audit.audited_trainings import linear

TARGETS = 4
SETTINGS = auditing.AuditConfig(targets=TARGETS, fixed=20)


@pytest.fixture(scope="module")
def checked(digits):
    few = digits.take(np.arange(120))
    return auditing.check(linear, few, **dataclasses.asdict(SETTINGS))


@pytest.fixture(scope="module")
def models(checked):
    return trials.train(checked.subject, targets=TARGETS)


@pytest.fixture(scope="module")
def whole(checked, models):
    row = registry.find("inversion")
    return trials.attempt(row, models, checked, limit=600.0)


def cut_off(whole, count):
    """The trial as it is when time is over at the target after so many."""
    parts = dataclasses.asdict(whole.reconstruction)
    first = {n: None if v is None else v[:count] for n, v in parts.items()}
    finished = np.arange(count + 1) < count
    images = np.where(finished[:, None, None, None], whole.images[: count + 1], np.nan)
    return dataclasses.replace(
        whole,
        images=images,
        finished=finished,
        certified=whole.certified[: count + 1] & finished,
        reconstruction=Reconstruction(**first),
        trainings=int(whole.reconstruction.trainings[:count].sum()),
        needs=0.1,
        why_not=f"out of time at target {count + 1} of {TARGETS}",
    )


def schedule(seconds):
    return timetable.Schedule(limits.Clock(seconds), ("inversion", "kernel"))


def continued(trial, models, checked, seconds):
    said = []
    state = AuditState(checked=checked, models=models, trials={"inversion": trial})
    auditing.continue_inversion(state, schedule(seconds), said.append)
    return state.trials["inversion"], said


@pytest.mark.parametrize("count", [1, 3])
def test_going_on_finds_what_one_go_finds(count, whole, models, checked):
    begun = cut_off(whole, count)
    found, said = continued(begun, models, checked, 600.0)
    assert said[0].startswith("inversion goes on")
    np.testing.assert_array_equal(found.images, whole.images)
    np.testing.assert_array_equal(found.certified, whole.certified)
    np.testing.assert_array_equal(
        found.reconstruction.residuals, whole.reconstruction.residuals
    )
    assert found.finished.tolist() == [True] * TARGETS
    assert (found.needs, found.why_not) == (None, "")
    # What all targets share is trained once more.
    assert found.trainings >= whole.trainings
    assert found.seconds > begun.seconds


def test_what_was_found_stays_where_time_is_over_again(whole, models, checked):
    begun = dataclasses.replace(cut_off(whole, 2), needs=1e-4)
    found, _ = continued(begun, models, checked, 0.001)
    np.testing.assert_array_equal(found.images[:2], whole.images[:2])
    assert found.finished.tolist() == [True, True, False]
    assert found.certified.tolist() == [True, True, False]
    assert found.why_not.startswith(f"out of time at target 3 of {TARGETS}")
    assert found.needs


def test_time_that_is_over_before_the_attack_is_made_costs_one_target(
    whole, models, checked
):
    row = registry.find("inversion")
    begun = cut_off(whole, 2)
    found = trials.attempt(row, models, checked, limit=0.0, begun=begun)
    assert found.finished.tolist() == [True, True, False]
    np.testing.assert_array_equal(found.images[:2], whole.images[:2])


def test_nothing_is_begun_without_the_time_for_it_or_when_it_is_done(
    whole, models, checked
):
    begun = dataclasses.replace(cut_off(whole, 2), needs=100.0)
    for trial, seconds in ((begun, 100.0), (whole, 600.0)):
        found, said = continued(trial, models, checked, seconds)
        assert found is trial
        assert not said


def test_what_was_found_stays_where_going_on_stumbles(whole, models, checked):
    begun = cut_off(whole, 2)
    broken = dataclasses.replace(models, released=models.released[:, :-1])
    found, _ = continued(begun, broken, checked, 600.0)
    assert "it stopped with" in found.why_not
    np.testing.assert_array_equal(found.images[:2], whole.images[:2])
    assert found.finished.tolist() == [True, True, False]


def test_a_page_written_before_the_next_target_has_those_of_an_earlier_call(
    whole, models, checked, monkeypatch, tmp_path
):
    begun, pages = cut_off(whole, 2), []
    state = AuditState(
        checked=checked, models=models, settings=SETTINGS, ledger=Ledger(tmp_path)
    )
    state.subject = checked.subject
    state.ledger.open({})
    state.ledger.keep_trial(begun, registry.find("inversion").version)

    def attempt(*arguments, **settings):
        pages.append({trial.name: trial for trial in state._all_trials()})
        return settings["begun"]

    monkeypatch.setattr(trials, "attempt", attempt)
    plan = timetable.Budget(
        targets=TARGETS, most_shadows=0, inversion_seconds=9.0, inversion_of_one=1.0
    )
    row = registry.find("inversion")
    auditing._play(state, row, schedule(60.0), plan, lambda said: None)
    (page,) = pages
    assert page["inversion"].why_not == f"out of time at target 3 of {TARGETS}"
    np.testing.assert_array_equal(page["inversion"].images[:2], whole.images[:2])
