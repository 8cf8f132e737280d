"""A page at the deadline whatever happens, and an audit that goes on where it was."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import informed
from informed.audit import ledger, timetable
from informed.audit.audit_state import AuditState
from informed.cli import main
from informed.report import words
from tests.informed.audit.audited_trainings import SOURCE

# A training that hangs once it has been called so many times, in this process or any.
HANGS = """
import os, time
import numpy as np
COUNT = {count!r}

def train(images, labels, seed: int):
    with open(COUNT, "a") as file:
        file.write("x")
    if os.path.getsize(COUNT) > {most}:
        time.sleep(3600)
    x, y = images.reshape(len(images), -1), np.eye(10)[labels]
    return np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)
"""


def run(*arguments, seconds):
    """Run the command; returns it when it has ended."""
    command = [sys.executable, "-m", "informed.cli", "audit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds)


@pytest.mark.slow
@pytest.mark.parametrize("most", [3, 40])
def test_a_training_that_hangs_costs_no_page(tmp_path, most):
    """Within the pre-flight, or after it."""
    file = tmp_path / "hangs.py"
    file.write_text(HANGS.format(count=str(tmp_path / "count"), most=most))
    out, began = tmp_path / "audit.json", time.monotonic()
    minutes = 0.5
    ended = run(
        f"{file}:train", "--data", "digits", "--fixed", 100, "--targets", 3,
        "--minutes", minutes, "--out", out, seconds=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert time.monotonic() - began < 60 * minutes + 20
    values = json.loads(out.read_text())
    assert words.verdict(values).startswith("No verdict: no attack finished. Run again")
    assert values["enough_minutes"] > minutes
    reasons = " ".join(row["why_not"] for row in values["attacks"])
    said = "pre-flight wasn't finished", "out of time at target 1", "abandoned"
    assert any(why in reasons for why in said)


@pytest.fixture
def linear_file(tmp_path):
    file = tmp_path / "linear_of_test.py"
    file.write_text(SOURCE)
    return file


def test_an_audit_that_was_killed_goes_on_with_what_it_has(
    linear_file, tmp_path, digits
):
    """Parts of a whole audit, with some taken away, give the same page again."""
    few = digits.take(np.arange(200))
    settings = {"targets": 3, "fixed": 20, "minutes": 20.0}

    def go(kept):
        state = AuditState(ledger=kept)
        trained = []
        report = informed.audit(
            f"{linear_file}:train", few, state=state, progress=trained.append,
            **settings,
        )  # fmt: skip
        return report.values, trained

    class Kept(ledger.Ledger):
        def remove(self):
            """Keep the parts of a complete audit too."""

    kept = Kept(tmp_path / "parts")
    first, said = go(kept)
    assert any(line.startswith("inversion") for line in said)
    assert (tmp_path / "parts" / "trial-inversion.npz").is_file()
    again, said = go(kept)
    new = ("training up to", "training 3 released", "inversion, ", "kernel, ")
    assert not [line for line in said if line.startswith(new)]
    (tmp_path / "parts" / "trial-kernel.npz").unlink()
    (tmp_path / "parts" / "shadows.npz").unlink()
    third, said = go(kept)
    assert any(line.startswith("kernel") for line in said)
    assert not any(line.startswith("inversion, ") for line in said)
    for values in (again, third):
        assert values["records"] == first["records"]
        for one, other in zip(values["attacks"], first["attacks"], strict=True):
            assert one["mse_mean"] == other["mse_mean"]
            assert one["certified"] == other["certified"]


def test_parts_are_not_taken_after_what_training_imports_was_changed(tmp_path, digits):
    """The file of the training stays the same, byte for byte."""
    few, book = digits.take(np.arange(120)), ledger.Ledger(tmp_path / "parts")
    file, helper = tmp_path / "imports_a_helper.py", tmp_path / "scale.txt"
    file.write_text(
        "import numpy as np\n"
        "def train(images, labels):\n"
        f"    scale = float(open({str(helper)!r}).read())\n"
        "    return scale * images.reshape(len(images), -1).sum(axis=0)\n"
    )

    def identity():
        settings = informed.audit.AuditConfig(targets=2, fixed=20)
        checked = informed.audit.check(
            f"{file}:train", few, **dataclasses.asdict(settings)
        )
        state = AuditState(subject=checked.subject, checked=checked, settings=settings)
        return informed.audit.auditing._identity(state)

    helper.write_text("1.0")
    book.open(identity())
    book.keep("released", {"weights": np.ones((2, 64))})
    book.open(identity())
    assert book.part("released") is not None
    helper.write_text("2.0")
    book.open(identity())
    assert book.part("released") is None


def test_parts_of_another_audit_are_not_taken(tmp_path):
    book = ledger.Ledger(tmp_path / "parts")
    book.open({"seed": 1})
    book.keep("released", {"weights": np.arange(3.0)}, seconds=2.0)
    book.open({"seed": 1})
    arrays, fields = book.part("released")
    np.testing.assert_array_equal(arrays["weights"], np.arange(3.0))
    assert fields == {"seconds": 2.0}
    book.open({"seed": 2})
    assert book.part("released") is None
    book.remove()
    assert not book.folder.exists()
    assert ledger.Ledger().part("released") is None


@pytest.mark.slow
def test_killed_at_any_moment_it_leaves_a_whole_page_or_none(linear_file, tmp_path):
    out = tmp_path / "audit.json"
    command = [
        sys.executable, "-m", "informed.cli", "audit", f"{linear_file}:train",
        "--data", "digits", "--fixed", "30", "--targets", "3", "--minutes", "3",
        "--out", str(out),
    ]  # fmt: skip
    for seconds in np.random.default_rng(0).uniform(4, 20, size=3):
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
        if out.exists():
            assert json.loads(out.read_text())["kind"] == "audit"
    subprocess.run(command, check=True, capture_output=True, timeout=400)
    values = json.loads(out.read_text())
    assert words.verdict(values).startswith("Records can be read out of this model: 3")


def test_advice_is_more_than_was_given_and_counts_what_comes_before():
    for given in (0.5, 2.5, 4.0, 7.0, 100.0, 2000.0):
        assert timetable.advised(1.0, 5, given=given) > given
    assert timetable.advised(60.0, 5) == 10  # 5 min of it, with a margin
    assert timetable.advised(60.0, 5, secret=True) == 15
    assert timetable.advised(60.0, 5, before=300.0) == 15


def test_the_command_of_the_remedy_gives_what_the_page_says(capsys):
    least = informed.audit.noise_game.calibrated(
        {"steps": 30, "sampling_probability": 0.2}, 0.5, 0.25
    )
    main([*least["command"].split()[1:], "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["noise_multiplier"] == least["noise_multiplier"]
    assert printed["gamma"] == pytest.approx(least["bound"], rel=1e-9)
    assert printed["epsilon"] == pytest.approx(least["epsilon"], rel=1e-9)
