"""Every test vector, made with mpmath, closed forms and quadrature; none with dp."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import dp
from dp import bounds, poisson, priors, rates
from informed.attacks import closed_form

VECTORS = json.loads((Path(__file__).parent / "rero_vectors.json").read_text())


def log_kappa(given):
    return given["log_kappa"] if "log_kappa" in given else np.log(given["kappa"])


def theorem_2(given):
    found = bounds.renyi(log_kappa(given), given["alpha"], given["rdp_epsilon"])
    return found if "log_kappa" in given else np.exp(found)


def binary(given):
    return np.exp(
        bounds.binary_renyi(log_kappa(given), given["alpha"], given["rdp_epsilon"])
    )


def tight(given):
    return bounds.gaussian(log_kappa(given), given["mu"])


def sampled(given):
    run = dp.PoissonGaussian(
        noise_multiplier=given["noise_multiplier"],
        sampling_probability=given["q"],
        steps=given["steps"],
        relation="zero_out",
    )
    return dp.rero_bound(run, kappa=given["kappa"]).gamma


def best_order(given):
    orders = np.arange(2, 129)
    curve = poisson.renyi(orders, given["noise_multiplier"], given["q"], given["steps"])
    each = bounds.renyi(log_kappa(given), orders, curve)
    return {"log_gamma": each.min(), "order": int(orders[each.argmin()])}


def discrete(given):
    points, mass = np.array(given["points"]), np.array(given["probs"])
    log_kappas = priors.discrete(np.abs(points[:, None] - points), mass, given["eta"])
    return {
        "center_in_support": math.exp(log_kappas.in_support),
        "upper_2eta": math.exp(log_kappas.anywhere),
    }


def full_batch(given):
    found = dp.calibrate(
        given["gamma"],
        kappa=given["kappa"],
        steps=given["steps"],
        relation=given["relation"],
    )
    gap = math.sqrt(-math.log(given["kappa"])) - math.sqrt(-math.log(given["gamma"]))
    corollary_4 = math.sqrt(given["steps"] / 2) / gap
    rho = given["steps"] / (2 * corollary_4**2)
    assert bounds.corollary_4(log_kappa(given), rho) == pytest.approx(
        math.log(given["gamma"])
    )
    return {"sigma_exact": found.noise_multiplier, "sigma_cor4": corollary_4}


COMPUTED = {
    "thm2_single_order": theorem_2,
    "thm2_log_space": theorem_2,
    "thm2_clamped_to_one": theorem_2,
    "cor3_pure_dp": lambda v: np.exp(bounds.corollary_3(log_kappa(v), v["epsilon"])),
    "cor3_bayes_replace_one": lambda v: np.exp(
        bounds.pure(log_kappa(v), v["epsilon"], "replace_one")
    ),
    "approx_dp_fdp_small_kappa": lambda v: np.exp(
        bounds.approximate(log_kappa(v), v["epsilon"], v["delta"])
    ),
    "cor4_zcdp": lambda v: np.exp(bounds.corollary_4(log_kappa(v), v["rho"])),
    "cor4_zcdp_log": lambda v: bounds.corollary_4(log_kappa(v), v["rho"]),
    "binary_renyi_alpha2": binary,
    "binary_kl_fano": binary,
    "thm5_delta": lambda v: dp.implied_delta(v["gamma"], v["epsilon"]),
    "gauss_gamma_mid": lambda v: np.exp(tight(v)),
    "gauss_gamma_small_kappa": lambda v: np.exp(tight(v)),
    "gauss_log_gamma_1e-300": tight,
    "gauss_dpgd_zero_out": lambda v: (
        dp.rero_bound(
            dp.Gaussian(
                noise_multiplier=v["noise_multiplier"],
                steps=v["steps"],
                relation=v["relation"],
            ),
            kappa=v["kappa"],
        ).gamma
    ),
    "eps_delta_to_mu": lambda v: (
        1
        / dp.calibrate(
            epsilon=v["epsilon"], delta=v["delta"], steps=1, relation="zero_out"
        ).noise_multiplier
    ),
    "laplace_gamma": lambda v: np.exp(bounds.laplace(log_kappa(v), v["epsilon"])),
    "poisson_T1": sampled,
    "poisson_T1_small_kappa": sampled,
    "poisson_T2": sampled,
    "poisson_T100_k1e-1": sampled,
    "poisson_T100_k1e-6": sampled,
    "poisson_T500_k1e-2": sampled,
    "thm2_poisson_rdp_opt": best_order,
    "kappa_ball": lambda v: priors.ball(v["eta"], d=v["d"], radius=v["radius"]),
    "kappa_gauss_exact": lambda v: priors.gaussian(
        v["eta"], d=v["d"], sigma=v["sigma"]
    ),
    "kappa_gauss_exact_tiny": lambda v: priors.gaussian(
        v["eta"], d=v["d"], sigma=v["sigma"]
    ),
    "kappa_gauss_chernoff": lambda v: priors.gaussian_covariance(
        v["eta"], variances=np.full(v["d"], v["sigma"] ** 2)
    ),
    "kappa_1d_discrete": discrete,
    "kappa_empirical_floor": lambda v: priors.empirical_high(
        v["n"], v["max_count_2eta_excluding_self"], v["confidence_delta"]
    ),
    "calib_full_batch": full_batch,
    "calib_poisson_T100": lambda v: (
        dp.calibrate(
            v["gamma"],
            kappa=v["kappa"],
            steps=v["steps"],
            sampling_probability=v["q"],
            relation="zero_out",
        ).noise_multiplier
    ),
    "clopper_pearson_95": lambda v: rates.clopper_pearson(
        v["successes"], v["trials"], 1 - v["alpha"]
    ),
}


@pytest.mark.parametrize(
    "vector",
    # On orthogonal candidates: tests/informed/attacks/test_prior_aware.py.
    [v for v in VECTORS if not v["name"].startswith(("glm", "thm8", "map_attack"))],
    ids=lambda v: v["name"],
)
def test_vector(vector):
    found = COMPUTED[vector["name"]](vector["inputs"])
    expected, tolerance = vector["expected"], vector["tolerance"]
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found = [found[name] for name in expected]
        expected = list(expected.values())
    np.testing.assert_allclose(found, expected, **tolerance)


def of(name):
    (vector,) = (v for v in VECTORS if v["name"] == name)
    return vector["inputs"], vector["expected"], vector["tolerance"]


def test_logistic_regression_with_an_unpenalised_intercept():
    given, expected, tolerance = of("glm_logistic_unpenalised_intercept")
    theta, known = np.array(given["theta"]), np.array(given["X_minus"])
    found = closed_form.reconstruct_glm(
        theta[1:],
        float(theta[0]),
        known[:, 1:],
        np.array(given["y_minus"]),
        link="logit",
        penalty=given["penalty_half_lambda"],
    )
    np.testing.assert_allclose(found.x, expected["x"][1:], **tolerance)
    assert found.y == pytest.approx(expected["y"])


def test_multinomial_regression():
    given, expected, tolerance = of("glm_multinomial")
    theta, known = np.array(given["W"]), np.array(given["X_minus"])
    found = closed_form.reconstruct_softmax(
        theta[:, 1:],
        theta[:, 0],
        known[:, 1:],
        np.array(given["y_minus"]),
        penalty=given["penalty_half_lambda"],
    )
    np.testing.assert_allclose(found.x, expected["x"][1:], **tolerance)
    assert found.y == expected["label"]


def test_theorem_8():
    given, expected, tolerance = of("thm8_no_intercept")
    found = closed_form.reconstruct_without_intercept(
        np.array(given["theta"]),
        np.array(given["X_minus"]),
        np.array(given["y_minus"]),
        target_label=given["y"],
    )
    both = sorted(each.x.tolist() for each in found)
    np.testing.assert_allclose(both, sorted(expected["candidates"]), **tolerance)
