"""The uninformed adversary's command: whole, resumable, refusing what doesn't fit."""

import dataclasses
import json

import numpy as np
import pytest

from configs import kkt as config_file
from informed import cli
from shadow import checks
from shadow.store import ConfigurationMismatchError
from uninformed.kkt import experiment as uninformed
from uninformed.kkt.experiment import PointsConfig, Uninformed


def small(which="digits"):
    values = config_file.get_config(which).to_dict()
    values["training"] |= {"fitting_steps": 300, "route_steps": 100}
    values["attack"] |= {"steps": 20}
    values["victim"]["widths"] = (16,)
    return checks.build(Uninformed, values)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["digits", "digits_multiclass", "digits_mse"])
def test_a_run_is_whole_and_the_same_when_it_goes_on(which, tmp_path):
    experiment = small(which)
    first = uninformed.run(experiment, tmp_path)
    assert first["targets"] == 20
    assert len(first["runs_recovered"]) == experiment.search.trials
    assert first["oracle_recovered"] == max(first["runs_recovered"])
    for name in ("reconstructions.png", "outputs.png"):
        assert (tmp_path / name).stat().st_size > 1000
    before = (tmp_path / "network.npz").stat().st_mtime_ns
    again = uninformed.run(experiment, tmp_path)
    assert (tmp_path / "network.npz").stat().st_mtime_ns == before
    for name in ("train_s", "attack_s"):
        # Nothing was left to do: the time of the first call is still counted.
        assert first[name] <= again.pop(name) < first.pop(name) + 2
    assert first == again


@pytest.mark.parametrize("name", config_file.NAMES)
@pytest.mark.parametrize("kind", config_file.KINDS)
def test_every_configuration_is_valid_and_names_every_field(name, kind):
    values = config_file.get_config(f"{name}_{kind}").to_dict()
    experiment = checks.build(Uninformed, values)
    made = dataclasses.asdict(experiment)
    assert json.dumps(made, sort_keys=True) == json.dumps(values, sort_keys=True)
    assert (experiment.attack.coefficients == "signed") == (kind == "mse")


def test_another_victim_is_not_attacked_silently(tmp_path):
    experiment = small()
    images = uninformed.load(experiment.data)
    uninformed.victim(experiment, images, tmp_path / "network.npz")
    with pytest.raises(ConfigurationMismatchError, match=r"seed: 0 there, 1 asked for"):
        uninformed.run(dataclasses.replace(experiment, seed=1), tmp_path)


def test_other_images_under_the_same_name_are_another_victim(tmp_path, digits):
    """The content of the data is compared, not only its name."""
    file, experiment = tmp_path / "mine.npz", small()
    experiment = dataclasses.replace(
        experiment, data=dataclasses.replace(experiment.data, name=str(file))
    )
    np.savez(file, images=digits.images, labels=digits.labels)
    network = tmp_path / "run" / "network.npz"
    uninformed.victim(experiment, uninformed.load(experiment.data), network)
    np.savez(file, images=digits.images[::-1], labels=digits.labels[::-1])
    with pytest.raises(ConfigurationMismatchError, match="content: '"):
        uninformed.run(experiment, tmp_path / "run")


def test_a_version_of_a_data_set_is_the_same_task(monkeypatch, digits):
    """CIFAR-10 is vehicles against animals by any of its names."""
    monkeypatch.setattr(uninformed.data, "load", lambda name, data_dir: digits)
    plain, versioned = (
        uninformed.load(PointsConfig(name=name))
        for name in ("cifar10", "cifar10:3.0.2")
    )
    np.testing.assert_array_equal(plain.labels, versioned.labels)
    np.testing.assert_array_equal(plain.images, versioned.images)
    assert plain.fingerprint() == versioned.fingerprint()


def test_who_does_not_know_the_mean_does_not_get_it_when_counts_are_made(tmp_path):
    """Candidates as they are, against candidates with the true mean added."""
    told = small()
    untold = dataclasses.replace(
        told, data=dataclasses.replace(told.data, mean_known=False)
    )
    images = uninformed.load(told.data)
    points = (images.images - images.mean).reshape(len(images.images), -1)
    exact = uninformed._match(images, points, images.mean)
    assert exact.recovered.all(), "with the mean the truth is the truth"
    without = uninformed._match(images, points, None)
    assert without.ssim.mean() < exact.ssim.mean()
    results = uninformed.run(untold, tmp_path)
    trials = uninformed.kkt_search.search(
        untold.attack,
        uninformed.victim(untold, images, tmp_path / "network.npz"),
        trials=untold.search.trials,
        at_once=untold.search.at_once,
        key=uninformed._key(untold, 2),
        ranges=uninformed.kkt_search.Ranges.none(),
        mean=None,
        folder=tmp_path / "search",
    )
    best = uninformed.kkt_search.by_loss(trials)[0]
    counted = uninformed._match(images, best.found.points, None)
    assert results["mean_ssim"] == round(counted.summary()["mean_ssim"], 3)


def test_training_and_held_out_images_are_disjoint():
    images = uninformed.load(PointsConfig(name="digits", points=20, held_out=500))
    seen = {image.tobytes() for image in images.images}
    assert not seen & {image.tobytes() for image in images.held_out}
    np.testing.assert_array_equal(np.bincount(images.labels), [10, 10])
    np.testing.assert_allclose(images.points.mean(axis=0), 0, atol=1e-6)


def test_an_offset_passes_over_the_first_of_each_class():
    both = uninformed.load(PointsConfig(name="digits", points=30))
    later = uninformed.load(PointsConfig(name="digits", points=20, offset=5))
    for label in (0, 1):
        np.testing.assert_array_equal(
            both.images[both.labels == label][5:], later.images[later.labels == label]
        )


def test_too_many_points_are_refused():
    for change in ({"points": 1790}, {"offset": 1790}):
        field, value = next(iter(change.items()))
        with pytest.raises(ValueError, match=rf"{field} (is )?{value}"):
            uninformed.load(PointsConfig(name="digits", classes="all", **change))


@pytest.mark.slow
def test_command_line(tmp_path, capsys):
    cli.main(
        [
            "kkt",
            "--config=configs/kkt.py:digits",
            "--config.attack.steps=5",
            "--config.training.fitting_steps=20",
            "--config.training.route_steps=20",
            f"--workdir={tmp_path}",
            "--json",
        ]
    )
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed == json.loads((tmp_path / "results.json").read_text())
