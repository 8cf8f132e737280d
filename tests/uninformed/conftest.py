"""Loops of steps that are cut off."""

import pytest

from uninformed import pieces


@pytest.fixture
def cut_off(monkeypatch):
    """Interrupt loops after pieces of these numbers; the steps done at each piece."""

    def after(*numbers):
        keep, calls = pieces._keep, []

        def cut(place, carry, done):
            keep(place, carry, done)
            calls.append(done)
            if len(calls) in numbers:
                raise KeyboardInterrupt

        monkeypatch.setattr(pieces, "_keep", cut)
        return calls

    return after
