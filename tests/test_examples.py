"""The recipes of docs/extending.md, run as they are."""

import json
import re
import runpy
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

import dp
import informed
import shadow
from dp import rero
from informed import cli
from informed.attacks import registry
from informed.attacks.attack_row import Material
from informed.experiment.training_settings import TrainingConfig
from shadow.launchers import launch, table
from shadow.victims import architectures

ROOT = Path(__file__).parent.parent
AUDITS = sorted((ROOT / "examples").glob("audit_*.py"))
EXAMPLES = sorted(set((ROOT / "examples").glob("*.py")) - set(AUDITS))


def load(name):
    return runpy.run_path(str(ROOT / "examples" / name))


@pytest.mark.parametrize(
    ("page", "files", "count"), [("extending", EXAMPLES, 7), ("audit", AUDITS, 5)]
)
def test_examples_are_short_and_named_where_they_are_explained(page, files, count):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert len(files) == count
    for file in files:
        source = file.read_text()
        assert len(source.splitlines()) <= 60
        assert f"examples/{file.name}" in text
        if page == "audit":
            assert f"informed audit examples/{file.name}:train" in source


def test_a_new_attack_is_a_file_and_a_row(split, victim, tmp_path):
    """Listed, built from a configuration, and better than the mean image."""
    load("new_attack.py")
    row = registry.find("nearest_model")
    experiment = informed.Experiment.from_mapping(
        {"attacks": {"mine": {"type": "nearest_model", "models": 30}}}
    )
    assert experiment.attacks["mine"].settings.models == 30
    with pytest.raises(ValueError, match="has no field 'modles'"):
        informed.Experiment.from_mapping(
            {"attacks": {"mine": {"type": "nearest_model", "modles": 30}}}
        )
    factory = shadow.Factory(
        algorithm=TrainingConfig(epochs=20).algorithm(victim),
        fixed=split.fixed,
        key=jax.random.key(0),
        width=8,
    )
    weights = factory.train(split.shadow)
    store = shadow.Store.open(tmp_path, factory, split.shadow)
    store.write_block(0, weights, split.shadow.images, split.shadow.labels)
    material = Material(shadows=store, workdir=tmp_path, key=jax.random.key(0))
    attack = row.attack(row.settings(), material)
    found = attack(shadow.publish(weights[3:9]), informed.Knowledge(), key=None)
    np.testing.assert_array_equal(found.images, split.shadow.images[3:9])


@pytest.mark.slow
def test_a_new_attack_through_the_whole_line():
    runpy.run_path(str(ROOT / "examples" / "new_attack.py"), run_name="__main__")


def test_a_new_bound_holds_when_it_is_played(rng):
    example = load("new_bound.py")
    found = example["main"]()
    assert set(found["by"]) == {"lottery"}
    assert found["gamma"][2] == pytest.approx(0.1)
    chance, kappa, count = 0.3, 0.2, 200_000
    records = rng.integers(0, 5, count)  # uniform on five: kappa is 1/5
    won = rng.random(count) < chance
    success = np.mean(np.where(won, records, 0) == records)
    bound = dp.rero_bound(example["Lottery"](chance=chance), kappa=kappa).gamma
    assert success == pytest.approx(float(bound), abs=5e-3)


def test_a_new_bound_is_reached_from_the_command_line(capsys):
    file = str(ROOT / "examples" / "new_bound.py")
    noise = ["--noise-multiplier=2", "--steps=3", "--kappa=0.01", "--json"]
    try:
        cli.main(["bound", "--bounds", file, *noise])
        found = json.loads(capsys.readouterr().out)["log_gammas"]
        mu = 2 * 3**0.5 / 2
        expected = 0.01 + 2 * stats.norm.cdf(mu / 2) - 1
        assert found["total variation"] == pytest.approx(np.log(expected))
        assert found["Gaussian"] <= found["total variation"]
        with pytest.raises(ValueError, match="called 'total variation' already"):
            dp.register_bound("total variation", lambda mechanism, log_kappa: None)
    finally:
        rero._REGISTERED.clear()


def test_a_new_victim_runs_by_name_and_its_version_is_kept(
    tmp_path, monkeypatch, capsys
):
    file = ROOT / "examples" / "new_victim.py"
    monkeypatch.setattr(architectures, "_REGISTERED", {})
    with pytest.raises(ValueError, match=r"architecture to be one of .*'normalised'"):
        shadow.VictimConfig(architecture="normalised")
    # In batches, for which a report plays no noise game: that takes a minute.
    batches = "--config.training.batch_size=51"
    cli.main(["run", f"--config={file}", batches, f"--workdir={tmp_path}", "--quiet"])
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["attacks"]["reconn"]["mse"] < results["mean_image_mse"]
    versions = json.loads((tmp_path / "shadow" / "manifest.json").read_text())
    assert versions["versions"]["revision of normalised"] == "1"
    with pytest.raises(ValueError, match="called 'normalised' already"):
        shadow.register_victim("normalised", shadow.from_flax)
    # Whoever reads the folder elsewhere registers the victim again.
    reads = ["report", str(tmp_path)], ["shadow", "verify", str(tmp_path)]
    for command in reads:
        monkeypatch.setattr(architectures, "_REGISTERED", {})
        with pytest.raises(SystemExit):
            cli.main(command)
        assert "'normalised'" in capsys.readouterr().err
        architectures._REGISTERED.clear()
        cli.main([*command, f"--registers={file}"])
        assert capsys.readouterr().out
    assert not (tmp_path / "report-extra.json").exists()  # no game was played
    architectures._REGISTERED.clear()
    cli.main(["report", str(tmp_path), f"--registers={file}", "--json"])
    assert json.loads(capsys.readouterr().out)["kind"] == "run"
    build, _ = architectures._REGISTERED["normalised"]
    shadow.register_victim("normalised", build, version="2")
    found = architectures.revisions({"victim": {"architecture": "normalised"}})
    assert found == {"normalised": "2"}


def test_the_version_of_a_victim_is_its_source_where_none_is_named(monkeypatch):
    monkeypatch.setattr(architectures, "_REGISTERED", {})

    def build(config, *, image_shape, num_classes):
        return None

    shadow.register_victim("mine", build)
    (found,) = architectures.revisions({"victim": {"architecture": "mine"}}).values()
    assert len(found) == 64


def test_a_new_launcher_tries_again(tmp_path, monkeypatch, capsys):
    failing, run = iter((True, False)), launch.local

    def now_and_then(prepare, **given):
        if next(failing):
            raise OSError("full")
        run(prepare, **given)

    monkeypatch.setattr(table, "_ROWS", dict(table._ROWS))
    monkeypatch.setattr(launch, "local", now_and_then)
    command = [
        "shadow",
        f"--config={ROOT / 'examples' / 'new_launcher.py'}",
        f"--workdir={tmp_path}",
        "--config.training.epochs=1",
        "--quiet",
        "--debug",
    ]
    with pytest.raises(
        ValueError, match=r"--launcher to be one of .*Did you mean 'pat"
    ):
        cli.main([*command, "--launcher=pateint"])
    cli.main([*command, "--launcher=patient"])
    assert "shadow: done" in capsys.readouterr().out
    assert len(shadow.Store(tmp_path / "shadow").read().weights) == 100
    assert not list(failing)


@pytest.mark.slow
def test_a_new_victim_is_inverted():
    found = load("new_victim.py")["main"](epochs=10)
    assert found["certified"]
    assert found["mse"] < 1e-9


@pytest.mark.slow
def test_a_new_data_set_runs_through_the_line():
    found = load("new_data_set.py")["main"]()
    assert found["inversion"] < 1e-6
    assert found["kernel"] < found["mean_image_mse"]


def test_a_new_data_set_has_a_name():
    example = load("new_data_set.py")
    found = shadow.load("wine")
    assert found.image_shape == (1, 13, 1)
    with pytest.raises(ValueError, match="called 'wine' already"):
        shadow.register_source("wine", lambda: found)
    assert example["wine"]().num_classes == 3


def test_own_training_in_jax():
    found = load("own_training_jax.py")["main"]()
    assert found["certified"]
    assert found["mse"] == 0


@pytest.mark.slow
def test_own_training_in_sklearn():
    found = load("own_training_sklearn.py")["main"]()
    assert found["certified"]
    assert found["mse"] == 0
    assert found["trainings"] < 3000


def test_the_document_shows_what_is_in_the_files():
    """Every line of Python in the recipes is a line of the example it belongs to."""
    text = (ROOT / "docs" / "extending.md").read_text()
    code = "".join(file.read_text() for file in EXAMPLES)
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 6
    for block in blocks:
        for line in block.splitlines():
            assert not line.strip() or line.strip() in code, line
