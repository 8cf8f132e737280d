"""Noise that a training declares: held against an attack, and against the training."""

import numpy as np
import pytest

import informed
from informed.audit import noise_check
from informed.report import words
from shadow import checks
from tests.informed.audit.audited_trainings import check

QUICK = {
    "fixed": 30, "targets": 2, "minutes": 3.0, "version": "1",
    "skip": ("inversion",),
}  # fmt: skip


def test_noise_that_cannot_be_left_out_ends_no_audit(digits):
    def train(images, labels, seed: int, noise_multiplier=2.0):
        noise = np.random.default_rng(seed).normal(size=64) / (1 / noise_multiplier)
        return images.reshape(len(images), -1).sum(axis=0) + noise

    privacy = {"noise_multiplier": 2.0, "steps": 1}
    data = digits.take(np.arange(100))
    found = informed.audit(train, data, privacy=privacy, **QUICK)
    assert found.values["bounds"]["rows"]
    why_not = found.values["bounds"]["why_not"]
    assert "no model could be trained without noise" in why_not


def noisy(images, labels, seed, noise_multiplier=2.0):
    rng = np.random.default_rng(seed)
    mean = images.reshape(len(images), -1).mean(axis=0)
    return mean + noise_multiplier / len(images) * rng.normal(size=mean.shape)


def test_noise_that_was_skipped_is_declared_and_was_not_held_against_an_attack():
    few = {"targets": 3, "fixed": 60, "minutes": 0.5, "version": "1"}
    privacy, skip = {"steps": 1, "clip_norm": 1.0}, ("noise", "inversion")
    values = informed.audit(noisy, "digits", privacy=privacy, skip=skip, **few).values
    assert values["bounds"]["privacy"]["noise_multiplier"] == 2.0
    assert values["bounds"]["why_not"] == words.LEFT_OUT
    text = " ".join(words.first_lines(values))
    assert "wasn't held against an attack" in text
    assert "declares no noise" not in text


NOISY = """
import numpy as np
PRIVACY = {{"noise_multiplier": 5.0, "steps": 1, "clip_norm": 1.0}}

def train(images, labels, seed: int, noise_multiplier={default}):
    x = images.reshape(len(images), -1)
    noise = np.random.default_rng(seed).standard_normal(x.shape[1])
    return x.sum(axis=0) + {used} * noise
"""


def declaring(tmp_path, default, used="noise_multiplier"):
    file = tmp_path / f"noisy_{default}_{used}.py".replace("*", "")
    file.write_text(NOISY.format(default=default, used=used))
    return f"{file}:train"


def test_noise_that_is_declared_is_the_noise_of_what_is_shipped(tmp_path):
    with pytest.raises(checks.FieldError, match=r"declares noise_multiplier 5.*adds 0"):
        check(declaring(tmp_path, "0.0"))
    with pytest.raises(checks.FieldError, match="a number as its default"):
        check(declaring(tmp_path, "None"))
    assert not check(declaring(tmp_path, "5.0")).stops


@pytest.mark.parametrize("privacy", ["1.0", "{'steps': 1, 'clip_norm': None}"])
def test_what_is_no_declaration_is_refused(privacy, tmp_path):
    file = tmp_path / "declares.py"
    text = NOISY.format(default=5.0, used=1.0).splitlines()
    file.write_text("\n".join([text[1], f"PRIVACY = {privacy}", *text[3:]]))
    with pytest.raises(checks.FieldError, match="PRIVACY to be a dictionary"):
        check(f"{file}:train")


def test_declared_noise_without_a_draw_stops_the_audit(tmp_path):
    found = check(declaring(tmp_path, "5.0", used="0.0")).stops
    assert all("PRIVACY declares noise, but" in finding.what for finding in found)
    assert any("the key changes nothing" in finding.what for finding in found)
    (finding,) = check(declaring(tmp_path, "5.0", used="1.0")).stops
    assert "noise_multiplier changes nothing" in finding.what


def apart(mu, count, rng):
    """Weights of models of two targets, mu standard deviations apart."""
    first, second = rng.normal(size=(2, 2 * count, 20))
    second[:, 0] += mu
    return noise_check.scatter(first, second)


@pytest.mark.parametrize("count", [noise_check.FEWEST, noise_check.MOST])
@pytest.mark.parametrize("mu", [0.4, 4.0])
def test_noise_as_declared_is_not_missed_and_a_hundredth_of_it_is(mu, count, rng):
    fair = [apart(mu, count, rng).missing(mu) for _ in range(500)]
    assert not any(fair)
    lacking = [apart(100 * mu, count, rng).missing(mu) for _ in range(100)]
    assert np.mean(np.array(lacking) > 0) > 0.9
    assert max(lacking) < 200
    # What is said to be noticed is.
    about = apart(mu, count, rng).noticed(mu)
    if np.isfinite(about):
        worse = [apart(1.5 * about * mu, count, rng).missing(mu) for _ in range(100)]
        assert np.mean(np.array(worse) > 0) > 0.5


PRIVATE = """
import numpy as np
PRIVACY = {{"noise_multiplier": 2.0, "steps": 4, "clip_norm": 1.0}}

def train(images, labels, seed: int):
    rng, x = np.random.default_rng(seed), images.reshape(len(images), -1)
    weights = np.zeros(x.shape[1])
    for _ in range(4):
        gradients = weights - x
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        total = (gradients / np.maximum(1, norms)).sum(axis=0)
        noise = {times} * 2.0 * rng.standard_normal(len(total))
        weights = weights - 0.1 * (total + noise) / len(x)
    return weights
"""


def test_a_hundredth_of_the_declared_noise_is_found_before_the_audit(tmp_path):
    """DP-GD without a keyword for its noise, so that nothing else can tell."""
    for times, level in ((1.0, "note"), (0.01, "stops")):
        file = tmp_path / f"private_{level}.py"
        file.write_text(PRIVATE.format(times=times))
        checked = check(f"{file}:train")
        (finding,) = [f for f in checked.findings if "PRIVACY declares" in f.what]
        assert finding.level == level
        said = "can't tell" if level == "note" else "too small, or clipping"
        assert said in finding.what
