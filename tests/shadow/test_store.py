import dataclasses
import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest

import shadow
from informed.experiment.training_settings import TrainingConfig
from shadow import commits, files, merging
from shadow.commits import Commit
from shadow.training import gradient_descent


def contents(folder: Path) -> dict[str, object]:
    """Every file of a folder; of commits, all but the ids of who made them."""
    found: dict[str, object] = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if file.is_file() and name.startswith("commits/"):
            found[name] = {**dataclasses.asdict(Commit.read(file.read_bytes()).made)}
            del found[name]["id"]
        elif file.is_file() and not name.startswith("attempts/"):
            found[name] = file.read_bytes()
    return found


def reseal(file: Path, change) -> None:
    """Change a sealed file as one who means it would."""
    values = commits.unseal(file.read_bytes())
    change(values)
    file.write_bytes(commits.seal(values))


@pytest.fixture
def make(tmp_path, victim, split):
    def made(path=None, *, epochs=1, block_size=16, fixed=split.fixed):
        factory = shadow.Factory(
            algorithm=TrainingConfig(epochs=epochs).algorithm(victim),
            fixed=fixed,
            key=jax.random.key(0),
        )
        return shadow.Store.open(
            path or tmp_path / "store",
            factory,
            split.shadow,
            block_size=block_size,
            positions=split.positions,
        )

    return made


def fill(store, split, rng, blocks=None):
    weights = rng.normal(size=(40, store.manifest["num_params"])).astype(np.float32)
    for block in store.missing() if blocks is None else blocks:
        rows = slice(*store.block_range(block))
        store.write_block(
            block, weights[rows], split.shadow.images[rows], split.shadow.labels[rows]
        )
    return weights


def test_what_was_written_is_read(make, split, rng):
    store = make()
    weights = fill(store, split, rng)
    whole = shadow.Store(store.path).read()
    np.testing.assert_array_equal(whole.weights, weights)
    np.testing.assert_array_equal(whole.images, split.shadow.images)
    np.testing.assert_array_equal(whole.labels, split.shadow.labels)
    images, labels = store.targets()
    np.testing.assert_array_equal(images, split.shadow.images)
    np.testing.assert_array_equal(labels, split.shadow.labels)
    for name in ("fixed", "shadow", "test"):
        np.testing.assert_array_equal(
            store.array(f"{name}_indices"), getattr(split, f"{name}_indices")
        )
    np.testing.assert_array_equal(store.array("fixed_images"), split.fixed.images)
    assert [len(block) for block in store.blocks()] == [16, 16, 8]


def test_a_finished_store_is_the_same_bytes_in_any_order(make, split, rng, tmp_path):
    one, other = make(tmp_path / "one"), make(tmp_path / "other")
    weights = fill(one, split, np.random.default_rng(5))
    fill(other, split, np.random.default_rng(5), blocks=[2, 0, 1, 0])
    assert contents(one.path) == contents(other.path)
    assert np.isfinite(weights).all()


def test_a_store_without_blocks_may_be_made_otherwise(make, split, rng):
    make()
    store = make(epochs=2, block_size=8)
    assert store.manifest["block_size"] == 8
    fill(store, split, rng, blocks=[0])
    with pytest.raises(shadow.ConfigurationMismatchError) as error:
        make()
    message = str(error.value)
    assert " algorithm.epochs: 2 there, 1 asked for" in message
    assert "block_size: 8 there, 16 asked for" in message
    assert "optimiser" not in message


def test_a_worker_whose_store_was_replaced_commits_nothing(make, split, rng):
    """B replaces A's store before A's first commit; A's block must not count."""
    ours = make()
    theirs = make(epochs=2)
    with pytest.raises(shadow.ConfigurationMismatchError, match="was replaced"):
        fill(ours, split, rng, blocks=[0])
    assert theirs.missing() == [0, 1, 2]
    fill(theirs, split, rng)
    assert theirs.verify() == []


def test_other_versions_are_refused_by_name_until_accepted(make, split, rng):
    store = make()
    fill(store, split, rng, blocks=[0])
    reseal(
        store.path / "manifest.json",
        lambda values: values["versions"].update(jax="0.4.1"),
    )
    with pytest.raises(shadow.VersionMismatchError, match=r"jax: '0\.4\.1' there"):
        make()
    with shadow.accepting_other_versions():
        assert make().missing() == [1, 2]


def test_half_written_files_go_once_nobody_can_be_at_them(make, split, rng):
    store = make()
    live, dead = (store.path / f".{name}.partial" for name in ("live", "dead"))
    for file in (live, dead):
        file.write_bytes(b"half")
    os.utime(dead, (0, 0))
    (store.path / "attempts").mkdir(exist_ok=True)
    (store.path / "attempts" / ".nfs0001").touch()  # of a file system
    fill(store, split, rng)
    assert live.exists(), "the worker that commits last leaves others' files alone"
    make()
    assert live.exists()
    assert not dead.exists()


def test_a_late_creator_takes_nothing_from_a_live_worker(make, split, rng):
    """Two workers find no manifest; one has committed before the other writes."""
    store = make()
    fill(store, split, rng, blocks=[0])
    manifest = store.path / "manifest.json"
    there = manifest.read_bytes()
    manifest.unlink()  # as the slower one saw it
    make()
    manifest.write_bytes(there)
    assert shadow.Store(store.path).verify() == []


def test_stores_of_versions_that_are_accepted_are_joined(
    make, split, rng, tmp_path, monkeypatch
):
    """What is merged can be read; who made it is still said."""
    one = make(tmp_path / "one")
    fill(one, split, rng, blocks=[0])
    monkeypatch.setattr(gradient_descent, "REVISION", -1)
    other = make(tmp_path / "other")
    fill(other, split, rng, blocks=[1, 2])
    monkeypatch.undo()
    with pytest.raises(shadow.records.VersionMismatchError, match="training"):
        merging.merge(tmp_path / "whole", [one, other], progress=False)
    with shadow.records.accepting_other_versions():
        merging.merge(tmp_path / "whole", [one, other], progress=False)
    whole = shadow.Store(tmp_path / "whole")
    assert whole.missing() == whole.verify() == []
    np.testing.assert_array_equal(whole.read().images, split.shadow.images)
    made = [whole.committed(block).made.versions for block in range(3)]
    assert made == [each.record.versions for each in (one, other, other)]
    assert made[0] != made[1]


def test_an_unfinished_store_is_not_read_as_whole(make, split, rng):
    store = make()
    with pytest.raises(RuntimeError, match="0 of 3 blocks"):
        store.read()
    with pytest.raises(RuntimeError, match="0 of 3 blocks"):
        store.targets()
    fill(store, split, rng, blocks=[0, 2])
    assert store.missing() == [1]
    with pytest.raises(RuntimeError, match="2 of 3 blocks"):
        list(store.blocks())
    with pytest.raises(RuntimeError, match="2 of 3 blocks"):
        store.read_block(1)


def test_a_chunk_that_is_gone_or_short_is_found(make, split, rng):
    store = make()
    fill(store, split, rng)
    (store.path / "labels" / "c" / "0").unlink()
    (store.path / "labels" / "c" / "2").write_bytes(b"x")
    assert store.verify() == [0, 2]


def test_arrays_of_a_wrong_shape_are_refused(make, split, rng):
    store = make()
    with pytest.raises(ValueError, match=r"weights of block 2 to be \(8, \d+\)"):
        store.write_block(
            2,
            np.zeros((16, store.manifest["num_params"]), np.float32),
            split.shadow.images[:16],
            split.shadow.labels[:16],
        )
    with pytest.raises(ValueError, match=r"blocks in \[0, 3\), got 99"):
        store.fill(blocks=[99])
    assert store.missing() == [0, 1, 2]


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="not a shadow store"):
        shadow.Store(tmp_path)


def test_the_manifest_tells_what_is_inside(make, victim):
    manifest = json.loads((make().path / "manifest.json").read_text())
    assert manifest["num_params"] == victim.num_params
    assert manifest["versions"]["jax"] == jax.__version__
    assert manifest["layout"][0]["name"] == "hidden_0/b"
    assert len(manifest["fingerprint"]) == 64


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    files.write_json(file, {"value": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(file, {"value": 2})
    assert json.loads(file.read_text()) == {"value": 1}
    assert list(tmp_path.iterdir()) == [file]
