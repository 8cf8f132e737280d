"""What an audit says first, and where it prints what."""

import argparse
import io
import json
import subprocess
import sys
import threading
import time

import pytest

from informed.cli import audit_command as command
from informed.cli import console
from informed.report import words


def rate(successes, trials=6):
    if successes is None:
        return None
    return {"successes": successes, "trials": trials, "rate": successes / trials,
            "low": 0.0, "high": 1.0}  # fmt: skip


def attack(name="kernel", successes=6, exact=0, **changed):
    return {
        "name": name, "about": "", "sees": "all weights", "knows": "the rest",
        "applies": True, "tried": True, "targets": 6, "finished": 6, "planned": 6,
        "seconds": 1.0, "success": rate(successes), "exact": rate(exact),
        "certified": None, "certified_wrong": None, "mse_median": 0.1, "why_not": "",
        "needs_seconds": None, "needs_minutes": None, "remedy": "",
        "trainings": 6, "labels_right": None,
        "labels_named": None, **changed,
    }  # fmt: skip


def document(*attacks, accuracy=None):
    return {
        "kind": "audit", "subject": {"kind": "images", "accuracy": accuracy},
        "attacks": list(attacks), "bounds": {},
        "enough_minutes": max([row["needs_minutes"] or 0 for row in attacks]) or None,
    }  # fmt: skip


def test_an_inversion_without_a_result_is_said_first_and_not_counted():
    cut = attack("inversion", finished=0, planned=5, seconds=162.0, success=None,
                 exact=None, needs_seconds=540.0, needs_minutes=120)  # fmt: skip
    first, second, *_ = words.first_lines(document(cut, attack(successes=0)))
    assert first == (
        "Inversion finished 0 of 5 records in its 2.7 minutes; it needs about 9"
        " minutes a record (`--minutes 120`). Nothing follows from that."
    )
    assert second.startswith("No record was guessed better than without the model")
    table = command.table({"attacks": [cut], "baselines": []})
    assert "0 of 5 (" not in table
    assert "nothing follows" in table
    not_begun = {**cut, "tried": False, "why_not": "it would finish no record"}
    assert words.first_lines(document(not_begun, attack()))[0].startswith(
        "Inversion was not begun: it would finish no record; it needs about 9 minutes"
    )


def test_what_was_not_finished_stands_before_how_well_the_others_did():
    cut = attack("inversion", finished=0, success=None, exact=None)
    whole = attack("kernel", exact=6, remedy="only noise bounds it")
    first, second, *_ = words.first_lines(document(cut, whole))
    assert first.startswith("Inversion finished 0 of 6")
    assert second.startswith("Records read exactly: 6 of 6")
    assert second.endswith("Remedy (kernel): only noise bounds it.")


@pytest.mark.parametrize(
    ("attacks", "verdict"),
    [
        (
            [attack("kernel"), attack("inversion", exact=5)],
            "Records can be read out of this model: 5 of 6 exactly (inversion), by"
            " someone who sees all weights and knows the rest.",
        ),
        (
            [attack("kernel", successes=2)],
            "This model gives records away in part: kernel came nearer than the best"
            " guess without it for 2 of 6, by someone who sees all weights and knows"
            " the rest.",
        ),
        (
            [attack("kernel", successes=0)],
            "Nothing was read out of 6 records; the strongest attack that finished is"
            " kernel. That is no protection.",
        ),
        (
            [attack("inversion", finished=0, success=None, exact=None,
                    needs_minutes=12)],
            "No verdict: no attack finished. Run again with `--minutes 12`.",
        ),
    ],
)  # fmt: skip
def test_the_verdict_is_one_line(attacks, verdict):
    assert words.verdict(document(*attacks)) == verdict


def test_a_broken_bound_is_the_verdict():
    values = document(attack("kernel", successes=0))
    values["bounds"] = {"rows": [{"violation": 1e-9}]}
    assert words.verdict(values).startswith("The declared noise protects nothing")


# What training prints isn't in the results.

PRINTING = """
import os
import numpy as np
def train(images, labels, seed: int):
    print("epoch 1")
    os.write(1, b"from C\\n")
    images = np.asarray(images)
    return images.reshape(len(images), -1).sum(axis=0)
"""


def test_stdout_belongs_to_results(tmp_path):
    (tmp_path / "printing.py").write_text(PRINTING)
    made = subprocess.run(
        [sys.executable, "-m", "informed.cli", "audit", "printing.py:train",
         "--data=digits", "--fixed=20", "--targets=2", "--check", "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert json.loads(made.stdout)["engine"] == "processes"
    assert "epoch 1" in made.stderr


def test_what_is_printed_goes_to_a_log(tmp_path, capfd):
    log = tmp_path / "a.log"
    with console.aside(log):
        print("epoch")
    print("result")
    assert capfd.readouterr().out == "result\n"
    assert log.read_text() == "epoch\n"
    with console.aside(log):
        pass
    assert not log.exists()


def test_a_users_log_is_not_the_log_of_training(tmp_path):
    given = argparse.Namespace(out=[str(tmp_path / "new" / "train.html")])
    assert command._log_of(given) == tmp_path / "new" / "train.html.log"
    assert (tmp_path / "new").is_dir()


def test_a_long_step_without_a_terminal_prints_a_line_a_minute():
    arguments = argparse.Namespace(quiet=False)
    stream = io.StringIO()
    assert not stream.isatty()
    progress = console.Progress(arguments, 6.0, stream, every=0.1)
    progress("training")
    assert stream.getvalue() == ""
    deadline = time.monotonic() + 10
    while "still: training" not in stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.02)
    progress.close()
    assert "left] still: training" in stream.getvalue()
    assert threading.active_count() < 50


def test_labels_that_are_not_named_are_not_wrong():
    named = attack("closed form", exact=6, labels_named=3, labels_right=3)
    assert "3 of 3" in command.table({"attacks": [named], "baselines": []})


def test_noise_that_was_not_played_is_not_called_undeclared():
    values = document(attack())
    privacy = {"steps": 5.0, "noise_multiplier": 2.0}
    values["bounds"] = {"rows": [], "calibrated": None, "privacy": privacy}
    last = words.first_lines(values)[-1]
    assert "declares no noise" not in last
    assert "wasn't held against an attack" in last


def test_the_remedy_has_numbers_and_stands_second():
    """Noise, epsilon, the accuracy with it, and the command; none where it is there."""
    values = document(attack("inversion", exact=6), accuracy=0.93)
    least = {"noise_multiplier": 3.21, "epsilon": 4.0, "bound": 0.5, "steps": 100,
             "command": "informed calibrate --gamma 0.5"}  # fmt: skip
    row = {"noise_multiplier": 3.21, "accuracy": 0.81, "bound": 0.5, "violation": 1.0}
    bounds = {"calibrated": least, "rows": [row], "threshold": 0.5, "delta": 1e-5,
              "candidates": 4, "privacy": None}  # fmt: skip
    values["bounds"] = bounds
    text = words.first_lines(values)[0]
    assert "noise of 3.21 times the clipping norm, times the square root" in text
    assert text.endswith("`informed calibrate --gamma 0.5`")
    bounds["privacy"] = {"noise_multiplier": 0.0, "steps": 100.0, "clip_norm": 1.0}
    text = words.first_lines(values)[0]
    assert "noise multiplier 3.21 (clipping norm 1, 100 steps, epsilon 4 at" in text
    assert "Accuracy with it: 81 % (now 93 %)." in text
    bounds["privacy"]["noise_multiplier"] = 4.0
    assert not words.remedy(values)
    values["attacks"] = [attack("inversion", successes=0)]
    bounds["privacy"]["noise_multiplier"] = 0.0
    assert not words.remedy(values)
