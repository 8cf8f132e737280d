"""Grids of the papers: bad ones are refused, and ours are valid."""

import pytest

from benchmarks.papers import grid, sweeps
from benchmarks.papers.grid import Sweep


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            (("a", "attacks.reconn.epchs=1"),),
            "'a'.*unknown field 'attacks.reconn.epchs'",
        ),
        ((("a", "attacks.reconn.epochs=0"),), "'a'.*reconn.epochs >= 1, got 0"),
        ((("a", "attacks.reconn.epochs"),), "Expected 'field=value'"),
        ((), "points with distinct names"),
        ((("a",), ("a",)), "points with distinct names"),
    ],
    ids=str,
)
def test_bad_grids_are_refused_before_anything_runs(points, message):
    with pytest.raises(ValueError, match=message):
        grid.points(Sweep(base="digits.py", points=points))


def test_points_that_differ_in_the_attack_share_a_store():
    few = ("few", "attacks.reconn.models=60", "paper=0.0089")
    slow = ("slow", "training.learning_rate=0.05")
    points = grid.points(Sweep(base="digits.py", points=(("all",), few, slow)))
    stores = [grid.store_name(point.experiment) for point in points]
    assert stores[0] == stores[1] != stores[2]
    assert [point.paper for point in points] == [None, 0.0089, None]


@pytest.mark.parametrize(
    "name",
    [
        "attack_size",
        "fixed_set",
        "notebook",
        "privacy",
        "seeds",
        "subsampling",
        "table_2_cifar10",
        "table_2_mnist",
        "table_3",
        "table_4",
        "table_9",
    ],
)
def test_every_grid_of_ours_is_valid(name):
    """Every field exists, and every value is allowed."""
    sweep = getattr(sweeps, name)()
    assert len(grid.points(sweep)) == len(sweep.points)
