"""Runs of versions in which the reconstructor and inversion stood beside the others."""

import json
import shutil

import numpy as np
import pytest

from informed.runs import former
from informed.runs.experiment import Experiment
from tests.informed.commands import SMALL, refused, run


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A run of today, put as it was put then."""
    from informed import cli

    workdir = tmp_path_factory.mktemp("runs") / "old"
    kernel = "--config.attacks.kernel.targets=5"
    cli.main(["run", *SMALL, kernel, f"--workdir={workdir}", "--quiet", "--json"])
    today = json.loads((workdir / "results.json").read_text())
    stages = workdir / "stages"
    for name, (file, stage) in former._FILES.items():
        shutil.move(workdir / "attacks" / f"{name}.npz", workdir / file)
        shutil.move(stages / f"attack-{name}.json", stages / f"{stage}.json")
    shutil.copy(stages / "attack.json", stages / "train.json")
    attacks = json.loads(json.dumps(today["configuration"]["attacks"]))
    own = {name: attacks.pop(name) for name in ("reconn", "inversion")}
    for values in own.values():
        del values["type"]
    del own["reconn"]["targets"]
    targets = own["inversion"].pop("targets")
    found = today["attacks"]
    then = {
        **{k: v for k, v in today.items() if k != "attacks"},
        **{f"reconn_{k}": found["reconn"][k] for k in found["reconn"]},
        "closer_than_oracle": found["reconn"]["closer_than_oracle"],
        "attacks": {
            name: {
                **{k: each[k] for k in ("type", "sees", "targets", "mse")},
                "certified": each["certified"],
                "labels_right": each["labels_right"],
                "closer_than_oracle": each["closer_than_oracle"]["rate"],
            }
            for name, each in found.items()
        },
        "configuration": {
            **today["configuration"],
            "reconn": own["reconn"],
            "inversion": {"targets": targets, "attack": own["inversion"]},
            "attacks": attacks,
        },
    }
    (workdir / "results.json").write_text(json.dumps(then))
    return workdir, today


def test_they_are_read(old):
    workdir, today = old
    found = former.read(workdir / "results.json")
    experiment = Experiment.from_mapping(found["configuration"])
    assert experiment == Experiment.from_mapping(today["configuration"])
    for name, each in today["attacks"].items():
        for field in ("type", "mse", "certified"):
            assert found["attacks"][name][field] == each[field]
    for field in ("mae", "mse_standard_error"):
        assert found["attacks"]["reconn"][field] == today["attacks"]["reconn"][field]
    assert len(former.guesses(workdir, "inversion")["images"]) == 2
    assert np.isfinite(former.guesses(workdir, "kernel")["images"]).all()


def test_their_page_is_written(old, capsys):
    workdir, _ = old
    report = json.loads(run(capsys, "report", str(workdir), "--json", "--quiet"))
    rows = {row["name"]: row for row in report["attacks"]}
    assert set(rows) == {"reconn", "inversion", "kernel"}
    assert rows["inversion"]["exact"]["successes"] == 2


def test_they_are_not_gone_on_with(old, capsys):
    workdir, _ = old
    said = refused(capsys, "run", *SMALL, f"--workdir={workdir}")
    assert "config.attacks.reconn" in said
    assert "`informed report` still reads it" in said


def test_results_of_today_are_left_as_they_are(old):
    _, today = old
    assert former.results(today) == today
