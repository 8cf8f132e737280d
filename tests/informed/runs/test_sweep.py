"""A sweep through the command line, on digits."""

import csv
import json
from pathlib import Path

import pytest

from informed import cli
from informed.cli import configuration
from informed.runs import sweep
from informed.runs.sweep import SweepConfig
from shadow import checks

ROOT = Path(__file__).parents[3]
SWEEPS = sorted((ROOT / "configs" / "sweeps").glob("*.py"))
CONFIG = """
from ml_collections import config_dict

def get_config():
    config = config_dict.ConfigDict()
    config.title = "Fewer shadow models, and less to see"
    config.base = {base!r}
    config.overrides = (
        "data.num_fixed=50", "data.num_test=12", "training.epochs=10",
        "shadow.count=120", "attacks.reconn.kind=kernel",
        "attacks.inversion.targets=0", "attacks.kernel.targets=null",
        "attacks.kernel.models=30",
    )
    config.points = (
        ("all", "attacks.reconn.models=120", "paper=0.0089"),
        ("half", "attacks.reconn.models=60"),
        (
            "half, logits",
            "attacks.reconn.models=60",
            "view.kind=logits",
            "view.probes=5",
        ),
        ("half, slow", "attacks.reconn.models=60", "training.learning_rate=0.05"),
    )
    config.x = "attacks.reconn.models"
    config.series = ("view.kind", "training.learning_rate")
    config.metrics = ("attacks.reconn.mse", "attacks.kernel.mse")
    return config
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("config") / "sweep.py"
    file.write_text(CONFIG.format(base=str(ROOT / "configs" / "digits.py")))
    return file


@pytest.fixture(scope="module")
def finished(config, tmp_path_factory) -> Path:
    workdir = tmp_path_factory.mktemp("sweep")
    cli.main(["sweep", f"--config={config}", f"--workdir={workdir}", "--quiet"])
    return workdir


def table(workdir: Path) -> list[dict[str, str]]:
    with (workdir / "sweep.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_row_a_point(finished):
    rows = table(finished)
    assert [row["point"] for row in rows] == [
        "all",
        "half",
        "half, logits",
        "half, slow",
    ]
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
    assert (finished / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_stores_are_shared_by_points_that_differ_in_the_attack(finished):
    assert len(list((finished / "stores").iterdir())) == 2
    assert len({row["nn_oracle_mse"] for row in table(finished)}) == 1


def test_again_it_does_nothing_and_a_lost_point_is_made_again(finished, config, capsys):
    before = table(finished)
    models = [f for f in (finished / "stores").rglob("*") if f.is_file()]
    stamps = {file: file.stat().st_mtime_ns for file in models}
    (finished / "points" / "half" / "results.json").unlink()
    arguments = ["sweep", f"--config={config}", f"--workdir={finished}", "--json"]
    cli.main(arguments)
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["point"] for row in printed] == [row["point"] for row in before]
    after = table(finished)
    for row in (*before, *after):
        del row["wall_s"]  # evaluating again takes its own time
    assert after == before
    assert {file: file.stat().st_mtime_ns for file in models} == stamps


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"points": (("a", "attacks.reconn.epchs=1"),)},
            "'a'.*unknown field 'attacks.reconn.epchs'",
        ),
        (
            {"points": (("a", "attacks.reconn.epochs=0"),)},
            "'a'.*reconn.epochs >= 1, got 0",
        ),
        ({"points": (("a", "attacks.reconn.epochs"),)}, "Expected 'field=value'"),
        ({"points": ()}, "sweep.points to hold at least one"),
        ({"points": (("a",), ("a",))}, "distinct names"),
        (
            {"points": (("a",),), "x": "attacks.reconn.epochs"},
            "sweep.x to be a field that the points set",
        ),
        ({"points": (("a",),), "metrics": ("mse",)}, "sweep.metrics"),
    ],
    ids=str,
)
def test_bad_sweeps_are_refused_before_anything_runs(fields, message):
    values = {"title": "t", "base": "b"} | fields
    digits = configuration.values([f"--config={ROOT / 'configs' / 'digits.py'}"])[0]
    with pytest.raises(ValueError, match=message):
        sweep.points(checks.build(sweep.SweepConfig, values, "sweep"), digits)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
@pytest.mark.parametrize("size", ["smoke", "cpu", "paper"])
def test_every_sweep_of_ours_is_valid(path, size):
    """Every field exists and every value is allowed, at every size."""
    config, base = configuration.load_sweep([f"--config={path}:{size}"])
    found = sweep.points(config, base)
    assert len(found) == len(config.points)


def test_success_is_a_word_and_no_metric():
    with pytest.raises(checks.FieldError, match="is a word"):
        SweepConfig(
            title="t",
            base="b.py",
            points=(("a",),),
            metrics=("attacks.reconn.success",),
        )
