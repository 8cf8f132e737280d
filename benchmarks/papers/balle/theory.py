"""The theorems as numbers: closed forms on fitted models, bounds beside simulations."""

import itertools

import numpy as np
from scipy import special, stats
from sklearn import datasets, linear_model

import dp
from benchmarks import glm
from benchmarks.papers.lab import Lab
from benchmarks.papers.row import Found, Line, measures
from dp import bounds, priors
from informed.attacks import closed_form

_TARGETS = 5  # of each model, drawn with seed 0
_CANDIDATES = 16
_DRAWS = 400_000  # simulated games of each noise level
_REPLACE = "replace_one"  # targets take each other's place
_ORDERS = np.concatenate([np.linspace(1.01, 10, 300), np.linspace(10, 200, 200)])


def _relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


@measures("balle/theorem-1")
def theorem_1(lab: Lab) -> Found:
    """Generalised linear models with an intercept, as scikit-learn fits them."""
    lines, worst = [], 0.0
    for name, (x, y, model) in glm.problems().items():
        fitted = model.fit(x, y)
        errors = []
        for target in np.random.default_rng(0).permutation(len(x))[:_TARGETS]:
            known = np.delete(x, target, axis=0), np.delete(y, target)
            found = glm.reconstruct(fitted, *known)
            errors.append(_relative(found.x, x[target]))
        worst = max(worst, *errors)
        lines.append(Line(name=name, ours={"largest relative error": max(errors)}))
    lab.note("scikit-learn's data, seed 0")
    return Found(
        holds=worst < 1e-6,
        verdict=f"The largest relative error of {_TARGETS} targets of each model is"
        f" {worst:.0e}.",
        theirs="exact",
        ours=f"relative error at most {worst:.0e}",
        lines=lines,
    )


@measures("balle/theorem-8")
def theorem_8(lab: Lab) -> Found:
    """Linear regression without intercept: one of two candidates."""
    x, y = datasets.load_diabetes(return_X_y=True)
    x = x / x.std(axis=0)
    theta = linear_model.LinearRegression(fit_intercept=False).fit(x, y).coef_
    errors = []
    for target in np.random.default_rng(0).permutation(len(x))[:20]:
        both = closed_form.reconstruct_without_intercept(
            theta,
            np.delete(x, target, axis=0),
            np.delete(y, target),
            target_label=float(y[target]),
        )
        errors.append(min(_relative(each.x, x[target]) for each in both))
    lab.note("scikit-learn's diabetes, seed 0")
    return Found(
        holds=max(errors) < 1e-6,
        verdict="Of 20 targets the better of the two candidates has a relative error of"
        f" at most {max(errors):.0e}.",
        theirs="one of two candidates is exact",
        ours=f"relative error at most {max(errors):.0e}",
        lines=[Line(name="diabetes", ours={"largest relative error": max(errors)})],
    )


@measures("balle/theorem-2")
def theorem_2(lab: Lab) -> Found:
    """The best attack on a Gaussian mechanism, simulated, beside the bound."""
    rng, lines, ok = np.random.default_rng(0), [], []
    log_kappa = -np.log(_CANDIDATES)
    for mu in (0.5, 1.0, 2.0, 3.0, 4.0):
        # Candidates at a distance of mu from each other, noise of deviation 1: the most
        # probable one is the nearest, by symmetry that of the largest coordinate.
        noisy = rng.standard_normal((_DRAWS, _CANDIDATES))
        noisy[:, 0] += mu / np.sqrt(2)
        success = float((noisy.argmax(axis=1) == 0).mean())
        found = bounds.renyi(log_kappa, _ORDERS, _ORDERS * mu**2 / 2)
        theorem = float(np.exp(np.min(found)))
        # Under "replace_one" records move a clipped sum by twice the norm.
        mechanism = dp.Gaussian(noise_multiplier=2 / mu, steps=1, relation=_REPLACE)
        tight = dp.rero_bound(mechanism, log_kappa=log_kappa)
        error = 3 * np.sqrt(success * (1 - success) / _DRAWS)
        ok.append(success - error <= float(tight.gamma) <= min(1.0, theorem) + 1e-9)
        lines.append(
            Line(
                name=f"mu = {mu:g}",
                ours={
                    "best attack": success,
                    "Theorem 2": min(1.0, theorem),
                    "our tightest bound": float(tight.gamma),
                },
            )
        )
    lab.note(f"{_DRAWS} games each, seed 0")
    return Found(
        holds=all(ok),
        verdict="The best attack stays below Theorem 2's bound at every level of noise;"
        " our tightest bound lies between the two.",
        theirs="an upper bound on any attack",
        ours=f"{sum(ok)} of {len(ok)} noise levels within the bound",
        lines=lines,
    )


@measures("balle/theorem-5")
def theorem_5(lab: Lab) -> Found:
    """Robustness on pairs implies the Gaussian mechanism's own delta."""
    rng, lines, ok = np.random.default_rng(0), [], []
    for mu, epsilon in ((0.5, 0.5), (1.0, 1.0), (1.0, 2.0), (2.0, 3.0)):
        p = special.expit(-epsilon)
        first = rng.random(_DRAWS) < p
        seen = rng.standard_normal(_DRAWS) + mu * first
        # The most probable of the two: log p/(1-p) + mu seen - mu^2/2 > 0.
        guess = mu * seen - mu**2 / 2 > epsilon
        gamma = float((guess == first).mean())
        implied = float(dp.implied_delta(gamma, epsilon))
        exact = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(
            epsilon
        ) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        slack = 4 * (np.exp(epsilon) + 1) * np.sqrt(gamma * (1 - gamma) / _DRAWS)
        ok.append(abs(implied - exact) <= slack)
        lines.append(
            Line(
                name=f"{mu = :g}, {epsilon = :g}",
                ours={
                    "gamma of the best attack": gamma,
                    "implied delta": implied,
                    "the mechanism's delta": float(exact),
                },
            )
        )
    lab.note(f"{_DRAWS} games each, seed 0")
    return Found(
        holds=all(ok),
        verdict="What the best attack on pairs achieves implies the mechanism's own"
        " delta, within the error of simulation (four standard errors).",
        theirs="delta = max(0, (e^epsilon + 1) gamma - e^epsilon)",
        ours=f"equal in {sum(ok)} of {len(ok)} cases",
        lines=lines,
    )


@measures("balle/propositions-6-7")
def propositions_6_7(lab: Lab) -> Found:
    """The bound falls exponentially with the dimension."""
    dimensions = (10, 100, 1000, 10_000, 100_000)
    lines, largest = [], []
    for d in dimensions:
        root = float(np.sqrt(d))
        eta = 0.9
        kappas = {
            "ball": priors.ball(eta, d=d, radius=1.0),
            "Gaussian": priors.gaussian(eta, d=d, sigma=2 * eta / root),
        }
        ours = {}
        for prior, log_kappa in kappas.items():
            for name, mechanism in (
                ("epsilon-DP", dp.PureDP(eps=root, relation=_REPLACE)),
                ("rho-zCDP", dp.ZeroConcentratedDP(rho=root, relation=_REPLACE)),
            ):
                bound = dp.rero_bound(mechanism, log_kappa=float(log_kappa))
                ours[f"{prior}, {name}"] = float(bound.log_gamma) / d
        lines.append(Line(name=f"d = {d}", ours=ours))
        largest.append(max(ours.values()))
    lab.note("closed forms")
    return Found(
        holds=largest[-1] < -0.01
        and all(b <= a for a, b in itertools.pairwise(largest)),
        verdict="log gamma / d doesn't rise with d, for both priors and both kinds of"
        f" privacy: at most {largest[-1]:.3f} at d = {dimensions[-1]}.",
        theirs="gamma = e^(-Omega(d)) for epsilon or rho = o(d)",
        ours=f"log gamma at most {largest[-1]:.3f} d at d = {dimensions[-1]}",
        lines=lines,
    )
