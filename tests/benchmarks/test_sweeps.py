"""A sweep through its command line, on digits; and the shipped sweeps are valid."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.sweeps import __main__ as command
from benchmarks.sweeps import grid, sweeps
from benchmarks.sweeps.grid import Sweep

SMALL = Sweep(
    base="digits.py",
    overrides=(
        "data.num_fixed=50",
        "data.num_test=12",
        "training.epochs=10",
        "shadow.count=120",
        "attacks.reconn.kind=kernel",
        "attacks.inversion.targets=0",
        "attacks.kernel.targets=null",
    ),
    points=(
        ("all", "attacks.reconn.models=120", "paper=0.0089"),
        ("half", "attacks.reconn.models=60"),
        (
            "half, logits",
            "attacks.reconn.models=60",
            "view.kind=logits",
            "view.probes=5",
        ),
        ("half, slow", "attacks.reconn.models=60", "training.learning_rate=0.05"),
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run `SMALL` in one folder, with options; returns the folder."""
    workdir = tmp_path_factory.mktemp("sweep")

    def called(*options: str) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sweeps.SWEEPS, "small", lambda size: SMALL)
            kernel = ["--set", "attacks.kernel.models=30"]
            command.main(["small", f"--workdir={workdir}", *kernel, *options])
        return workdir

    called("--quiet")
    return called


@pytest.fixture
def finished(run) -> Path:
    return run("--quiet")


def table(workdir: Path) -> list[dict[str, str]]:
    with (workdir / "sweep.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_row_a_point(finished):
    rows = table(finished)
    assert [row["point"] for row in rows] == [point[0] for point in SMALL.points]
    assert [row["attacks.reconn.models"] for row in rows] == ["120", "60", "60", "60"]
    assert [row["training.learning_rate"] for row in rows] == [*["0.2"] * 3, "0.05"]
    assert [row["paper"] for row in rows] == ["0.0089", "", "", ""]
    results = json.loads((finished / "points" / "half" / "results.json").read_text())
    assert float(rows[1]["attacks.reconn.mse"]) == results["attacks"]["reconn"]["mse"]
    assert len({row["attacks.reconn.mse"] for row in rows}) == 4
    # Two attacks on the same models; thirty of these tell less.
    assert all(
        float(row["attacks.kernel.mse"]) > float(row["attacks.reconn.mse"])
        for row in rows
        if row["view.kind"] == "weights"
    )
    assert {row["attacks.kernel.success"] for row in rows} <= {
        "oracle",
        "first percentile",
        "no",
    }


def test_stores_are_shared_by_points_that_differ_in_the_attack(finished):
    assert len(list((finished / "stores").iterdir())) == 2
    assert len({row["nn_oracle_mse"] for row in table(finished)}) == 1


def test_again_it_does_nothing_and_a_lost_point_is_made_again(finished, run, capsys):
    before = table(finished)
    models = [f for f in (finished / "stores").rglob("*") if f.is_file()]
    stamps = {file: file.stat().st_mtime_ns for file in models}
    (finished / "points" / "half" / "results.json").unlink()
    capsys.readouterr()
    run("--json")
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["point"] for row in printed] == [row["point"] for row in before]
    after = table(finished)
    for row in (*before, *after):
        del row["wall_s"]  # evaluating again takes its own time
    assert after == before
    assert {file: file.stat().st_mtime_ns for file in models} == stamps


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
def test_bad_sweeps_are_refused_before_anything_runs(points, message):
    with pytest.raises(ValueError, match=message):
        grid.points(Sweep(base="digits.py", points=points))


@pytest.mark.parametrize("name", ["table_33", "table_3:huge"])
def test_a_wrong_name_or_size_is_one_line(name, tmp_path, capsys):
    with pytest.raises(SystemExit):
        command.main([name, f"--workdir={tmp_path}"])
    assert "got 'table_33'" in (told := capsys.readouterr().err) or "'huge'" in told


@pytest.mark.parametrize("name", sweeps.SWEEPS)
@pytest.mark.parametrize("size", ["smoke", "cpu", "paper"])
def test_every_sweep_of_ours_is_valid(name, size):
    """Every field exists and every value is allowed, at every size."""
    sweep = sweeps.find(f"{name}:{size}")
    assert len(grid.points(sweep)) == len(sweep.points)
