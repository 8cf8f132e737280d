"""Attack an audited training function at several noise levels, beside the ReRo bound.

It needs a training function that takes `noise_multiplier` and declares its steps in
PRIVACY. The game is the one that the bounds assume: the model was trained on one of m
candidate records, drawn uniformly, so the baseline success rate kappa is 1/m. The
adversary knows everything but the noise, the draw and the seed, and names a candidate
from the released weights.

The attack trains models on each candidate: without noise to find the directions in
which their weights differ, with noise to measure the scatter along these directions.
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

DELTA = 1e-5
CANDIDATES = 4
# Noise multipliers to try, as multiples of the one in PRIVACY.
_FACTORS = (0.1, 0.25, 1.0, 2.5)
# Models per candidate: to fit the attack on, and to attack.
LEARNT, PLAYED = 24, 20


def measured(
    subject: Subject,
    *,
    threshold: float,
    limit: float | None,
    seconds_a_model: float,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure the attack's success and its bound over noise multipliers.

    Args:
      subject: the audit's training function and data.
      threshold: bound on success for which to calibrate the least noise.
      limit: seconds for all noise multipliers together; None: don't attack, only
        report the bound of the declared noise.
      seconds_a_model: seconds per model.
      progress: called with the name of every step as it begins.
    Returns: rows of noise_multiplier, epsilon, success (a share with its interval),
      bound, violation, accuracy; kappa; calibrated, the least noise at which the bound
      is the threshold; why_not.
    """
    contract = subject.contract
    privacy = contract.privacy
    if privacy is None:
        why = "the training function declares no PRIVACY, so nothing bounds any attack"
        return {"rows": [], "why_not": why}
    shipped = contract.shipped_noise
    assert shipped is not None
    rows: list[dict[str, Any]] = []
    bounds: dict[str, Any] = {
        "relation": RELATION,
        "kappa": 1 / CANDIDATES,
        "candidates": CANDIDATES,
        "delta": DELTA,
        "threshold": threshold,
        "privacy": {name: float(value) for name, value in privacy.items()}
        | {"noise_multiplier": shipped},
        "rows": rows,
        "calibrated": calibrated(privacy, threshold, 1 / CANDIDATES),
        "why_not": words.LEFT_OUT,
    }
    if limit is None:
        return bounds
    seconds = seconds_a_model * CANDIDATES * (LEARNT + PLAYED)
    affordable = int(limit / max(seconds, 1e-9))
    sigmas, notes = [shipped * factor for factor in _FACTORS], []
    if not contract.noisy:
        sigmas = [shipped]
        notes.append(
            "train takes no keyword noise_multiplier: only its own noise is tried"
        )
    clock = limits.Clock(limit)
    candidates, quiet = _candidates(subject), None
    if contract.noisy and affordable:
        without = subject.factory("shadow", noise=0.0)
        # Training may refuse a noise multiplier of 0; the attack works without it.
        with contextlib.suppress(Exception):
            quiet = np.asarray(without.train(candidates), np.float64)
    if quiet is None and affordable:
        notes.append(
            "no model could be trained without noise: where to look is learnt from"
            " noisy ones, and an attack that has others may do better"
        )
    stopped = False
    nearest_first = sorted(sigmas, key=lambda s: abs(np.log(s / shipped)))
    for sigma in nearest_first[:affordable]:  # the declared noise first
        if rows and not clock.left:
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
    if not stopped and len(rows) < len(sigmas):
        notes.append(
            f"no time for {len(sigmas) - len(rows)} noise multipliers,"
            f" {words.seconds(seconds)} each: more --minutes"
        )
    rows.sort(key=lambda row: row["noise_multiplier"])
    return bounds | {"why_not": "; ".join(notes)}


def _candidates(subject: Subject) -> Examples:
    """Choose a target and public records, of other labels if there are any."""
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
    """Attack models of one noise multiplier, and compare success with the bound.

    Args:
      quiet: (candidates, params), weights trained without noise; None: unavailable.
    """
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
    run = mechanism(privacy, sigma)
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
    """Classify rows of `asked` by one Gaussian per class, of common covariance.

    With means m_c and the pooled covariance S of the classes, in the directions in
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
    """Find the least noise whose bound is the threshold."""
    calibration = dp.calibrate(
        threshold,
        kappa=kappa,
        steps=privacy["steps"],
        relation=RELATION,
        sampling_probability=float(privacy.get("sampling_probability", 1.0)),
        delta=DELTA,
    )
    epsilon = calibration.epsilon
    assert calibration.bound is not None
    return {
        "noise_multiplier": calibration.noise_multiplier,
        "epsilon": epsilon if np.isfinite(epsilon) else None,
        "bound": float(calibration.bound.gamma),
    }
