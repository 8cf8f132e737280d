"""Findings of the fourth audit on audits: each failed before it was mended."""

import jax.numpy as jnp
import numpy as np
import pytest

import informed
from informed.audit import auditing, trained
from informed.audit.auditing import AuditConfig, AuditStoppedError
from informed.cli import audit, commands, running
from informed.report import words
from tests.informed.audit.trainings import linear

FEW = {"targets": 3, "fixed": 60, "minutes": 0.5}


def half(images, labels, seed):
    """Gradient descent on half of the records, which the seed chooses."""
    kept = np.random.default_rng(seed).permutation(len(images))[: len(images) // 2]
    x = images[kept].reshape(len(kept), -1)
    w = np.zeros((x.shape[1], 10))
    for _ in range(5):
        scores = np.exp(x @ w)
        scores /= scores.sum(axis=1, keepdims=True)
        w -= 0.5 * x.T @ (scores - np.eye(10)[labels[kept]]) / len(x)
    return w


def ignoring(images, labels, seed):
    return np.random.default_rng(seed).normal(size=(4, 3))


def noisy(images, labels, seed, noise_multiplier=2.0):
    rng = np.random.default_rng(seed)
    mean = images.reshape(len(images), -1).mean(axis=0)
    return mean + noise_multiplier / len(images) * rng.normal(size=mean.shape)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_targets_stand_where_the_released_models_take_them(seed, digits):
    """By another key than that of the released models other records are left out."""
    settings = AuditConfig(targets=3, fixed=60, seed=seed)
    found = auditing.check(half, digits, version="1", settings=settings)
    models = trained.train(found.subject, targets=3)
    assert np.ptp(models.released, axis=0).any()


def test_models_without_a_trace_of_their_records_are_no_audit():
    with pytest.raises(AuditStoppedError, match="3 released models, each"):
        informed.audit(ignoring, "digits", version="1", **FEW)


def test_noise_that_was_skipped_is_declared_and_was_not_held_against_an_attack():
    values = informed.audit(
        noisy,
        "digits",
        version="1",
        privacy={"steps": 1, "clip_norm": 1.0},
        skip=("noise", "inversion", "two missing", "defences"),
        **FEW,
    ).values
    assert values["bounds"]["privacy"]["noise_multiplier"] == 2.0
    assert values["bounds"]["why_not"] == words.LEFT_OUT
    text = " ".join(words.answer(values))
    assert "wasn't held against an attack" in text
    assert "declares no noise" not in text
    assert audit.gated(values)["broken"] is None


def judged(name="kernel", **changed):
    rate = {"successes": 0, "trials": 3, "rate": 0.0, "low": 0.0, "high": 0.6}
    row = {"name": name, "tried": True, "targets": 3, "planned": 3, "finished": 3}
    row |= {"success": rate, "exact": rate, "mse_median": 0.1, "tpr": 0.0}
    return row | {"certified": None, "applies": True} | changed


def test_certificates_of_attacks_that_give_none_are_not_known():
    values = {"attacks": [judged()], "gallery": {"first": None}}
    assert audit.gated(values)["certified"] is None
    row = {"certified": None, "mse": 0.1, "mse_median": 0.1}
    rate = {"successes": 0, "trials": 3, "rate": 0.0, "low": 0.0, "high": 0.6}
    results = {"attacks": {"kernel": row | {"closer_than_oracle": rate}}}
    assert running.gated(results)["certified"] is None


def test_an_error_of_zero_is_the_least():
    values = {"attacks": [judged("a", mse_median=1e-9), judged("b", mse_median=0.0)]}
    best = words.strongest(values)
    assert best is not None
    assert best["name"] == "b"


def test_the_command_line_of_a_page_keeps_what_decides_it():
    """Whoever repeats a redacted page doesn't publish records by it."""
    line = ["audit", "mine.py:train", "--data", "mnist", "--redact", "--out", "r.html"]
    line += ["--data_dir", "/data", "--fail-if", "exact > 0"]
    again = audit._again(commands.parsers("audit")[0].parse_args(line))
    for part in ("--redact", "--data_dir /data", "--fail-if 'exact > 0'"):
        assert part in again


@pytest.mark.parametrize("digits_kept", ["float16", 4])
def test_weights_that_training_rounds_are_read_all_the_same(digits_kept):
    """Their rounding can't be measured by training again: it is seen in the release."""

    def train(images, labels, key):
        w = linear(images, labels, key)
        return w.astype(jnp.float16) if digits_kept == "float16" else jnp.round(w, 4)

    skip = ("membership", "two missing", "defences")
    found = informed.audit(train, "digits", version=str(digits_kept), skip=skip, **FEW)
    row = next(row for row in found.values["attacks"] if row["name"] == "inversion")
    assert (row["why_not"], row["finished"], row["certified_wrong"]) == ("", 3, 0)
    assert row["mse_median"] < 1e-6


def test_a_seed_that_nobody_searched_for_is_no_defence():
    def defence(name, successes):
        rate = {"successes": successes, "trials": 4, "rate": successes / 4}
        attack = judged(success=rate | {"low": 0.0, "high": 0.6})
        return {"name": name, "attacks": [attack], "accuracy": 0.9}

    rows = [defence("as it is", 4), defence("secret seed", 0), defence("int8", 1)]
    values = {"attacks": rows[0]["attacks"], "defences": rows, "kind": "audit"}
    text = " ".join(words._defended(values))
    assert "int8" in text
    assert "secret seed" not in text


@pytest.mark.parametrize("kind", ["raises ValueError", "gives NaN"])
def test_a_training_that_takes_no_value_beyond_its_range_is_named(kind, digits):
    def checked(images, labels, seed):
        if "raises" in kind and (images.min() < 0 or images.max() > 1):
            raise ValueError("pixels lie in [0, 1]")
        with np.errstate(invalid="ignore"):
            return half(np.sqrt(images), labels, 0)

    settings = AuditConfig(targets=3, fixed=60)
    found = auditing.check(checked, digits, version=kind, settings=settings)
    assert any(f"training {kind}" in each.what for each in found.findings)
