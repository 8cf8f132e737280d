"""What is said of numbers: the first lines of a page."""

import pytest

from informed.cli import gate
from informed.report import words
from tests.informed.report.documents import ALL, NONE, attack, document


def test_the_upper_end_is_that_of_the_attack_that_says_least():
    few = {"successes": 0, "trials": 2, "rate": 0.0, "low": 0.0, "high": 0.8418}
    values = document(
        attack("kernel", NONE),
        attack("inversion", few, finished=2),
        kind="audit",
    )
    said = words.how_well(values)
    assert 'ends at 85 % for the attack "inversion", finished for 2.' in said
    assert "ends at 17 %." in words.how_well(document(attack("kernel", NONE)))


def test_records_that_time_left_out_are_said():
    values = document(attack("inversion", ALL))
    asked = values["subject"]["targets"] + 16
    values["configuration"] = {"targets": asked}
    assert any("for lack of time" in each for each in words.unfinished(values))


def judged(name="kernel", **changed):
    rate = {"successes": 0, "trials": 3, "rate": 0.0, "low": 0.0, "high": 0.6}
    row = {"name": name, "tried": True, "targets": 3, "planned": 3, "finished": 3}
    row |= {"success": rate, "exact": rate, "mse_median": 0.1}
    return row | {"certified": None, "applies": True} | changed


def test_an_error_of_zero_is_the_least():
    rows = judged("a", mse_median=1e-9), judged("b", mse_median=0.0)
    values = {"attacks": rows, "subject": {}}
    best = words.strongest(values)
    assert best is not None
    assert best["name"] == "b"


@pytest.mark.parametrize(
    ("models", "error", "enough"),
    [(32, 0.05, False), (700, 0.12, False), (700, None, False), (700, 0.05, True)],
)
def test_a_learned_attack_that_learned_too_little_shows_nothing(models, error, enough):
    """Few shadow models, or guesses worse than the mean record."""
    values = document(
        attack("kernel", NONE, trainings=models, mse_median=error),
        enough_minutes=12,
        baselines=[{"name": "mean record", "mse_median": 0.08}],
    )
    values["subject"] |= {"shadow_models": models}
    if enough:
        assert words.verdict(values).startswith("Nothing was read out")
        gate.require(values, 0.2)
        return
    assert words.verdict(values) == (
        f"No verdict: kernel read nothing, but it learned too little from {models}"
        " shadow models. Run again with `--minutes 12`."
    )
    # The mean image shows nothing about a release, so it decides nothing.
    mean = attack("mean_image", NONE, mse_median=0.08) | {"sees": "nothing"}
    together = values | {"attacks": [*values["attacks"], mean]}
    assert words.verdict(together) == words.verdict(values)
    assert any("learned too little" in line for line in words.unfinished(values))
    with pytest.raises(gate.GateFailedError, match="kernel learned too little"):
        gate.require(values, 0.2)
    # A run's attack may learn from fewer than there are.
    values["attacks"][0]["shadow_models"] = models
    values["subject"]["shadow_models"] = 9000
    assert f"from {models} shadow models" in words.verdict(values)
    # Another attack that learns nothing from shadow models decides.
    values["attacks"].append(attack("inversion", NONE, trainings=5000))
    assert words.verdict(values).startswith("Nothing was read out of 20 records;")
    assert "inversion" in words.verdict(values)


def test_upper_ends_are_printed_rounded_up():
    rate = NONE | {"trials": 1000, "high": 0.00368}
    assert "interval 0 to 1 %" in words.share(rate)
    assert "ends at 1 %" in words.how_well(document(attack("inversion", rate)))
