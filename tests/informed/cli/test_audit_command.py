"""The command line of audits."""

import argparse

import pytest

from informed.audit.auditing import AuditConfig
from informed.cli import audit_command, main
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


@pytest.mark.parametrize("option", ["--record=3", "--products=tf32"])
def test_options_of_what_is_missing_are_refused(option, capsys):
    with pytest.raises(SystemExit):
        main(["audit", "a.py:train", "--data=digits", option])
    assert "missing" in capsys.readouterr().err


def test_a_users_log_is_not_the_log_of_training(tmp_path):
    given = argparse.Namespace(out=[str(tmp_path / "new" / "train.html")])
    assert audit_command._log_of(given) == tmp_path / "new" / "train.html.log"
    assert (tmp_path / "new").is_dir()
