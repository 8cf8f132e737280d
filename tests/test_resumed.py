"""A benchmark goes on with its own lines, never with those of other settings."""

import pytest

from benchmarks import resumed
from shadow import ConfigurationMismatchError


def test_lines_of_other_settings_are_refused(tmp_path):
    out, settings = tmp_path / "x.jsonl", {"targets": 5, "fixed": 300}
    assert resumed.lines(None, settings) == []
    assert resumed.lines(out, settings) == []
    resumed.append(out, {"mse": 0.5})
    assert resumed.lines(out, settings) == [{"mse": 0.5}]
    with pytest.raises(ConfigurationMismatchError, match="fixed: 300 there, 1000"):
        resumed.lines(out, settings | {"fixed": 1000})
    other = tmp_path / "old.jsonl"
    other.write_text("{}\n")
    with pytest.raises(ConfigurationMismatchError, match="does not say how"):
        resumed.lines(other, settings)
