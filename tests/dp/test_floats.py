"""Every number that enters `dp` is refused in one line, or has a limit that is right.

`CALLS` holds a valid call of each public function and dataclass of `dp`. Each number in
it is replaced by NaN, infinities, zero, a negative number, and the ends of float64.
"""

import dataclasses
import importlib
import inspect
import math
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dp
from dp import (
    bounds,
    calibration,
    conditional,
    gradient,
    mechanisms,
    participation,
    poisson,
    priors,
    rates,
    rero,
)
from dp import sampling as words

BAD = (math.nan, math.inf, -math.inf, -1.0, 0.0, 1e308, 5e-324)
HUGE = 10**400  # an integer that float64 doesn't hold
LOGS = np.array([-math.inf, -1e7, -3.0, -1e-9, 0.0])
SAMPLED = dp.PoissonGaussian(
    noise_multiplier=1.0,
    sampling_probability=0.1,
    steps=3,
    relation="zero_out",
    grid=1e-3,
)
SPREAD = np.array([[2.0, 0.5], [0.5, 1.0]])
SQUARE = np.array([[0.0, 1.0], [1.0, 0.0]])
HALVES = np.array([0.5, 0.5])
SAMPLE = np.random.default_rng(0).normal(size=(12, 2))
FIRST = np.array([0])
ZERO = {"relation": "zero_out"}
NOISE = {"noise_multiplier": 1.0, "steps": 3}
COARSE = {"grid": 1e-3}
PRIVATE = {"clip_norm": 1.0, "noise_multiplier": 1.0}
SCRIPT = {"records": 20, "batch": 2, "epochs": 2, "sampling": "fixed"}
Q = {"noise_multiplier": 1.0, "probability": 0.1}
BOUND = dp.rero_bound(SAMPLED, kappa=0.1)


def losses_of(loss: Any, **given: Any) -> Any:
    return loss(**given).get_delta_for_epsilon(np.array([0.0, 1.0]))


def clipped(**given: Any) -> Any:
    def losses(taps: Any) -> Any:
        return jnp.sum((1 + taps["a"]) ** 2, axis=0), {"a": jnp.ones((2, 3))}

    params, taps = {"a": {"w": jnp.ones((2, 1))}}, {"a": jnp.zeros((1, 3))}
    return gradient.clipped_sum(losses, params, taps, **given)


def clipped_plainly(**given: Any) -> Any:
    return gradient.clipped_sum_traced(
        lambda params, example: jnp.sum(params * example),
        jnp.ones(2),
        jnp.ones((3, 2)),
        **given,
    )


def call(function: Any, **given: Any) -> tuple[str, tuple[Any, dict[str, Any]]]:
    """A valid call, by the name of the function in its module."""
    home = inspect.unwrap(function).__module__.removeprefix("dp.")
    return f"{home}.{function.__name__}", (function, given)


# Functions without a number, or whose numbers come from what checks them.
UNCALLED = [
    "sampling.Assumption",
    "sampling.assumption",
    "conditional.schur_complement",
    "conditional.known_mask",
    "gradient.squared_norms",
    "histories.from_event",
    "guarantee.Guarantee",
    "guessing.Baseline",
    "guessing.kappa_from",
    "ghost_norms.Gradients",
    "ghost_norms.single",
    "ghost_norms.traced",
    "published.LossDistribution",
    "mechanisms.Mechanism",
    "mechanisms.Amplified",
    "mechanisms.Composition",
    "mechanisms.require_sampled",
    "participation.counts",
    "plots.plot",
    "rero.decimal",
    "rero.register_bound",
    "rero.rounded_up",
]
# By name: what is called, with which numbers (and other arguments).
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    **dict(
        [
            call(words.Batches, **SCRIPT),
            call(bounds.approximate, log_kappa=LOGS, epsilon=1.0, delta=0.1),
            call(bounds.binary_renyi, log_kappa=LOGS, order=2.0, epsilon=1.0),
            call(bounds.corollary_3, log_kappa=LOGS, epsilon=1.0),
            call(bounds.corollary_4, log_kappa=LOGS, rho=1.0),
            call(bounds.dual, log_kappa=LOGS, epsilons=SQUARE[0], deltas=0.1 * HALVES),
            call(bounds.gaussian, log_kappa=LOGS, mu=1.0),
            call(bounds.laplace, log_kappa=LOGS, epsilon=1.0),
            call(bounds.pure, log_kappa=LOGS, epsilon=1.0, **ZERO),
            call(bounds.renyi, log_kappa=LOGS, order=2.0, epsilon=1.0),
            call(
                calibration.Calibration,
                noise_multiplier=1.0,
                epsilon=1.0,
                delta=1e-05,
                bound=BOUND,
                mechanism=SAMPLED,
            ),
            call(
                calibration.calibrate,
                gamma=0.2,
                kappa=0.1,
                steps=2,
                delta=1e-05,
                **ZERO,
            ),
            call(conditional.valid_covariance, covariance=SPREAD),
            call(gradient.PrivacyConfig, **PRIVATE, sampling_probability=0.5),
            call(dp.History, **NOISE, sampling_probability=0.5, source="Opacus"),
            call(dp.RandomAllocation, **NOISE, **COARSE, **ZERO, epochs=2),
            call(dp.ApproximateDP, epsilons=(1.0, 2.0), deltas=(0.1, 0.01), **ZERO),
            call(dp.Gaussian, noise_multiplier=(1.0, 2.0), steps=2, **ZERO),
            call(dp.Laplace, eps=1.0, **ZERO),
            call(
                dp.PoissonGaussian, **NOISE, **COARSE, **ZERO, sampling_probability=0.1
            ),
            call(dp.PureDP, eps=1.0, **ZERO),
            call(dp.RenyiDP, orders=(2.0, 3.0), epsilons=(1.0, 2.0), **ZERO),
            call(dp.ZeroConcentratedDP, rho=1.0, **ZERO),
            call(dp.FixedSizeGaussian, **NOISE, **COARSE, **ZERO, records=20, batch=2),
            call(dp.RevealedGaussian, **NOISE, **ZERO, sampling_probability=0.1),
            call(participation.in_a_batch, records=3, batch=2),
            call(poisson.never_sampled, log_kappa=LOGS, probability=0.1, steps=3),
            call(poisson.one_step, **Q, log_kappa=LOGS),
            call(poisson.orders_for, log_kappa=LOGS, rho=1.0),
            call(poisson.renyi, **Q, orders=np.array([2.0, 3.0]), steps=3),
            call(priors.Discrete, in_support=-2.0, anywhere=-1.0),
            call(priors.Empirical, low=-3.0, high=-1.0, floor=-2.0),
            call(priors.ball, eta=0.5, d=3, radius=1.0),
            call(priors.discrete, distances=SQUARE, probabilities=HALVES, eta=0.2),
            call(priors.empirical, sample=SAMPLE, eta=0.1, confidence=0.9),
            call(priors.empirical_high, n=9, most_neighbours=2, delta=0.1),
            call(priors.gaussian, eta=0.5, d=3, sigma=1.0),
            call(priors.gaussian_covariance, eta=0.5, variances=np.array([1.0, 2.0])),
            call(priors.gaussian_given, eta=0.5, covariance=SPREAD, known=FIRST),
            call(priors.l2_of_mse, mse=0.5, d=3),
            call(rates.clopper_pearson, successes=2, trials=5, confidence=0.9),
            call(rates.violation, successes=2, trials=5, gamma=0.1),
            call(
                rero.ReRoBound,
                log_kappa=np.array([-3.0]),
                log_gamma=np.array([-1.0]),
                by=np.array(["any"]),
                all={},
            ),
            call(rero.implied_delta, gamma=0.9, epsilon=1.0),
            call(rero.rero_bound, mechanism=SAMPLED, kappa=0.1),
        ]
    ),
    "gradient.add_noise": (
        lambda deviation: gradient.add_noise(
            jax.random.key(0), jnp.ones(3), deviation=deviation
        ),
        {"deviation": 1.0},
    ),
    "gradient.clip_factors": (
        lambda clip_norm: gradient.clip_factors(jnp.ones(3), clip_norm=clip_norm),
        {"clip_norm": 1.0},
    ),
    "gradient.clipped_sum": (clipped, {"clip_norm": 1.0}),
    "gradient.clipped_sum_traced": (clipped_plainly, {"clip_norm": 1.0}),
    "poisson.losses": (
        lambda **given: losses_of(poisson.losses, **given),
        Q | COARSE | {"steps": 3},
    ),
    "rates.roc_violations": (
        lambda **given: rates.roc_violations(gamma_of=lambda rate: rate, **given),
        {
            "positives": np.array([0.5, 0.6, 0.7]),
            "negatives": np.array([0.1, 0.2, 0.3]),
            "thresholds": np.array([0.4]),
            "confidence": 0.5,
        },
    ),
}


def public() -> Iterator[str]:
    """Functions and classes that a module of `dp` defines."""
    for module in pkgutil.iter_modules(dp.__path__):
        if module.name in ("domain", "lazy"):  # what refuses; imports
            continue
        found = importlib.import_module(f"dp.{module.name}")
        for name, value in vars(found).items():
            wrapped = inspect.unwrap(value) if callable(value) else value
            own = getattr(wrapped, "__module__", None) == found.__name__
            if not name.startswith("_") and own and callable(value):
                yield f"{module.name}.{name}"


def numbers_in(value: Any) -> Iterator[float]:
    """Every number of a result, mechanisms by the bounds that they give."""
    if value is None or isinstance(value, str | bool):
        return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from numbers_in(getattr(value, field.name))
        if isinstance(value, mechanisms.Mechanism):
            yield from numbers_in(dp.rero_bound(value, log_kappa=LOGS).log_gamma)
        if isinstance(value, dp.Guarantee):
            yield from (value.epsilon(1e-5), value.delta(1.0), value.advantage())
            yield from value.tradeoff([0.0, 0.3, 1.0])
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from numbers_in(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from numbers_in(each)
    elif np.asarray(value).dtype.kind in "fiu":
        yield from np.asarray(value, float).ravel()


def replaced(given: Mapping[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(argument, what stands there, arguments), one number at a time."""
    for name, value in given.items():
        for bad in (0, -1, HUGE) if type(value) is int else BAD:
            if type(value) in (int, float):
                yield name, bad, {**given, name: bad}
            elif isinstance(value, tuple) and isinstance(value[0], float):
                yield name, bad, {**given, name: (bad, *value[1:])}
            elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
                changed = value.copy()
                changed.flat[value.size // 2] = bad
                yield name, bad, {**given, name: changed}


def test_every_public_function_and_dataclass_is_called_here():
    # Numbers of these come from mechanisms, which check them.
    inner = ("loss_grid.", "lattice.", "allocation.")
    assert {n for n in public() if not n.startswith(inner)} <= {*CALLS, *UNCALLED}


@pytest.mark.parametrize("name", list(CALLS))
def test_a_number_is_refused_or_has_a_limit(name):
    """In one line that names it; never NaN, ZeroDivisionError or OverflowError."""
    function, given = CALLS[name]
    assert not any(map(math.isnan, numbers_in(function(**given))))
    refused = 0
    for argument, bad, arguments in replaced(given):
        message, found = None, []
        try:
            found = list(numbers_in(function(**arguments)))
        except ValueError as error:
            message = str(error)
        if message is not None:
            assert "\n" not in message
            assert argument in message, (argument, bad, message)
            refused += 1
            continue
        assert not any(map(math.isnan, found)), (argument, bad)
        assert not (isinstance(bad, float) and math.isnan(bad)), argument
    assert refused


def test_a_scalar_of_numpy_is_a_number():
    # Apart, as types are not checked where users call it.
    code = (
        "import numpy as np, dp\n"
        "one, q = np.array(1.0), np.array(0.25)\n"
        "run = lambda s, q: dp.PoissonGaussian(noise_multiplier=s, steps=5,"
        " sampling_probability=q, relation='zero_out')\n"
        "bound = lambda run: dp.rero_bound(run, kappa=0.1).gamma\n"
        "assert bound(run(one, q)) == bound(run(1.0, 0.25))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
