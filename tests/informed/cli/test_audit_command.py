"""The command line of audits."""

import argparse

import pytest

from informed.audit.auditing import AuditConfig
from informed.cli import audit, commands, main
from shadow import checks


def test_options_that_do_nothing_are_refused(capsys):
    with pytest.raises(checks.FieldError, match="threshold"):
        AuditConfig(threshold=0.2)
    for words_ in (
        ["--check", "--out", "never.html"],
        ["--release", "w.npz", "--record", "3", "--seed", "7"],
    ):
        with pytest.raises(SystemExit):
            main(["audit", "mine.py:train", "--data", "digits", *words_])
        assert "Expected no" in capsys.readouterr().err


def test_the_command_line_of_a_page_keeps_what_decides_it():
    """Whoever repeats a redacted page doesn't publish records by it."""
    line = ["audit", "mine.py:train", "--data", "mnist", "--redact", "--out", "r.html"]
    line += ["--data_dir", "/data", "--max-success", "0.25", "--seed", "20240101"]
    line += ["--minutes", "0.5"]
    again = audit._again(commands.parsers("audit")[0].parse_args(line))
    for part in (
        "--redact", "--data_dir /data", "--max-success 0.25", "--seed 20240101",
        "--minutes 0.5",
    ):  # fmt: skip
        assert part in again


@pytest.mark.parametrize("option", ["--record=3", "--products=tf32"])
def test_options_of_what_is_missing_are_refused(option, capsys):
    with pytest.raises(SystemExit):
        main(["audit", "a.py:train", "--data=digits", option])
    assert "missing" in capsys.readouterr().err


def test_a_users_log_is_not_the_log_of_training(tmp_path):
    given = argparse.Namespace(out=[str(tmp_path / "new" / "train.html")])
    assert audit._log_of(given) == tmp_path / "new" / "train.html.log"
    assert (tmp_path / "new").is_dir()
