"""What Opacus and jax-privacy keep, against their accountants' own epsilon."""

import dataclasses
import json

import dp_accounting
import pytest
from dp_accounting import pld

import dp

OPACUS = {"history": [[1.1, 0.004, 500]], "mechanism": "rdp"}
JAX_PRIVACY = {
    "noise_multipliers": 1.1,
    "num_samples": 1000,
    "delta": 1e-5,
    "batch_size": 100,
    "num_updates": 50,
    "sampling_method": "POISSON",
}


RUN = {"noise_multiplier": 1.1, "steps": 50, "relation": "zero_out"}


def drawn(q, sigma):
    step = dp_accounting.GaussianDpEvent(sigma)
    return dp_accounting.PoissonSampledDpEvent(q, step)


def epsilon_of(segments, delta=1e-5):
    """Of Poisson-sampled Gaussians one after the other, by dp-accounting."""
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for sigma, q, steps in segments:
        accountant.compose(drawn(q, sigma), steps)
    return accountant.get_epsilon(delta)


@pytest.mark.parametrize("mechanism", ["rdp", "prv", "gdp"])
def test_opacus_of_one_setting(mechanism):
    found = dp.History.of(OPACUS | {"mechanism": mechanism})
    assert found.steps == 500
    assert not found.changed
    ours = found.mechanism("add_or_remove").epsilon(1e-5)
    assert ours == pytest.approx(epsilon_of(OPACUS["history"]), rel=1e-3)


def test_opacus_of_settings_that_changed_is_composed_as_it_was():
    segments = [(1.3, 0.002, 200), (0.9, 0.004, 100), (1.1, 0.001, 300)]
    kept = {"history": json.loads(json.dumps(segments)), "mechanism": "rdp"}
    found = dp.History.of(kept)
    assert found.changed
    assert (found.noise_multiplier, found.sampling_probability) == (0.9, 0.004)
    assert found.steps == 600
    run, theirs = found.mechanism("add_or_remove"), epsilon_of(segments)
    assert theirs < run.epsilon(1e-5) < 1.001 * theirs
    assert theirs < 0.6 * found.worst("add_or_remove").epsilon(1e-5)
    parts = [dp_accounting.SelfComposedDpEvent(drawn(q, s), n) for s, q, n in segments]
    event = dp_accounting.ComposedDpEvent(parts)
    assert dp.from_event(event, relation="add_or_remove") == run
    assert run.delta(run.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-6)


def test_full_steps_of_several_noises_add_up_as_squares_of_1_over_sigma():
    replaced = {"relation": "replace_one"}
    parts = [
        dp.PoissonGaussian(
            noise_multiplier=s, sampling_probability=1.0, steps=n, **replaced
        )
        for s, n in ((2.0, 3), (0.5, 1), (4.0, 8))
    ]
    run = dp.Composition(parts=tuple(parts))
    noises = (2.0,) * 3 + (0.5,) + (4.0,) * 8
    plain = dp.Gaussian(noise_multiplier=noises, steps=12, **replaced)
    assert run.epsilon(1e-5) == pytest.approx(plain.epsilon(1e-5), rel=1e-12)
    steps = dp_accounting.ComposedDpEvent(
        list(map(dp_accounting.GaussianDpEvent, noises))
    )
    again = dp.from_event(steps, relation="replace_one")
    assert again.epsilon(1e-5) == pytest.approx(plain.epsilon(1e-5), rel=1e-12)


STEP = dp_accounting.GaussianDpEvent(2.0)


@pytest.mark.parametrize(
    ("event", "run"),
    [
        (
            dp_accounting.SelfComposedDpEvent(STEP, 3),
            dp.Gaussian(noise_multiplier=2.0, steps=3, relation="zero_out"),
        ),
        (
            dp_accounting.SelfComposedDpEvent(
                dp_accounting.SampledWithoutReplacementDpEvent(9, 3, STEP), 3
            ),
            dp.FixedSizeGaussian(
                noise_multiplier=2.0,
                records=9,
                batch=3,
                steps=3,
                relation="replace_one",
            ),
        ),
        # Replacing a record moves the sum by twice the sensitivity.
        (
            dp_accounting.LaplaceDpEvent(4.0),
            dp.Laplace(eps=0.5, relation="replace_one"),
        ),
        (
            dp_accounting.ZCDpEvent(0.5),
            dp.ZeroConcentratedDP(rho=0.5, relation="zero_out"),
        ),
    ],
)
def test_events_of_dp_accounting_are_mechanisms(event, run):
    assert dp.from_event(event, relation=run.relation) == run


def test_events_that_no_mechanism_is_for_are_refused():
    tree = dp_accounting.SingleEpochTreeAggregationDpEvent(1.0, 5)
    for event in (tree, dp_accounting.ComposedDpEvent([tree, tree])):
        with pytest.raises(dp.domain.FieldError, match="event of Gaussian steps"):
            dp.from_event(event, relation="zero_out")
    with pytest.raises(dp.domain.FieldError, match="noise_multiplier"):
        dp.from_event(dp_accounting.LaplaceDpEvent(0.0), relation="zero_out")


@pytest.mark.parametrize(
    ("kept", "run"),
    [
        (
            OPACUS | {"history": [[4.0, 1.0, 40]]},
            dp.Gaussian(noise_multiplier=4.0, steps=40, relation="zero_out"),
        ),
        (
            JAX_PRIVACY | {"sampling_method": "FIXED_BATCH_SIZE"},
            dp.FixedSizeGaussian(records=1000, batch=100, **RUN),
        ),
    ],
)
def test_a_history_is_read_as_what_it_samples(kept, run):
    assert dp.History.of(kept).mechanism("zero_out") == run


def test_jax_privacy_s_own_parameters_and_accountant():
    accounts = pytest.importorskip("jax_privacy.accounting")
    params = accounts.analysis.DpParams(
        noise_multipliers=1.1, num_samples=1000, delta=1e-5, batch_size=100
    )
    kept = {**dataclasses.asdict(params), "num_updates": 50}
    kept["sampling_method"] = params.sampling_method.name
    found = dp.History.of(json.loads(json.dumps(kept)))
    theirs = accounts.analysis.DpsgdTrainingAccountant(
        dp_accountant_config=accounts.accountants.PldAccountantConfig()
    ).compute_epsilon(50, params)
    ours = found.mechanism("add_or_remove").epsilon(1e-5)
    assert ours == pytest.approx(theirs, rel=2e-3)
    # Every field that is looked at is one that the package has.
    names = {field.name for field in dataclasses.fields(params)} | {"num_updates"}
    assert {*JAX_PRIVACY, "examples_per_user", "cycle_length", "batch_sizes"} <= names
    assert {"truncated_batch_size", "sampling_method", "is_finite_guarantee"} <= names


def test_jax_privacy_s_parameters_with_a_growing_batch_are_taken_as_they_are():
    accounts = pytest.importorskip("jax_privacy.accounting")
    params = accounts.analysis.DpParams(
        noise_multipliers=1.1,
        num_samples=1000,
        delta=1e-5,
        batch_size=100,
        batch_size_scale_schedule={20: 2},
    )
    history = dp.History.of(dataclasses.asdict(params) | {"num_updates": 50})
    assert history.runs == ((1.1, 0.1, 20), (1.1, 0.2, 30))


def test_the_event_of_a_jax_privacy_plan_is_its_mechanism():
    plans = pytest.importorskip("jax_privacy.experimental.execution_plan")
    config = plans.BandMFExecutionPlanConfig(
        iterations=40,
        strategy=[1.0],
        epsilon=None,
        delta=None,
        noise_multiplier=1.2,
        sampling_prob=0.1,
    )
    run = dp.from_event(config.plan.dp_event, relation="zero_out")
    expected = {"noise_multiplier": 1.2, "sampling_probability": 0.1, "steps": 40}
    assert run == dp.PoissonGaussian(**expected, relation="zero_out")


def test_jax_privacy_with_a_schedule_is_composed_step_by_step():
    kept = JAX_PRIVACY | {
        "noise_multipliers": [[0, 2.0], [10, 1.5]],
        "batch_size_scale_schedule": {"20": 2},
        "batch_sizes": [[0, 100], [20, 200]],
    }
    found = dp.History.of(kept)
    assert found.changed
    assert (found.noise_multiplier, found.sampling_probability) == (1.5, 0.2)
    assert found.batch == 200
    assert found.runs == ((2.0, 0.1, 10), (1.5, 0.1, 10), (1.5, 0.2, 30))
    ours = found.mechanism("add_or_remove").epsilon(1e-5)
    assert ours == pytest.approx(epsilon_of(found.runs), rel=1e-3)


def test_a_history_without_a_probability_needs_records_and_batch():
    with pytest.raises(dp.domain.FieldError, match="records and batch"):
        dp.History(
            noise_multiplier=1.0, steps=2, sampling_probability=None, source="Opacus"
        )


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ([], "to be an object"),
        ({}, "no field"),
        ({"epsilon": 3}, "it has epsilon"),
        (OPACUS | {"mechanism": "magic"}, "mechanism of Opacus to be one of"),
        (OPACUS | {"history": []}, "at least one step"),
        (OPACUS | {"history": [[1.0, 0.1]]}, "list of"),
        (OPACUS | {"history": [[0.0, 0.1, 5]]}, "noise in each step"),
        (OPACUS | {"history": [[1.0, 1.5, 5]]}, r"\(0, 1\]"),
        (OPACUS | {"history": [[1.0, 0.1, 2.5]]}, "whole number"),
        (OPACUS | {"history": [["1", 0.1, 2]]}, "made of numbers"),
        (OPACUS | {"history": [[float("nan"), 0.1, 2]]}, "finite"),
        ({"noise_multipliers": 1.0}, "num_samples"),
        (JAX_PRIVACY | {"num_updates": None}, "num_updates"),
        (JAX_PRIVACY | {"cycle_length": 4}, "cycle_length is 4"),
        (JAX_PRIVACY | {"examples_per_user": 2}, "examples_per_user is 2"),
        (JAX_PRIVACY | {"truncated_batch_size": 9}, "truncated_batch_size is 9"),
        (JAX_PRIVACY | {"truncated_batch_size": 1}, "truncated_batch_size is 1"),
        (JAX_PRIVACY | {"new_field": 1}, "new_field is a field that isn't known"),
        (OPACUS | {"correlated": True}, "correlated is a field that isn't known"),
        (JAX_PRIVACY | {"is_finite_guarantee": False}, "guarantees nothing"),
        (JAX_PRIVACY | {"noise_multipliers": 0}, "> 0 in each step"),
        (JAX_PRIVACY | {"noise_multipliers": [1, 2]}, "pairs"),
        (JAX_PRIVACY | {"noise_multipliers": [[100, 5.0]]}, "multipliers to begin"),
        (JAX_PRIVACY | {"batch_sizes": [[3, 300]]}, "batch_sizes to begin"),
        (JAX_PRIVACY | {"num_updates": 10**400}, "num_updates"),
        (JAX_PRIVACY | {"batch_size": 2000}, "at most 1000 records"),
        (JAX_PRIVACY | {"sampling_method": "shuffled"}, "POISSON or FIXED_BATCH_SIZE"),
        (
            {k: v for k, v in JAX_PRIVACY.items() if k != "sampling_method"},
            "Expected sampling_method",
        ),
        (JAX_PRIVACY | {"batch_size_scale_schedule": {"1": 2}}, "batch_sizes"),
    ],
)
def test_what_is_no_history_is_refused(kept, said):
    with pytest.raises(dp.domain.FieldError, match=said):
        dp.History.of(kept)


def test_batches_that_grew_to_everybody_are_taken_at_their_worst():
    """Of a smaller batch another record takes the place of one that is removed."""
    values = JAX_PRIVACY | {
        "batch_size": [[0, 500], [1, 1000]],
        "num_updates": 2,
        "sampling_method": "FIXED_BATCH_SIZE",
    }
    grown = dp.History.of(values).mechanism("add_or_remove")
    small = dp.History.of(values | {"batch_size": 500}).mechanism("add_or_remove")
    one = dataclasses.replace(small, steps=1)
    for delta in (1e-5, 1e-3):
        found = grown.epsilon(delta)
        assert found >= small.epsilon(delta)
        assert found >= one.epsilon(delta)
