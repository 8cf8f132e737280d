"""Errors name the field that the user can set, with its path."""

import pytest

from informed.experiment.reconn_settings import ReconnConfig
from informed.experiment.settings import Experiment
from informed.experiment.training_settings import TrainingConfig
from shadow import checks
from uninformed.kkt.experiment import Uninformed
from uninformed.landscape.runs import LandscapeConfig


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (LandscapeConfig, {"kkt": {"steps": 0}}, "config.kkt.steps >= 1, got 0"),
        (Uninformed, {"attack": {"steps": 0}}, "config.attack.steps >= 1, got 0"),
        (LandscapeConfig, {"attack": {"steps": 0}}, "config.attack.steps >= 1, got 0"),
        (LandscapeConfig, {"victim": {"decay": 0.0}}, "config.victim.decay > 0"),
        (
            LandscapeConfig,
            {"starts": {"perturbed": -1}},
            "config.starts.perturbed >= 0",
        ),
        (
            Experiment,
            {"attacks": {"inversion": {"type": "inversion", "steps": 0}}},
            "config.attacks.inversion.steps >= 1, got 0",
        ),
        (
            Experiment,
            {"training": {"privacy": {"clip_norm": 0.0}}},
            "config.training.privacy.clip_norm > 0 and finite, got 0.0",
        ),
        (
            Experiment,
            {"attacks": {"reconn": {"type": "reconn", "kernel": {"scale": 0.0}}}},
            "config.attacks.reconn.kernel.scale > 0",
        ),
        (
            Experiment,
            {"attacks": {"reconn": {"type": "reconn", "clip": float("inf")}}},
            "config.attacks.reconn.clip > 0 and",
        ),
    ],
)
def test_a_refused_value_is_named_with_its_whole_path(cls, values, message):
    with pytest.raises(checks.FieldError) as error:
        checks.build(cls, values)
    assert f"Expected {message}" in str(error.value)


def test_made_in_python_the_name_is_bare():
    with pytest.raises(ValueError, match=r"^Expected epochs >= 0, got -1"):
        TrainingConfig(epochs=-1)
    with pytest.raises(ValueError, match=r"^Expected clip > 0 and finite, got inf"):
        ReconnConfig(clip=float("inf"))


def test_a_caller_may_rename_a_field():
    with (
        pytest.raises(checks.FieldError, match=r"^Expected mine\.n >= 1, got 0\.$"),
        checks.called({"count": "mine.n"}),
    ):
        checks.at_least("count", 0, 1)


class _Silent(Exception):
    def __str__(self) -> str:
        return ""


@pytest.mark.parametrize(
    ("error", "first", "named"),
    [
        (ValueError("\n one line \n another"), "one line", "ValueError: one line"),
        (_Silent(), "_Silent", "_Silent"),
        (KeyError("a"), "'a'", "KeyError: 'a'"),
    ],
)
def test_an_error_in_a_line(error: Exception, first: str, named: str) -> None:
    assert checks.first_line(error) == first
    assert checks.named(error) == named
