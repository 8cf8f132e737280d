"""The random search: independent of batches, resumable, and what it selects."""

import jax
import numpy as np
import pytest

from shadow.store import ConfigurationMismatchError
from uninformed import homogeneous
from uninformed.homogeneous import HomogeneousConfig
from uninformed.kkt import KktConfig, KktRun, experiment, scoring

CONFIG = KktConfig(candidates=4, steps=10)


@pytest.fixture(scope="module")
def network() -> homogeneous.DenseLayers:
    config = HomogeneousConfig(widths=(6,), first_scale=None)
    return homogeneous.init(config, 3, jax.random.key(0))


def test_an_interrupted_search_goes_on_with_the_same_trials(network, key, tmp_path):
    both, folder = {"key": key, "at_once": 2}, tmp_path / "search"
    whole = experiment.search(
        CONFIG, network, **both, trials=4, folder=tmp_path / "whole"
    )
    experiment.search(CONFIG, network, **both, trials=2, folder=folder)
    kept = {file: file.stat().st_mtime_ns for file in folder.glob("*.npz")}
    again = experiment.search(CONFIG, network, **both, trials=4, folder=folder)
    assert all(file.stat().st_mtime_ns == when for file, when in kept.items())
    assert len(list(folder.glob("*.npz"))) == 2
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_array_equal(one.points, other.points)
        assert one.loss == other.loss


def test_batches_of_another_size_are_gone_on_with(network, key, tmp_path):
    few = experiment.search(CONFIG, network, trials=2, key=key, folder=tmp_path)
    many = {"trials": 5, "at_once": 3, "folder": tmp_path}
    again = experiment.search(CONFIG, network, key=key, **many)
    assert len(again) == 5
    for one, other in zip(few, again, strict=False):
        np.testing.assert_array_equal(one.points, other.points)


def test_a_batch_that_was_cut_off_goes_on(network, key, tmp_path, cut_off):
    config = KktConfig(candidates=4, steps=100)
    whole = experiment.search(
        config, network, trials=2, key=key, at_once=2, folder=tmp_path / "whole"
    )
    calls = cut_off(20)
    both = {"trials": 2, "key": key, "at_once": 2, "folder": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        experiment.search(config, network, **both)
    other = both | {"key": jax.random.fold_in(key, 1)}
    with pytest.raises(ConfigurationMismatchError, match=r"key: .* there"):
        experiment.search(config, network, **other)
    again = experiment.search(config, network, **both)
    assert calls == list(range(2, 101, 2))
    # Nothing is left of the pieces.
    assert [file.name for file in tmp_path.glob("*.npz")] == ["runs_000000.npz"]
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_array_equal(one.points, other.points)


def test_another_search_is_not_continued(network, key, tmp_path):
    experiment.search(CONFIG, network, trials=1, key=key, folder=tmp_path)
    other = KktConfig(candidates=4, steps=11)
    refused = r"config\.steps: 10 there, 11 asked for"
    with pytest.raises(ConfigurationMismatchError, match=refused):
        experiment.search(other, network, trials=1, key=key, folder=tmp_path)


def trial(points, loss):
    points = np.asarray(points, float)
    return KktRun(
        points=points, multipliers=np.ones(len(points)), loss=loss, residual=0.1
    )


def test_runs_are_chosen_by_loss_and_stability():
    good = trial([[0, 0], [1, 1]], 0.1)
    same = trial([[0, 0.01], [1, 1]], 0.2)
    other = trial([[5, 5], [1, 1.01]], 0.3)
    diverged = trial([[9, 9], [8, 8]], float("nan"))
    trials = [diverged, other, good, same]
    assert experiment.by_loss(trials) == [good, same, other, diverged]
    assert scoring.stability(good, [good, same]) == 1
    assert scoring.stability(good, [good, other]) == 0.5
    lost = trial([[np.nan, np.nan]] * 2, float("nan"))
    lost.multipliers[:] = np.nan
    assert scoring.stability(good, [lost, same, good]) == 1
    with pytest.raises(ValueError, match="at least two"):
        scoring.stability(good, [good, lost])
