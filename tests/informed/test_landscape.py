"""The landscape: mixtures, quantities on planted ends, the command."""

import dataclasses
import json

import numpy as np
import pytest

from configs import landscape as config_file
from informed import cli, landscape
from informed.attacks import bilevel
from informed.landscape import SHARES, LandscapeConfig, Sets
from shadow import checks


def smoke() -> LandscapeConfig:
    return checks.build(LandscapeConfig, config_file.get_config("smoke").to_dict())


@pytest.mark.parametrize("size", config_file.SIZES)
def test_every_configuration_is_valid_and_names_every_field(size):
    values = config_file.get_config(size).to_dict()
    config = checks.build(LandscapeConfig, values)
    made = dataclasses.asdict(config)
    assert json.dumps(made, sort_keys=True) == json.dumps(values, sort_keys=True)


@pytest.fixture(scope="module")
def sets() -> Sets:
    return landscape.load(smoke())


def test_the_sets_are_disjoint(sets):
    kinds = (sets.truth, sets.partition, sets.noise, sets.held_out)
    seen = [{image.tobytes() for image in images} for images in kinds]
    assert len(set.union(*seen)) == sum(len(images) for images in kinds)


def test_corners_of_the_mixtures(sets):
    grid = landscape.mixtures(sets).reshape(len(SHARES), len(SHARES), *sets.truth.shape)
    np.testing.assert_allclose(grid[-1, -1], sets.truth)
    np.testing.assert_allclose(grid[0, -1], sets.partition)
    for l1 in range(len(SHARES)):
        np.testing.assert_allclose(grid[l1, 0], sets.noise)
    np.testing.assert_allclose(
        grid[2, -1], (sets.truth + sets.partition) / 2, rtol=1e-6
    )


def test_quantities_of_planted_ends(sets):
    """The training images themselves, and one image many times."""
    repeated = np.repeat(sets.partition[:1], len(sets.truth), axis=0)
    points = np.stack([sets.truth, repeated]).reshape(2, len(sets.truth), -1)
    theta = np.ones((2, 3), np.float32)
    ends = bilevel.Ended(points, theta, np.array([0.0, 3.0]), np.zeros(2))
    found = landscape._measured(sets, ends, np.ones(3))
    np.testing.assert_allclose(found["truth"][0], 0, atol=1e-6)
    np.testing.assert_allclose(found["partition"][1], 0, atol=1e-6)
    assert found["partition"][0] > 0.1
    np.testing.assert_allclose(found["spread"][1], 0, atol=1e-6)
    assert found["spread"][0] > 0.1
    np.testing.assert_allclose(found["mse"][0], 0, atol=1e-12)
    np.testing.assert_allclose(found["distance_relative"], [0, 1])
    np.testing.assert_allclose(found["distance_mean"], [0, 1])


def test_who_can_tell_has_auc_one():
    count = len(SHARES) ** 2
    recovered = np.arange(count) >= 20
    measured = {
        "mse": np.where(recovered, 1e-4, 0.1)[:, None],
        "distance": np.where(recovered, 0.1, 0.2),
    }
    assert landscape._auc(measured) == 1
    assert landscape._auc(measured | {"distance": np.ones(count)}) == 0.5
    assert landscape._auc(measured | {"mse": np.ones((count, 1))}) is None


def test_command_line(tmp_path, capsys):
    cli.main(
        [
            "landscape",
            "--config=configs/landscape.py:smoke",
            f"--workdir={tmp_path}",
            "--json",
        ]
    )
    results = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(results["bilevel"]["truth"]) == 25
    assert results["bilevel"]["truth"][-1] == 0  # begun at the truth: nothing moves
    assert set(results["conclusions"]["bilevel"]) == {"a", "b", "c", "d", "g"}
    for name in ("maps", "curves", "images"):
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
