"""The command line of audits."""

import argparse

import pytest

from informed.audit.auditing import AuditConfig
from informed.cli import audit_command
from shadow import checks


def test_options_that_do_nothing_are_refused():
    with pytest.raises(checks.FieldError, match="threshold"):
        AuditConfig(threshold=0.2)


def test_a_users_log_is_not_the_log_of_training(tmp_path):
    given = argparse.Namespace(out=[str(tmp_path / "new" / "train.html")])
    assert audit_command._log_of(given) == tmp_path / "new" / "train.html.log"
    assert (tmp_path / "new").is_dir()
