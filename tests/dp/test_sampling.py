"""Records, batches, epochs: against simulated attacks, quadrature and closed forms."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import integrate, stats

import dp
from dp import rero
from dp import sampling as words

RUN = {"noise_multiplier": 1.1, "relation": "zero_out"}
SMALL = {"records": 20, "batch": 2, "epochs": 2}


def mnist(sampling):
    return dp.Batches(records=60_000, batch=256, epochs=15, sampling=sampling)


def gamma(mechanism, kappa):
    return float(dp.rero_bound(mechanism, kappa=kappa).gamma)


def test_shuffled_batches_protect_as_a_records_own_steps():
    """0.88 in place of 0.021: forty times."""
    secret = gamma(mnist("poisson").mechanism(**RUN), 0.01)
    assert secret == pytest.approx(0.0211, abs=5e-5)
    shuffled = gamma(mnist("shuffled").mechanism(**RUN), 0.01)
    mu = math.sqrt(15) / 1.1
    assert shuffled == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.01) + mu))
    assert shuffled / secret == pytest.approx(42, abs=0.5)
    assert secret < gamma(mnist("fixed").mechanism(**RUN), 0.01) < shuffled


def test_every_mechanism_says_what_it_assumes():
    """And what holds otherwise, which is never less than the bound."""
    for sampling, secret in (("poisson", True), ("fixed", True), ("shuffled", False)):
        batches = mnist(sampling)
        run = batches.mechanism(**RUN)
        found = batches.assumption(run)
        assert ("secret" in found.text.split(":")[0]) is secret
        assert ("Only the noise has to be secret" in found.text) is not secret
        assert "noise" in found.text
        assert found.otherwise
        for _, mechanism in found.otherwise:
            assert gamma(mechanism, 0.01) > gamma(run, 0.01)
    full = dp.Batches(records=10, batch=10, epochs=3, sampling="poisson")
    found = full.assumption(full.mechanism(**RUN))
    assert not found.otherwise
    assert "more than 3 of the batches" in found.text


@pytest.mark.parametrize(("steps", "q", "epochs"), [(1000, 0.01, 10), (30, 0.3, 10)])
def test_steps_alone_count_every_epoch_that_may_have_begun(steps, q, epochs):
    """Of 100 records in batches of 30 an epoch may be 3 steps: 30 are 10 epochs."""
    run = dp.PoissonGaussian(steps=steps, sampling_probability=q, **RUN)
    shuffled = dp.assumption(run).otherwise[0][1]
    assert shuffled.steps == epochs


def test_the_last_batch_counts_as_a_step():
    assert mnist("poisson").steps == 15 * 235
    assert mnist("poisson").sampling_probability == 256 / 60_000


def test_an_attack_on_shuffled_batches_attains_the_bound(rng):
    """Two opposite targets; who knows the order adds up the record's own steps."""
    trials, sigma = 40_000, 2.0
    batches = dp.Batches(records=6, batch=2, epochs=3, sampling="shuffled")
    target = rng.choice([-1.0, 1.0], trials)
    place = rng.integers(0, 3, (trials, 3))  # of the target's batch in each epoch
    seen = sigma * rng.normal(size=(trials, 3, 3))
    seen += (place[:, :, None] == np.arange(3)) * target[:, None, None]
    own = np.take_along_axis(seen, place[:, :, None], axis=2).sum(axis=(1, 2))
    bound = gamma(batches.mechanism(noise_multiplier=sigma, relation="zero_out"), 0.5)
    margin = 4 * np.sqrt(0.25 / trials)
    assert np.mean(np.sign(own) == target) == pytest.approx(bound, abs=margin)
    # Who doesn't know it does worse.
    blind = np.sign(seen.sum(axis=(1, 2)))
    assert np.mean(blind == target) < bound - margin


def test_an_attack_on_known_batches_attains_the_mean_over_draws(rng):
    trials, sigma, q, steps = 40_000, 2.0, 0.3, 12
    run = dp.RevealedGaussian(
        noise_multiplier=sigma, sampling_probability=q, steps=steps, relation="zero_out"
    )
    target = rng.choice([-1.0, 1.0], trials)
    taken = rng.binomial(steps, q, trials)
    own = taken * target + sigma * np.sqrt(taken) * rng.normal(size=trials)
    guess = np.where(taken > 0, np.sign(own), 1.0)
    margin = 4 * np.sqrt(0.25 / trials)
    assert np.mean(guess == target) == pytest.approx(gamma(run, 0.5), abs=margin)


@pytest.mark.parametrize(("steps", "q"), [(9, 0.2), (300, 0.01), (45_000, 1e-3)])
@pytest.mark.parametrize("log_kappa", [-700.0, -3.0, -1e-3])
def test_the_mean_over_draws_is_that_of_scipys_binomial(steps, q, log_kappa):
    """Many steps are taken in blocks, which may only add."""
    given = {"noise_multiplier": 1 / 0.7, "steps": steps, "relation": "zero_out"}
    run = dp.RevealedGaussian(sampling_probability=q, **given)
    log_gamma = float(run.bounds(np.array(log_kappa))["own steps"])
    k = np.arange(steps + 1)
    logs = stats.binom.logpmf(k, steps, q)
    one = [dp.bounds.gaussian(log_kappa, 0.7 * math.sqrt(i)) for i in k[logs > -900]]
    expected = float(np.logaddexp.reduce(logs[logs > -900] + np.array(one)))
    assert expected * (1 + 1e-9) - 1e-9 <= log_gamma
    assert log_gamma <= expected * (1 - 1e-9) + 1e-9


def test_everyone_in_every_step_is_full_batches():
    given = {"noise_multiplier": 3.0, "steps": 7, "relation": "replace_one"}
    full = dp.Gaussian(**given)
    for run in (
        dp.RevealedGaussian(sampling_probability=1.0, **given),
        dp.FixedSizeGaussian(records=9, batch=9, **given),
    ):
        assert gamma(run, 0.1) == pytest.approx(gamma(full, 0.1), rel=1e-12)
        epsilons = [each.epsilon(1e-5) for each in (run, full)]
        assert epsilons[0] == pytest.approx(epsilons[1], rel=1e-5)


def test_fixed_batches_protect_less_than_poisson_sampling(rng):
    """An attack that breaks the bound of Poisson sampling with the same noise.

    The others' gradients are -1, the target's is 1 or -1: whoever the target takes the
    place of moves the sum too. The best test of the two is the likelihood ratio's.
    """
    trials, q, steps, sigma = 20_000, 0.1, 20, 0.7
    target = rng.random(trials) < 0.5
    taken = rng.random((trials, steps)) < q
    moved = 2.0 * (taken & target[:, None])  # of the sum, from that of the others alone
    seen = moved + sigma * rng.normal(size=moved.shape)
    ratios = np.log1p(q * np.expm1((2 * seen - 2) / sigma**2)).sum(axis=1)
    right = int(np.sum((ratios > 0) == target))
    given = {"noise_multiplier": sigma, "steps": steps, "relation": "zero_out"}
    poisson = dp.PoissonGaussian(sampling_probability=q, **given)
    fixed = dp.FixedSizeGaussian(records=20, batch=2, **given)
    assert dp.rates.violation(right, trials, gamma(poisson, 0.5)) < 1e-6
    assert dp.rates.violation(right, trials, gamma(fixed, 0.5)) > 0.05


@pytest.mark.parametrize("relation", ["zero_out", "replace_one", "add_or_remove"])
@pytest.mark.parametrize("sigma", [0.8, 3.0])
def test_epsilon_of_fixed_batches_holds_for_a_hard_case(relation, sigma):
    """By quadrature: two of four, the others' gradients opposite to the target's."""
    run = dp.FixedSizeGaussian(
        noise_multiplier=sigma, records=4, batch=2, steps=1, relation=relation
    )
    delta = 1e-3
    epsilon = run.epsilon(delta)
    reference = {"zero_out": -1.0, "replace_one": -2.0, "add_or_remove": -2.0}

    def density(x, centre):
        normal = stats.norm.pdf
        return (normal(x, -2, sigma) + normal(x, centre, sigma)) / 2

    def divergence(a, b):
        def excess(x):
            return max(0.0, density(x, a) - math.exp(epsilon) * density(x, b))

        span = 12 * sigma
        return integrate.quad(excess, -2 - span, span, limit=300)[0]

    other = reference[relation]
    worst = max(divergence(0.0, other), divergence(other, 0.0))
    assert worst <= delta * (1 + 1e-6)  # the error of quadrature


def test_epsilon_of_known_batches_is_where_the_mean_of_delta_is():
    delta, q, steps, sigma = 1e-4, 0.1, 30, 1.5
    run = dp.RevealedGaussian(
        noise_multiplier=sigma, sampling_probability=q, steps=steps, relation="zero_out"
    )
    epsilon = run.epsilon(delta)
    total = 0.0
    for k in range(1, steps + 1):
        mu = math.sqrt(k) / sigma
        first = stats.norm.cdf(mu / 2 - epsilon / mu)
        second = math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        total += stats.binom.pmf(k, steps, q) * (first - second)
    assert total == pytest.approx(delta, rel=1e-4)
    assert total <= delta


def test_who_knows_the_batches_sees_whether_a_record_is_there():
    """With 0.634 it is in one of the batches: no epsilon hides that."""
    run = dp.RevealedGaussian(
        noise_multiplier=5.0,
        sampling_probability=0.01,
        steps=100,
        relation="add_or_remove",
    )
    seen = 1 - 0.99**100
    assert run.epsilon(1e-5) == math.inf
    assert run.epsilon(seen - 1e-6) == math.inf
    assert run.epsilon(seen + 1e-6) == 0
    always = dataclasses.replace(run, sampling_probability=1.0)
    full = dp.Gaussian(noise_multiplier=5.0, steps=100, relation="add_or_remove")
    assert always.epsilon(1e-5) == pytest.approx(full.epsilon(1e-5), rel=1e-6)


def test_removal_from_batches_that_are_cut_is_said_to_be_another_matter():
    run = dp.Gaussian(noise_multiplier=1.1, steps=15, relation="add_or_remove")
    assert "use zero_out" in dp.assumption(run).text
    run = dataclasses.replace(run, relation="zero_out")
    assert "use zero_out" not in dp.assumption(run).text


def test_runs_in_a_row_assume_what_each_of_them_assumes():
    run = dp.PoissonGaussian(
        noise_multiplier=1.1, sampling_probability=0.01, steps=50, relation="zero_out"
    )
    later = dataclasses.replace(run, steps=7, sampling_probability=0.02)
    both = dp.Composition(parts=(run, later))
    assumed = dp.assumption(both)
    assert dp.assumption(run).text in assumed.text
    assert dp.assumption(later).text in assumed.text
    ((condition, always),) = assumed.otherwise
    assert "each of the 57 batches" in condition
    full = dp.Gaussian(noise_multiplier=1.1, steps=57, relation="zero_out")
    gamma = dp.rero_bound(always, kappa=0.01).gamma
    assert gamma == pytest.approx(dp.rero_bound(full, kappa=0.01).gamma)
    assert gamma > dp.rero_bound(both, kappa=0.01).gamma


@pytest.mark.parametrize(
    ("sampling", "relation", "wanted"),
    [
        *((sampling, "zero_out", {"gamma": 0.2}) for sampling in words.SAMPLINGS),
        ("fixed", "replace_one", {"gamma": 0.2}),
        ("poisson", "zero_out", {"epsilon": 1.5}),
        ("allocation", "zero_out", {"advantage": 0.3}),
    ],
)
def test_calibration_of_batches_undoes_what_is_wanted(sampling, relation, wanted):
    batches = dp.Batches(sampling=sampling, **SMALL)
    found = dp.calibrate(**wanted, kappa=0.1, batches=batches, relation=relation)
    sigma = found.noise_multiplier
    ((name, value),) = wanted.items()

    def at(sigma):
        run = batches.mechanism(noise_multiplier=sigma, relation=relation)
        if name == "gamma":
            return gamma(run, 0.1)
        return run.epsilon(1e-5) if name == "epsilon" else run.advantage()

    assert at(sigma) <= value < at(0.999 * sigma)
    assert found.epsilon == found.mechanism.epsilon(1e-5)
    assert gamma(found.mechanism, 0.1) == float(found.bound.gamma)
    shown = str(found)
    assert "\n" not in shown
    assert shown.startswith(f"noise multiplier {rero.rounded_up(sigma, 6)}, kappa 0.1")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"records": 0}, "records >= 1, got 0"),
        ({"batch": 21}, "batch <= records = 20, got 21"),
        ({"batch": 0}, "batch >= 1, got 0"),
        ({"epochs": 0}, "epochs >= 1, got 0"),
        ({"sampling": "weighted"}, "some records are drawn more often"),
        (
            {"sampling": "random"},
            "one of allocation, fixed, poisson, shuffled; got 'random'",
        ),
    ],
)
def test_batches_that_there_cannot_be_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        dp.Batches(**(SMALL | {"sampling": "poisson"} | fields))


def test_what_cannot_be_said_of_batches_is_refused():
    shuffled = dp.Batches(sampling="shuffled", **SMALL)
    for call in (
        lambda: shuffled.mechanism(noise_multiplier=1.0, relation="add_or_remove"),
        lambda: dp.calibrate(
            0.5, kappa=0.1, batches=shuffled, relation="add_or_remove"
        ),
    ):
        with pytest.raises(ValueError, match="zero_out or replace_one where batches"):
            call()
    with pytest.raises(ValueError, match="either batches or steps"):
        dp.calibrate(0.5, kappa=0.1, batches=shuffled, steps=3, relation="zero_out")
