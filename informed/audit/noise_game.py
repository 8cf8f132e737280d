"""Attack an audited training function at several noise levels, beside its bound.

`auditing` calls `declared` in every audit, and `measured` if PRIVACY declares noise, or
`train` takes a keyword `noise_multiplier` beside PRIVACY; without the keyword, only its
own noise is tried. Each noise level takes 176 trainings. The game is the one that the
bounds assume: the model was trained on one of m candidate records, drawn uniformly, so
the baseline success rate kappa is 1/m. The adversary knows everything but the noise,
the draw and the seed, and names a candidate from the released weights.

The attack trains models on each candidate: without noise, if training allows it, to
find the directions in which their weights differ, with noise to measure the scatter.
It names the likeliest candidate (Gaussians of one covariance). The bound is that of
DP-SGD as declared in PRIVACY. It holds only if the function does what PRIVACY says,
which this file does not check.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import dp
from dp import rates
from informed import metrics
from informed.audit.contract import RELATION, mechanism
from informed.audit.subject import WEIGHTS, Subject
from informed.play import stopped_with
from informed.report import words
from shadow import limits
from shadow.data import Examples

DELTA = 1e-5  # at which epsilon is reported
CANDIDATES = 4  # m, the records of which each model was trained on one
# Noise multipliers to try, as multiples of the one in PRIVACY.
_FACTORS = (0.1, 0.25, 1.0, 2.5)
# In the place of no noise, which a mechanism doesn't take.
_TINY = float(np.finfo(float).tiny)
_NO_QUIET = (
    "no model could be trained without noise: where to look is learnt from noisy ones,"
    " and an attack that has others may do better"
)
# Models per candidate: to fit the attack on, and to attack.
LEARNT, PLAYED = 24, 20
# Public records that are tried as guesses, at most.
_GUESSES = 1000


def declared(subject: Subject, threshold: float) -> dict[str, Any]:
    """Return what training declares of its noise, and the least noise it needs.

    Args:
      threshold: the success rate of reconstruction that is still allowed.
    Returns: kappa; calibrated, the least noise at which the bound is the threshold;
      known, a bound for whoever guesses as public records allow; no rows yet; why_not.
    """
    contract, kappa = subject.contract, 1 / CANDIDATES
    privacy = contract.privacy
    bounds: dict[str, Any] = {
        "relation": RELATION,
        "kappa": kappa,
        "candidates": CANDIDATES,
        "delta": DELTA,
        "threshold": threshold,
        "rows": [],
        "calibrated": calibrated(privacy or {"steps": 1}, threshold, kappa),
        "why_not": words.LEFT_OUT,
    }
    if privacy is None:
        why = "the training function declares no PRIVACY, so nothing bounds any attack"
        return bounds | {"why_not": why}
    shipped = contract.shipped_noise
    assert shipped is not None
    sigma = shipped or bounds["calibrated"]["noise_multiplier"]
    if not (shipped or contract.noisy):
        why = "train takes no keyword noise_multiplier, so no noise was tried"
        bounds["why_not"] = why
    numbers = {name: float(value) for name, value in privacy.items()}
    return bounds | {
        "privacy": numbers | {"noise_multiplier": shipped},
        "known": guessed(subject, sigma),
    }


def guessed(subject: Subject, sigma: float) -> dict[str, Any]:
    """Return the bound for whoever guesses as well as public records allow.

    A guess is right within the median distance of the targets to their nearest public
    record.

    Returns: noise_multiplier; mse, that distance; for the best fixed guess and the
      nearest public record, the upper limit of kappa, and gamma.
    """
    targets = subject.split.test.images
    public = subject.split.shadow.joined(subject.held_out).images[:_GUESSES]
    nearest = public[metrics.nearest_neighbours(targets, public).index]
    threshold = float(np.median(metrics.mse(targets, nearest)))

    def error(guess: np.ndarray, records: np.ndarray) -> np.ndarray:
        gaps = np.square(records - guess).reshape(len(records), -1)
        return gaps.mean(axis=1, dtype=np.float64)

    baseline = dp.kappa_from(public, error=error, threshold=threshold)
    run = mechanism(subject.contract.privacy or {}, sigma or _TINY)
    gammas = dp.rero_bound(run, log_kappa=baseline.log_kappas).gamma
    rows = zip(("fixed", "nearest"), baseline.log_kappas, gammas, strict=True)
    return {"noise_multiplier": sigma, "mse": threshold} | {
        name: {"kappa": float(np.exp(kappa)), "gamma": float(gamma)}
        for name, kappa, gamma in rows
    }


def measured(
    subject: Subject,
    bounds: Mapping[str, Any],
    *,
    limit: float,
    seconds_a_model: float,
    progress: Callable[[str], None] = lambda _: None,
    keep: Callable[[dict[str, Any]], None] = lambda _: None,
) -> None:
    """Measure attack and bound over noise multipliers, and hand them to `keep`.

    Args:
      bounds: what is declared, from `declared`, with rows that were played before.
      limit: seconds for all noise multipliers.
      seconds_a_model: measured time per model.
      progress: called with the name of every step as it begins.
      keep: called after every noise multiplier with the bounds so far. Their rows have
        noise_multiplier, epsilon, success (a share with its interval), bound,
        violation, accuracy.
    """
    contract, privacy = subject.contract, subject.contract.privacy
    assert privacy is not None
    shipped, least = contract.shipped_noise, bounds["calibrated"]["noise_multiplier"]
    rows = list(bounds["rows"])
    seconds = seconds_a_model * CANDIDATES * (LEARNT + PLAYED)
    affordable, notes = int(limit / max(seconds, 1e-9)), []
    if contract.noisy:
        declared_noise = shipped or least
        others = [declared_noise * factor for factor in _FACTORS if declared_noise]
        others.sort(key=lambda sigma: abs(np.log(sigma / declared_noise)))
        # What is released first, then what the remedy advises.
        sigmas = list(dict.fromkeys([declared_noise, least, *others]))
    else:
        sigmas = [shipped] if shipped else []
        noise = "its own noise is" if shipped else "it adds none, and none can be"
        notes.append(f"train takes no keyword noise_multiplier: only {noise} tried")
    played = {row["noise_multiplier"] for row in rows}
    sigmas = [sigma for sigma in sigmas if sigma not in played]
    clock = limits.Clock(limit)
    candidates, quiet = _candidates(subject), None
    if contract.noisy and affordable and sigmas:
        without = subject.factory("shadow", noise=0.0)
        # Training may refuse to add none; the game can do without.
        with contextlib.suppress(Exception):
            quiet = np.asarray(without.train(candidates), np.float64)
    # Also of rows that an earlier call played.
    if _NO_QUIET in bounds["why_not"] or (quiet is None and affordable and sigmas):
        notes.append(_NO_QUIET)
    done, stopped = 0, False
    for sigma in sigmas[:affordable]:
        if done and not clock.left:
            break
        progress(f"playing {CANDIDATES} candidates at noise {sigma:g}")
        try:
            with limits.seconds(max(clock.left, 1.0)):
                rows.append(_played(subject, privacy, sigma, candidates, quiet))
        except limits.OutOfTimeError:
            break
        except Exception as error:  # the user's own function
            notes.append(f"at noise {sigma:g} {stopped_with(error)}")
            stopped = True
            break
        done += 1
        rows.sort(key=lambda row: row["noise_multiplier"])
        keep({**bounds, "rows": list(rows), "why_not": "no time for more noise"})
    if not stopped and done < len(sigmas):
        notes.append(
            f"no time for {len(sigmas) - done} noise multipliers,"
            f" {words.seconds(seconds)} each: more --minutes"
        )
    keep({**bounds, "rows": list(rows), "why_not": "; ".join(notes)})


def _candidates(subject: Subject) -> Examples:
    """Return the first target and public records, of other labels if there are any."""
    targets, public = subject.split.test, subject.split.shadow
    _, first = np.unique(public.labels, return_index=True)
    fresh = np.sort(first[public.labels[first] != targets.labels[0]])
    others = np.setdiff1d(np.arange(len(public)), fresh)
    rows = np.append(fresh, others)[: CANDIDATES - 1]
    return targets.take(slice(0, 1)).joined(public.take(rows))


def _played(
    subject: Subject,
    privacy: Mapping[str, Any],
    sigma: float,
    candidates: Examples,
    quiet: np.ndarray | None,
) -> dict[str, Any]:
    """Attack models of one noise multiplier; return its row; see `likeliest`."""
    noise = sigma if subject.contract.noisy else None
    factory = subject.factory("released", answers=True, secret=True, noise=noise)
    labels = np.repeat(np.arange(len(candidates)), LEARNT)
    truth = np.repeat(np.arange(len(candidates)), PLAYED)
    # A model's id decides its noise, so distinct ids give independent noise.
    learnt = factory.train(candidates.take(labels), ids=np.arange(len(labels)))
    ids = len(labels) + np.arange(len(truth))
    played = np.asarray(factory.train(candidates.take(truth), ids=ids))
    view, accuracy = subject.only(WEIGHTS), subject.accuracy(played)
    theta, asked = (
        np.asarray(view(np.asarray(models)), np.float64) for models in (learnt, played)
    )
    right = likeliest(theta, labels, asked, quiet) == truth
    run = mechanism(privacy, sigma or _TINY)
    gamma = float(dp.rero_bound(run, kappa=1 / CANDIDATES).gamma)
    rate = metrics.success_rate(right)
    return {
        "noise_multiplier": sigma,
        "epsilon": run.epsilon(DELTA),
        "success": dataclasses.asdict(rate),
        "bound": gamma,
        "violation": rates.violation(rate.successes, rate.trials, gamma),
        "accuracy": accuracy,
    }


def likeliest(
    theta: np.ndarray, labels: np.ndarray, asked: np.ndarray, quiet: np.ndarray | None
) -> np.ndarray:
    """Return the likeliest class of each row of `asked`, by one Gaussian per class.

    With means m_c and one pooled covariance S of the classes, in the directions in
    which the centres differ, the class is argmin_c (x - m_c)^T S^-1 (x - m_c).

    Args:
      theta, labels: models to fit on, and the candidate that each was trained on.
      asked: weights of the models to classify.
      quiet: (classes, params), means without noise, which give the directions; None:
        the means of theta.
    """
    classes = np.unique(labels)
    means = np.stack([theta[labels == c].mean(axis=0) for c in classes])
    centres = means if quiet is None else quiet
    _, lengths, directions = np.linalg.svd(
        centres - centres.mean(axis=0), full_matrices=False
    )
    kept = directions[lengths > 1e-9 * max(lengths[0], 1e-300)]
    if not len(kept):
        return np.zeros(len(asked), int)
    learnt, played = theta @ kept.T, asked @ kept.T
    middle = np.stack([learnt[labels == c].mean(axis=0) for c in classes])
    residuals = learnt - middle[np.searchsorted(classes, labels)]
    covariance = residuals.T @ residuals / max(len(learnt) - len(classes), 1)
    ridge = 1e-6 * np.trace(covariance) / len(covariance) + 1e-300
    inverse = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
    apart = played[:, None] - middle[None]
    distances = np.einsum("ijk,kl,ijl->ij", apart, inverse, apart)
    return classes[distances.argmin(axis=1)]


def calibrated(
    privacy: Mapping[str, Any], threshold: float, kappa: float
) -> dict[str, Any]:
    """Return the least noise whose bound is the threshold, and the command for it."""
    steps, q = privacy["steps"], float(privacy.get("sampling_probability", 1.0))
    calibration = dp.calibrate(
        threshold,
        kappa=kappa,
        steps=steps,
        relation=RELATION,
        sampling_probability=q,
        delta=DELTA,
    )
    epsilon = calibration.epsilon
    assert calibration.bound is not None
    sampled = "" if q == 1 else f" --sampling-probability {q!r}"
    return {
        "noise_multiplier": calibration.noise_multiplier,
        "epsilon": epsilon if np.isfinite(epsilon) else None,
        "bound": float(calibration.bound.gamma),
        "steps": int(steps),
        "command": f"informed calibrate --gamma {threshold!r} --kappa {kappa!r} --steps"
        f" {steps}{sampled} --delta {DELTA!r}",
    }
