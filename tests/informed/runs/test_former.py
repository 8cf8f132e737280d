"""Runs of versions in which the reconstructor and inversion stood beside the others."""

import json

from tests.informed.commands import refused


def test_they_are_refused_by_name(tmp_path, capsys):
    then = {"reconn_mse": 0.1, "attacks": {}, "configuration": {"reconn": {}}}
    (tmp_path / "results.json").write_text(json.dumps(then))
    said = refused(capsys, "report", str(tmp_path))
    assert "config.attacks.reconn" in said
    assert "run it again" in said
