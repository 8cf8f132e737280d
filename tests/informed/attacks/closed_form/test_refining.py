"""Refits in turns with a closed form, on planted maps with known answers."""

import zlib

import numpy as np
import pytest

from informed.attacks.closed_form import refining

UNKNOWNS = 60


def _planted(rng, slopes):
    """A training that its closed form undoes but for a few directions."""
    onto = np.linalg.qr(rng.normal(size=(UNKNOWNS, len(slopes))))[0]
    centre = rng.normal(size=UNKNOWNS)

    def train(z):
        return z + (onto * slopes) @ (onto.T @ (z - centre))

    return train, centre + 0.1 * onto @ rng.uniform(0.5, 1, len(slopes))


@pytest.mark.parametrize(
    ("slopes", "refits"),
    [((0.2, -0.3), 30), ((1.5, -0.4, 2.0, 0.7, -0.6), 20)],
    ids=["plain steps", "where they diverge"],
)
def test_the_planted_row(rng, slopes, refits):
    train, truth = _planted(rng, np.array(slopes))
    count = 0

    def counted(z):
        nonlocal count
        count += 1
        return train(z)

    z, error = refining.refine(
        lambda model: model, counted, train(truth), np.ones(UNKNOWNS)
    )
    assert np.abs(z - truth).max() < 1e-9
    assert np.all(np.abs(z - truth) <= error)
    assert error.max() < 1e-6
    assert count <= refits


def test_a_path_without_slopes_has_no_answer(rng):
    """Jumps of the size of the distance, as of a solver that counts its steps."""

    def train(z):
        jumps = np.random.default_rng(zlib.crc32(z.tobytes()))
        return z + jumps.uniform(-0.1, 0.1, UNKNOWNS)

    goal = train(rng.normal(size=UNKNOWNS))
    z, error = refining.refine(lambda model: model, train, goal, np.ones(UNKNOWNS))
    np.testing.assert_array_equal(z, goal)
    assert np.all(np.isinf(error))
