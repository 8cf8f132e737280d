"""Scans in pieces: the same as in one, also when they are cut off."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shadow import bars
from shadow.records import ConfigurationMismatchError, Record
from uninformed import pieces


def step(carry, number):
    """Something whose end depends on every step and on the order of steps."""
    values, count = carry
    return jnp.sin(3 * values + number), count + 1


START = (jnp.linspace(0, 1, 5), jnp.asarray(0))


def place(folder, steps):
    record = Record.of({"steps": steps})
    return pieces.Place(file=folder / "part.npz", record=record, what="The work")


def test_pieces_are_the_whole(tmp_path):
    """The map is chaotic: float32 parts from float64 after a dozen steps."""
    ticks: list[int] = []
    whole = pieces.scan(step, START, 130, tick=ticks.append)[0]
    assert sum(ticks) == 130
    where = place(tmp_path, 130)
    for again in (None, where, where):
        found, count = pieces.scan(step, START, 130, again)
        assert count == 130
        np.testing.assert_array_equal(whole, found)


def test_few_steps_are_those_of_a_loop():
    found, count = pieces.scan(step, START, 3)
    values = np.linspace(0, 1, 5)
    for number in range(3):
        values = np.sin(3 * values + number)
    np.testing.assert_allclose(found, values, atol=1e-5)
    assert count == 3
    np.testing.assert_array_equal(pieces.scan(step, START, 0)[0], START[0])


@pytest.mark.parametrize("progress", [False, True])
def test_a_bar_tells_the_steps(progress, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bars, "bar", functools.partial(bars.bar, every=0.0))
    where = dataclasses.replace(place(tmp_path, 130), progress=progress)
    pieces.scan(step, START, 130, where)
    printed = capsys.readouterr().err
    assert ("part: 100%" in printed and "130/130" in printed) == progress
    pieces.scan(step, START, 130)
    assert capsys.readouterr().err == ""


def test_a_cut_scan_goes_on_after_its_last_piece(tmp_path, cut_off):
    whole = pieces.scan(step, START, 130)
    where, calls = place(tmp_path, 130), cut_off(7)
    with pytest.raises(KeyboardInterrupt):
        pieces.scan(step, START, 130, where)
    found = pieces.scan(step, START, 130, where)
    # Each step was made once.
    assert calls == sorted(set(calls))
    assert calls[-1] == 130
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(one, other)


def test_pieces_of_other_work_are_refused(tmp_path):
    pieces.scan(step, START, 60, place(tmp_path, 60))
    with pytest.raises(ConfigurationMismatchError, match="The work was made with"):
        pieces.scan(step, START, 61, place(tmp_path, 61))


def test_what_is_kept_of_all_phases_is_cleared(tmp_path):
    where = place(tmp_path, 4)
    (tmp_path / "other.npz").touch()
    for phase in ("one", "two"):
        pieces.scan(step, START, 4, where.named(phase))
    assert len(list(tmp_path.iterdir())) == 3
    where.clear()
    assert [file.name for file in tmp_path.iterdir()] == ["other.npz"]
