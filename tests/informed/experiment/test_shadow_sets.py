"""`informed shadow info|verify|merge`, and a shadow data set in a bucket, attacked."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import xarray
import zarr
from obstore.store import S3Store
from zarr.storage import ObjectStore

from informed import cli
from informed.experiment import shadow_sets
from shadow import Store, commits, devices
from shadow.commits import Commit
from tests.informed.command_line import SMALL, refused, run

ARGUMENTS = [*SMALL, "--config.shadow.count=120", "--config.shadow.block_size=32"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run's two stores, in a folder."""
    folder = tmp_path_factory.mktemp("made")
    cli.main(["shadow", *ARGUMENTS, f"--workdir={folder}", "--quiet"])
    return folder


@pytest.fixture
def copy(made, tmp_path):
    """A copy, to be damaged."""
    return shutil.copytree(made, tmp_path / "copy")


def rewrite(store, block, change):
    """Commit other weights, with checksums that match."""
    models = store.read_block(block)
    store.drop_block(block)
    store.write_block(block, change(models.weights), models.images, models.labels)


@pytest.mark.slow
def test_a_store_in_a_bucket_is_made_and_attacked(made, bucket, tmp_path, capsys):
    address, workdir = f"{bucket}/digits", tmp_path / "run"
    arguments = [*ARGUMENTS, f"--workdir={workdir}", f"--shadow={address}", "--json"]
    results = json.loads(run(capsys, "run", *arguments, "--quiet"))
    assert results["shadow_models"] == 120
    assert results["attacks"]["inversion"]["certified"] == 2
    assert not (workdir / "shadow").exists(), "all of it is in the bucket"
    for role in ("shadow", "released"):
        ours, theirs = Store(f"{address}/{role}"), Store(made / role)
        np.testing.assert_array_equal(ours.read().weights, theirs.read().weights)
    # The same models in a folder, attacked: the same guesses.
    local = [*ARGUMENTS, f"--workdir={tmp_path / 'local'}", f"--shadow={made}"]
    run(capsys, "run", *local, "--quiet")
    for file in ("attacks/reconn.npz", "attacks/inversion.npz"):
        with (
            np.load(workdir / file) as ours,
            np.load(tmp_path / "local" / file) as theirs,
        ):
            np.testing.assert_array_equal(ours["images"], theirs["images"])
    again = json.loads(run(capsys, "run", *arguments, "--quiet"))
    assert again == results
    output = run(capsys, "shadow", "verify", address, "--sample=3")
    assert output.count("all blocks match their checksums") == 2
    again = "3 models trained again, 3 of them to be equal in every bit"
    assert output.count(again) == 2


def test_a_bucket_is_a_zarr_group_to_other_readers(made, bucket, capsys):
    run(capsys, "shadow", "merge", f"{bucket}/mine", made, "--quiet")
    name = bucket.removeprefix("s3://")
    reader = ObjectStore(S3Store(name, prefix="mine/shadow"), read_only=True)
    group = zarr.open_group(reader, mode="r")
    whole = Store(made / "shadow").read()
    np.testing.assert_array_equal(group["weights"][...], whole.weights)
    np.testing.assert_array_equal(group["labels"][...], whole.labels)


def test_xarray_opens_it_with_named_dimensions(made):
    """Warnings are errors here; the layout of theta is in the attributes."""
    opened = xarray.open_zarr(made / "shadow")
    hidden = next(a for a in opened.attrs["layout"] if a["name"].endswith("_0/w"))
    columns = slice(hidden["start"], hidden["stop"])
    first = opened["weights"][0, columns].values.reshape(hidden["shape"])
    assert first.shape[0] == 64
    assert opened["weights"].dims == ("models", "params")
    assert opened["images"].dims == ("models", "height", "width", "channels")
    assert opened.sizes["models"] == 120
    assert opened.sizes["fixed"] == 60
    whole = Store(made / "shadow").read()
    third = opened.isel(models=3)
    np.testing.assert_array_equal(third["weights"], whole.weights[3])
    np.testing.assert_array_equal(third["images"], whole.images[3])


def test_info_is_what_the_manifest_says(made, capsys):
    found = json.loads(run(capsys, "shadow", "info", made, "--json"))
    store = Store(made / "shadow")
    about = found["shadow"]
    assert about["models"] == 120
    assert about["blocks"] == about["blocks_committed"] == 4
    assert about["params"] == store.read().weights.shape[1]
    models = store.read()
    arrays = (models.weights, models.images, models.labels)
    assert about["bytes"] == sum(values.nbytes for values in arrays)
    assert about["configuration"]["training"]["epochs"] == 20
    assert found["released"]["models"] == 20
    text = run(capsys, "shadow", "info", made / "shadow")
    assert "120 models" in text
    assert "4 of 4 blocks of 32" in text


def test_info_reads_no_data(copy, capsys):
    shutil.rmtree(copy / "shadow" / "weights")
    assert "120 models" in run(capsys, "shadow", "info", copy)


def test_models_that_are_others_are_found_though_their_checksums_match(copy, capsys):
    store = Store(copy / "shadow")
    rewrite(store, 1, lambda weights: weights * np.float32(1 + 1e-6))
    message = refused(capsys, "shadow", "verify", copy / "shadow", "--sample=120")
    assert f"Models {list(range(32, 64))} of the shadow store" in message


def test_on_another_kind_of_device_models_may_differ_by_rounding(
    copy, capsys, monkeypatch
):
    store = Store(copy / "shadow")
    monkeypatch.setattr(devices, "kind", lambda: "tpu: v9 x 4")
    rewrite(store, 1, lambda weights: weights * np.float32(1 + 1e-6))
    monkeypatch.undo()
    assert store.committed(1).made.device == "tpu: v9 x 4"
    arguments = ["shadow", "verify", copy / "shadow", "--sample=120"]
    found = json.loads(run(capsys, *arguments, "--json"))
    again = found["trained_again"]["shadow"]
    assert len(again["models"]) == 120
    assert again["bits"] == 120 - 32
    assert again["differ"] == []
    assert 1e-8 < again["largest"] < shadow_sets.TOLERANCE
    rewrite(store, 1, lambda weights: np.roll(weights, 1, axis=0))
    commit = store.committed(1)
    other = dataclasses.replace(commit.made, device="tpu: v9 x 4")
    store.place.put(commit.name, Commit(made=other, by=commit.by).content)
    message = refused(capsys, *arguments)
    assert "Models [32, 33" in message, "of other targets: more than rounding"


def test_corrupt_blocks_of_a_single_store_are_taken_back(copy, capsys):
    chunk = copy / "shadow" / "labels" / "c" / "2"
    chunk.write_bytes(chunk.read_bytes()[::-1])
    output = run(capsys, "shadow", "verify", copy / "shadow", "--sample=0")
    assert "corrupt blocks [2] taken back" in output
    assert Store(copy / "shadow").missing() == [2]


def test_damaged_metadata_are_put_back(copy, capsys):
    file = copy / "shadow" / "weights" / "zarr.json"
    good = file.read_bytes()
    file.write_bytes(good.replace(b"float32", b"float64"))
    output = run(capsys, "shadow", "verify", "--sample=0", copy)
    assert "weights/zarr.json was damaged, and is put back" in output
    assert file.read_bytes() == good


def test_parts_are_merged_into_the_whole(made, tmp_path, capsys):
    parts = [shutil.copytree(made, tmp_path / name) for name in ("one", "other")]
    for part, dropped in zip(parts, ([0, 2], [1, 2]), strict=True):
        for block in dropped:
            Store(part / "shadow").drop_block(block)
    arguments = ["shadow", "merge", tmp_path / "whole", *parts, "--json"]
    found = json.loads(run(capsys, *arguments))
    assert found["shadow"] == {"copied": 3, "there": 0, "missing": 1}
    assert found["released"] == {"copied": 1, "there": 0, "missing": 0}
    arguments = ["shadow", "merge", tmp_path / "whole", made, "--json"]
    found = json.loads(run(capsys, *arguments))
    assert found["shadow"] == {"copied": 1, "there": 3, "missing": 0}
    whole, source = (Store(f / "shadow") for f in (tmp_path / "whole", made))
    np.testing.assert_array_equal(whole.read().weights, source.read().weights)
    for block in range(4):
        assert whole.committed(block).made == source.committed(block).made
    # It is a finished run's: nothing is trained again.
    run(capsys, "shadow", *ARGUMENTS, f"--workdir={tmp_path / 'whole'}", "--quiet")


def test_stores_of_other_configurations_are_not_merged(made, tmp_path, capsys):
    other = tmp_path / "other"
    changed = [*ARGUMENTS, "--config.training.epochs=2", f"--workdir={other}"]
    run(capsys, "shadow", *changed, "--quiet")
    message = refused(capsys, "shadow", "merge", tmp_path / "new", made, other)
    assert "training.epochs: 2 there, 20 asked for" in message
    assert "Only stores of one configuration" in message
    message = refused(capsys, "shadow", "merge", other / "shadow", made / "shadow")
    assert "training.epochs" in message


def test_a_damaged_source_is_not_merged(copy, tmp_path, capsys):
    store = Store(copy / "shadow")
    content = bytearray(store.place.get("commits/000003.json"))
    content[200] ^= 1
    store.place.put("commits/000003.json", bytes(content))
    with pytest.raises(commits.BrokenSealError):
        Commit.read(bytes(content))
    message = refused(capsys, "shadow", "merge", tmp_path / "new", copy / "shadow")
    assert "Block 3 of" in message
    assert Store(tmp_path / "new").missing() == [3]


def test_two_workers_make_what_one_command_does(made, tmp_path, capsys):
    for worker in ("1/2", "0/2"):
        arguments = [*ARGUMENTS, f"--workdir={tmp_path}", f"--worker={worker}"]
        assert run(capsys, "shadow", *arguments, "--quiet") == (
            f"shadow: done, in {tmp_path}\n"
        )
    for role in ("shadow", "released"):
        ours, theirs = Store(tmp_path / role), Store(made / role)
        np.testing.assert_array_equal(ours.read().weights, theirs.read().weights)


def test_a_plan_says_what_it_will_take_and_makes_nothing(made, capsys):
    found = json.loads(run(capsys, "shadow", "plan", *ARGUMENTS, "--json"))
    held = json.loads(run(capsys, "shadow", "info", made, "--json"))
    assert found["models"] == 120 + 20
    assert found["store_bytes"] == sum(store["bytes"] for store in held.values())
    assert found["seconds"] == pytest.approx(140 / found["models_per_s"])
    text = run(capsys, "shadow", "plan", *ARGUMENTS, "--devices=1000")
    assert "0 s on 1000 such devices" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--worker=2/2"], "index in [0, 2), got 2: workers are counted from 0"),
        (["--worker=one"], "a worker such as 3/16 (index/count), got 'one'"),
        (["--cpus=2"], "--cpus is of --launcher=ray"),
        (["--worker=0/2", "--launcher=ray"], "--worker or --launcher=ray, not both"),
        (["--launcher=ray", "--cpus=0"], "--cpus: expected a whole number >= 1"),
    ],
)
def test_a_launcher_that_makes_no_sense_is_refused(
    tmp_path, capsys, arguments, message
):
    said = refused(capsys, "shadow", *ARGUMENTS, f"--workdir={tmp_path}", *arguments)
    assert message in said
    assert not any(tmp_path.iterdir())
