"""Noise that a training declares: held against an attack, and against the training."""

import numpy as np
import pytest

import informed
from informed.report import words
from shadow import checks
from tests.informed.audit.audited_trainings import check

QUICK = {
    "fixed": 30, "targets": 2, "minutes": 0.5, "version": "1",
    "skip": ("inversion",),
}  # fmt: skip


def test_noise_that_cannot_be_left_out_ends_no_audit(digits):
    def train(images, labels, seed: int, noise_multiplier=2.0):
        noise = np.random.default_rng(seed).normal(size=64) / (1 / noise_multiplier)
        return images.reshape(len(images), -1).sum(axis=0) + noise

    privacy = {"noise_multiplier": 2.0, "steps": 1}
    data = digits.take(np.arange(300))
    found = informed.audit(train, data, privacy=privacy, **QUICK)
    assert found.values["bounds"]["rows"]
    assert (
        "no model could be trained without noise" in found.values["bounds"]["why_not"]
    )


def noisy(images, labels, seed, noise_multiplier=2.0):
    rng = np.random.default_rng(seed)
    mean = images.reshape(len(images), -1).mean(axis=0)
    return mean + noise_multiplier / len(images) * rng.normal(size=mean.shape)


def test_noise_that_was_skipped_is_declared_and_was_not_held_against_an_attack():
    values = informed.audit(
        noisy,
        "digits",
        version="1",
        privacy={"steps": 1, "clip_norm": 1.0},
        skip=("noise", "inversion"),
        targets=3,
        fixed=60,
        minutes=0.5,
    ).values
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


def test_declared_noise_without_a_draw_stops_the_audit(tmp_path):
    found = check(declaring(tmp_path, "5.0", used="0.0")).stops
    assert all("PRIVACY declares noise, but" in finding.what for finding in found)
    assert any("the key changes nothing" in finding.what for finding in found)
    (finding,) = check(declaring(tmp_path, "5.0", used="1.0")).stops
    assert "noise_multiplier changes nothing" in finding.what
