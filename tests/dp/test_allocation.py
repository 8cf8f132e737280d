"""Random allocation: against likelihood ratios drawn at random, and closed forms."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import integrate, signal, special, stats

import dp
from dp import allocation, lattice, loss_grid, poisson

EXAMPLE = {"noise_multiplier": 1.1, "steps": 235, "epochs": 15, "relation": "zero_out"}


def log_ratios(rng, sigma, steps, epochs, many, *, present):
    """Log likelihood ratios of with over without, of drawn runs."""
    total = np.zeros(many)
    for _ in range(epochs):
        seen = sigma * rng.normal(size=(many, steps))
        seen[:, 0] += present
        exponents = (seen - 0.5) / sigma**2
        total += special.logsumexp(exponents, axis=1) - math.log(steps)
    return total


@pytest.mark.parametrize(
    ("sigma", "steps", "epochs", "many"),
    [(0.3, 100, 1, 20_000), (0.6, 20, 3, 40_000), (2.0, 50, 10, 10_000)],
)
def test_delta_of_both_directions_is_that_of_drawn_runs(
    sigma, steps, epochs, many, rng
):
    """Within 4.5 standard errors, so neither below the truth nor loose."""
    both = loss_grid.grids(allocation.losses(sigma, steps, epochs, poisson.FINE))
    epsilons = np.array([-1.0, 0.0, 0.3, 1.0, 2.0])
    for grid, present in zip(both, (True, False), strict=True):
        losses = log_ratios(rng, sigma, steps, epochs, many, present=present)
        losses = losses if present else -losses
        gains = -np.expm1(np.minimum(epsilons[:, None] - losses, 0))
        error = gains.std(axis=1) / math.sqrt(many) + 3 / many
        assert np.all(np.abs(grid.deltas(epsilons) - gains.mean(axis=1)) < 4.5 * error)


@pytest.mark.parametrize("sigma", [0.25, 0.8, 3.0])
def test_delta_of_two_steps_is_that_of_quadrature(sigma):
    """To 1e-4 of itself, and never below, from 1e-1 down to 1e-10."""
    both = loss_grid.grids(allocation.losses(sigma, 2, 1, poisson.FINE))

    def exact(epsilon, sign):
        """E of (sign (L - e^(sign epsilon)))_+, L the mean of two, scaled by e^-..."""

        def given(z):
            first = math.exp(z / sigma - 0.5 / sigma**2)
            strike = 2 * math.exp(sign * epsilon) - first  # of the second, lognormal
            if strike <= 0:
                return max(sign, 0) * (1 - strike)
            above = stats.norm.sf(d := sigma * math.log(strike) + 0.5 / sigma)
            mean_above = stats.norm.sf(d - 1 / sigma)
            if sign > 0:
                return mean_above - strike * above
            return strike * (1 - above) - (1 - mean_above)

        def weighted(z):
            return given(z) * stats.norm.pdf(z)

        knee = sigma * (math.log(2) + sign * epsilon) + 0.5 / sigma
        points = sorted({-12.0, *np.linspace(-6, 12, 25), min(max(knee, -12), 30), 30})
        parts = [
            integrate.quad(weighted, a, b, epsabs=0, epsrel=1e-9)[0]
            for a, b in itertools.pairwise(points)
        ]
        return sum(parts) / 2 * (1 if sign > 0 else math.exp(epsilon))

    checked = 0
    for grid, sign in zip(both, (1, -1), strict=True):
        for epsilon in np.array([0.0, 0.3, 1.0, 2.0, 4.0, 7.0]) / sigma:
            truth = exact(float(epsilon), sign)
            if 1e-10 < truth < 1:
                delta = grid.deltas(np.array([epsilon]))[0]
                assert truth * (1 - 1e-8) <= delta <= truth * (1 + 1e-4) + 2e-14
                checked += 1
    assert checked >= 4


def test_the_fourier_transform_loses_nothing_that_counts(monkeypatch):
    """Against convolution without it, which keeps all digits of every mass."""

    def total():
        law = lattice.total(lattice.lognormal(0.7, 37, 256), 37)
        assert law.rounding < 1e-14
        return law

    fast = total()

    class Direct:
        """A product of "transforms" is a pair of arrays that are convolved."""

        def __init__(self, pairs):
            self.pairs = pairs

        def __mul__(self, other):
            return Direct([(self.pairs, other.pairs)])

        def __add__(self, other):
            return Direct(self.pairs + other.pairs)

    def back(product, size):
        values = sum(signal.convolve(a, b, method="direct") for a, b in product.pairs)
        return np.pad(values, (0, size))

    monkeypatch.setattr(lattice.fft, "rfft", lambda values, size: Direct(values))
    monkeypatch.setattr(lattice.fft, "irfft", back)
    plain = total()
    thresholds = 37 * np.exp(np.arange(-2.0, 8.0))
    for sign in (1, -1):
        deltas = [
            np.sum(
                law.octaves.ravel()
                * np.maximum(sign * (law.values.ravel() - thresholds[:, None]), 0),
                axis=1,
            )
            for law in (fast, plain)
        ]
        np.testing.assert_allclose(*deltas, rtol=1e-9, atol=1e-14)
        assert deltas[1].min() < 1e-9  # far into the tail


def test_divergences_are_those_of_sums_over_all_allocations():
    """E[L^a] by brute force: every a-tuple of steps, and how often each occurs."""
    sigma, steps = 0.9, 3
    orders, found = allocation.renyi(sigma, steps, 2)
    for order in (2, 3, 4, 6):
        tuples = np.indices((steps,) * order).reshape(order, -1)
        counts = np.stack([(tuples == i).sum(axis=0) for i in range(steps)])
        moment = np.mean(np.exp(np.sum(counts * (counts - 1), axis=0) / 2 / sigma**2))
        expected = 2 * math.log(moment) / (order - 1)
        at = found[orders == order][0]
        assert expected <= at <= expected * (1 + 1e-10)


def test_the_example_is_no_worse_than_poisson_sampling():
    """60,000 records, batches of 256, 15 epochs, noise 1.1: the bound of the issue."""
    run = dp.RandomAllocation(**EXAMPLE)
    batches = dp.Batches(records=60_000, batch=256, epochs=15, sampling="allocation")
    assert run == batches.mechanism(noise_multiplier=1.1, relation="zero_out")
    secret = dataclasses.replace(batches, sampling="poisson")
    secret = secret.mechanism(noise_multiplier=1.1, relation="zero_out")
    ratio = (
        dp.rero_bound(run, kappa=0.01).gamma / dp.rero_bound(secret, kappa=0.01).gamma
    )
    assert 0.95 < ratio < 1
    assert 0.9 < run.epsilon(1e-5) / secret.epsilon(1e-5) < 1
    # Who is told the order is as well off as with shuffled batches.
    assumption = dp.assumption(run)
    assert "secret random allocation" in assumption.text
    ((_, known),) = assumption.otherwise
    assert known == dp.Gaussian(noise_multiplier=1.1, steps=15, relation="zero_out")


def test_without_a_secret_order_it_is_one_gaussian_step_an_epoch():
    for changed in (
        {"relation": "replace_one"},
        {"steps": 1},
        {"noise_multiplier": 0.05},
    ):
        run = dp.RandomAllocation(**(EXAMPLE | changed))
        gamma = dp.rero_bound(run, kappa=0.01).log_gamma
        assert gamma == dp.rero_bound(run.full, kappa=0.01).log_gamma
        assert run.epsilon(1e-5) == run.full.epsilon(1e-5)


def test_a_coarser_grid_and_fewer_points_only_loosen(monkeypatch):
    run = dp.RandomAllocation(**(EXAMPLE | {"steps": 20, "epochs": 3}))
    fine = run.bounds(np.log([1e-6, 0.01, 0.3]))["privacy loss"]
    coarse = dataclasses.replace(run, grid=2e-2)
    assert np.all(coarse.bounds(np.log([1e-6, 0.01, 0.3]))["privacy loss"] > fine)
    monkeypatch.setattr(allocation, "_FEWEST", 64)
    monkeypatch.setattr(allocation, "_PER_DEVIATION", 4)
    rough = dataclasses.replace(run, grid=1.9e-4).bounds(np.log([1e-6, 0.01, 0.3]))
    assert np.all(rough["privacy loss"] > fine)


def test_epsilon_is_of_both_directions():
    """Renyi divergences are of one, so that they may not lower it."""
    run = dp.RandomAllocation(**(EXAMPLE | {"noise_multiplier": 8.0, "epochs": 3}))
    both = loss_grid.grids(run.losses()[0])
    for delta in (1e-3, 1e-9):
        epsilon = run.epsilon(delta)
        assert max(grid.deltas(np.array([epsilon]))[0] for grid in both) <= delta
        assert run.delta(epsilon) == pytest.approx(delta, rel=1e-6)
    alone = dataclasses.replace(run, epochs=allocation._MOST_EPOCHS + 1)
    assert alone.losses() is None
    assert alone.epsilon(1e-5) == alone.full.epsilon(1e-5)
