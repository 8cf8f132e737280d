"""A new attack is one file and one row: it is listed, runs, and is audited."""

import dataclasses
import json

import numpy as np
import pytest

import informed
from informed.attacks import registry
from informed.attacks.attack_row import Row
from tests.informed.command_line import run


@dataclasses.dataclass(frozen=True, kw_only=True)
class GreyConfig:
    """Attributes: level: of every pixel."""

    level: float = 0.5


@dataclasses.dataclass(frozen=True)
class Grey:
    """Guesses the same grey picture for every release."""

    config: GreyConfig

    def __call__(self, release, knowledge, *, key):
        shape = (len(release), *knowledge.fixed.image_shape)
        images = np.full(shape, self.config.level, np.float32)
        return informed.Reconstruction(images=images)


ROW = Row(
    name="grey",
    about="a grey picture, whatever is released",
    config=GreyConfig,
    make=lambda config, material: Grey(config),
    sees="weights",
    knows=("fixed",),
    gives=("images",),
    applies=lambda facts: facts.why_not_again,
    remedy="nothing: it reads nothing",
)


@pytest.fixture
def added():
    registry.register(ROW)
    yield
    registry._ROWS.pop("grey")


CONFIG = """
import informed

def get_config():
    config = informed.defaults(informed.Experiment)
    config.data.num_fixed, config.data.num_test = 60, 4
    config.shadow.count, config.training.epochs = 40, 15
    config.attacks.reconn.targets = 0
    informed.add_attack(config, "mine", "grey", level=0.25)
    return config
"""


def test_it_is_listed_and_runs(added, tmp_path, capsys):
    listed = {row["name"]: row for row in json.loads(run(capsys, "attacks", "--json"))}
    assert listed["grey"]["about"] == ROW.about
    (tmp_path / "one.py").write_text(CONFIG)
    config, workdir = f"--config={tmp_path / 'one.py'}", tmp_path / "run"
    arguments = [config, f"--workdir={workdir}", "--quiet", "--json"]
    results = json.loads(run(capsys, "run", *arguments))
    assert set(results["attacks"]) == {"mine"}
    with np.load(workdir / "attacks" / "mine.npz") as arrays:
        assert (arrays["images"] == 0.25).all()
    report = json.loads(run(capsys, "report", str(workdir), "--json"))
    assert [row["name"] for row in report["attacks"]] == ["mine"]
    assert "a grey picture" in (workdir / "report.html").read_text()


@pytest.mark.parametrize("shadows", [False, True])
def test_it_is_in_an_audit(added, digits, shadows):
    """Also where it is trained on shadow models, and sees all weights."""
    registry.register(dataclasses.replace(ROW, shadows=shadows))

    def train(images, labels):
        return images.reshape(len(images), -1).mean(axis=0)

    skip = ("inversion", "noise")
    config = {"fixed": 60, "targets": 2, "minutes": 1.0, "skip": skip}
    audit = informed.audit(train, digits, version="1", **config)
    rows = {row["name"]: row for row in audit.values["attacks"]}
    assert rows["grey"]["finished"] == 2
    assert rows["grey"]["exact"]["successes"] == 0
    assert rows["grey"]["applies"]
    assert ROW.about in audit.html()
