"""The uninformed adversary's command: whole, resumable, refusing what doesn't fit."""

import dataclasses
import functools
import json

import numpy as np
import pytest

from configs import kkt as config_file
from informed import cli
from shadow import bars, checks, safetensors
from shadow.store import ConfigurationMismatchError
from tests.uninformed.kkt.small_experiment import small
from uninformed.kkt import experiment, scoring, training_images
from uninformed.kkt.experiment import Uninformed


@pytest.mark.slow
@pytest.mark.parametrize("which", ["digits", "digits_multiclass", "digits_mse"])
def test_a_run_is_whole_and_the_same_when_it_goes_on(which, tmp_path):
    config = small(which)
    first = scoring.run(config, tmp_path)
    assert first["targets"] == 20
    assert len(first["runs_recovered"]) == config.search.trials
    assert first["oracle_recovered"] == max(first["runs_recovered"])
    for name in ("reconstructions.png", "outputs.png"):
        assert (tmp_path / name).stat().st_size > 1000
    before = (tmp_path / "network.npz").stat().st_mtime_ns
    again = scoring.run(config, tmp_path)
    assert (tmp_path / "network.npz").stat().st_mtime_ns == before
    for name in ("train_s", "attack_s"):
        # Nothing was left to do: the time of the first call is still counted.
        assert first[name] <= again.pop(name) < first.pop(name) + 2
    assert first == again


@pytest.mark.parametrize("name", config_file.NAMES)
@pytest.mark.parametrize("kind", config_file.KINDS)
def test_every_configuration_is_valid_and_names_every_field(name, kind):
    values = config_file.get_config(f"{name}_{kind}").to_dict()
    built = checks.build(Uninformed, values)
    made = dataclasses.asdict(built)
    assert json.dumps(made, sort_keys=True) == json.dumps(values, sort_keys=True)
    assert (built.attack.coefficients == "signed") == (kind == "mse")


def test_another_victim_is_not_attacked_silently(tmp_path):
    config = small()
    known = training_images.load(config.data)
    experiment.victim(config, known, tmp_path / "network.npz")
    with pytest.raises(ConfigurationMismatchError, match=r"seed: 0 there, 1 asked for"):
        scoring.run(dataclasses.replace(config, seed=1), tmp_path)


def test_other_images_under_the_same_name_are_another_victim(tmp_path, digits):
    """The content of the data is compared, not only its name."""
    file, config = tmp_path / "mine.npz", small()
    config = dataclasses.replace(
        config, data=dataclasses.replace(config.data, name=str(file))
    )
    np.savez(file, images=digits.images, labels=digits.labels)
    network = tmp_path / "run" / "network.npz"
    experiment.victim(config, training_images.load(config.data), network)
    np.savez(file, images=digits.images[::-1], labels=digits.labels[::-1])
    with pytest.raises(ConfigurationMismatchError, match="content: '"):
        scoring.run(config, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("quiet", [False, True])
def test_command_line(quiet, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bars, "bar", functools.partial(bars.bar, every=0.0))
    cli.main(
        [
            "kkt",
            "--config=configs/kkt.py:digits",
            "--config.attack.steps=5",
            "--config.training.fitting_steps=20",
            "--config.training.route_steps=20",
            f"--workdir={tmp_path}",
            "--json",
            *(["--quiet"] if quiet else []),
        ]
    )
    printed = capsys.readouterr()
    assert ("/20 " in printed.err) != quiet
    results = json.loads(printed.out.splitlines()[-1])
    assert results == json.loads((tmp_path / "results.json").read_text())


@pytest.fixture
def theirs(tmp_path, monkeypatch, digits):
    """A victim of ours as PyTorch would have kept it, and its images: both files."""
    config = small()
    images = training_images.load(config.data)
    network = experiment.victim(config, images, tmp_path / "network.npz")
    layers = {f"{2 * i}.weight": np.asarray(of.w.T) for i, of in enumerate(network)}
    layers["0.bias"] = np.asarray(network[0].b)
    safetensors.write(tmp_path / "victim.safetensors", layers)
    arrays = {"images": digits.images, "labels": digits.labels % 2}
    np.savez(tmp_path / "mine.npz", **arrays, mean=images.mean)
    monkeypatch.chdir(tmp_path)
    return config, images, network


def test_weights_of_another_program_have_a_margin(theirs, tmp_path):
    config, images, network = theirs
    file = tmp_path / "victim.safetensors"
    found = experiment.foreign(config.attack, images, file)
    for one, other in zip(found, network, strict=True):
        np.testing.assert_array_equal(one.w, other.w)
    for labels, wrong in ((1 - images.labels, 20), (images.labels + 1, 20)):
        turned = dataclasses.replace(images, labels=labels)
        with pytest.raises(ValueError, match=rf"classifies {wrong} of 20 training"):
            experiment.foreign(config.attack, turned, file)


@pytest.mark.parametrize("option", ["--weights", "--data"])
def test_weights_and_data_come_together(option, tmp_path, capsys):
    (tmp_path / "a.npz").touch()
    with pytest.raises(SystemExit):
        cli.main(["kkt", f"{option}={tmp_path}/a.npz", f"--workdir={tmp_path}"])
    assert "--weights and --data together" in capsys.readouterr().err


def test_settings_of_a_training_that_is_over_are_refused(theirs, tmp_path, capsys):
    arguments = ["--weights=victim.safetensors", "--data=mine.npz", "--workdir=runs"]
    with pytest.raises(SystemExit):
        cli.main(
            ["kkt", *arguments, "--config=kkt:digits", "--config.victim.outputs=7"]
        )
    assert "leave out --config.victim" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["kkt", *arguments])
    assert "Expected --config.data.points=N" in capsys.readouterr().err


@pytest.mark.slow
def test_weights_of_another_program_are_attacked_as_ours(theirs, tmp_path, capsys):
    ours = scoring.run(theirs[0], tmp_path)
    arguments = ["--weights=victim.safetensors", "--data=mine.npz", "--workdir=runs"]
    points, steps = theirs[0].data.points, "--config.attack.steps=20"
    arguments += [f"--config.data.points={points}", steps]
    cli.main(["kkt", *arguments, "--config=kkt:digits"])
    lines = capsys.readouterr().out.splitlines()
    found = json.loads((tmp_path / "runs" / "results.json").read_text())
    assert lines[0] == found["verdict"] == ours["verdict"]
    for name in found.keys() - {"train_s", "attack_s"}:
        assert found[name] == ours[name]
    for name in found.keys() - {"verdict"}:
        assert any(line.startswith(name.replace("held_out_", "")) for line in lines)
