"""Without a terminal a long step prints lines, a short one nothing."""

import time

from shadow import bars


def test_lines_without_a_terminal(capsys):
    for _ in bars.bar(range(20), desc="models", every=0.05):
        time.sleep(0.01)
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert printed.out == ""
    assert 1 <= len(lines) <= 8
    assert all(line.startswith("models") and "\r" not in line for line in lines)
    assert "/20" in lines[0]


def test_a_short_step_prints_nothing(capsys):
    for _ in bars.bar(range(20), desc="models"):
        pass
    for _ in bars.bar(range(20), show=False, every=0.0):
        time.sleep(0.002)
    assert capsys.readouterr().err == ""
