"""One flipped bit in every kind of file; stores of another making; a full disk."""

import json
import os
import resource
import subprocess

import numpy as np
import pytest

import shadow
from shadow import commits, places
from tests.faults import stores

KINDS = {
    "manifest": "manifest.json",
    "commit": "commits/000001.json",
    "weights": "weights/c/1/0",
    "images": "images/c/1/0/0/0",
    "labels": "labels/c/1",
    "fixed images": "fixed_images/c/0/0/0/0",
    "fixed labels": "fixed_labels/c/0",
    "indices": "shadow_indices/c/0",
    "initialisation": "initialisation/c/0",
    "array metadata": "weights/zarr.json",
    "group metadata": "zarr.json",
}


@pytest.fixture
def store(tmp_path, split, victim):
    made = stores.create(tmp_path / "store", split, victim)
    for block in made.missing():
        stores.write(made, split, block)
    return made


def everything(store):
    """Every content of a store, but who made what."""
    names = store.place.names("")
    return {name: store.place.get(name) for name in names if "commits" not in name}


def flip(store, name, bit):
    content = bytearray(store.place.get(name))
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    store.place.put(name, bytes(content))


def test_every_kind_of_file_is_tried(store):
    kinds = {name.split("/")[0] for name in store.place.names("")}
    of_tried = {name.split("/")[0] for name in KINDS.values()}
    assert kinds - of_tried == {"fixed_indices", "test_indices"}, "as shadow_indices"


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found_named_and_mended(
    kind, store, split, victim, tmp_path, rng
):
    name, whole, before = KINDS[kind], store.read(), everything(store)
    size = 8 * len(store.place.get(name))
    for bit in rng.choice(size, 12, replace=False).tolist():
        good = store.place.get(name)
        flip(store, name, int(bit))
        if kind in ("commit", "weights", "images", "labels"):
            with pytest.raises(shadow.CorruptBlockError, match=r"Block 1 of .*store"):
                shadow.Store(store.path).read()
            if kind in ("images", "labels"):
                with pytest.raises(shadow.CorruptBlockError, match=f"{kind} do not"):
                    store.targets()
            elif kind == "weights":  # which aren't read for the targets
                np.testing.assert_array_equal(store.targets()[0], whole.images)
            assert store.verify() == [1]
            store.drop_block(1)
            stores.write(store, split, 1)
        elif kind.endswith("metadata"):
            assert store.damaged_metadata() == [name]
            np.testing.assert_array_equal(store.read().weights, whole.weights)
            assert store.verify() == []  # which puts it back
        else:
            with pytest.raises(
                shadow.CorruptBlockError, match=r"(store|manifest).*Delete its manifest"
            ):
                shadow.Store(store.path).verify()
            # What the message says to do:
            store.place.delete("manifest.json")
            assert stores.create(store.path, split, victim).missing() == []
        if kind != "commit":
            assert store.place.get(name) == good
    assert shadow.Store(store.path).verify() == []
    assert everything(store) == before


def test_a_flipped_bit_in_an_announcement_is_not_believed(store, split):
    store.drop_block(1)

    def die(act, name):
        if act == "put_if_absent" and name.startswith("labels/"):
            raise KeyboardInterrupt

    place, store.place = store.place, stores.Watched(store.place, after=die)
    with pytest.raises(KeyboardInterrupt):
        stores.write(store, split, 1, worker=1)
    store.place = place
    (name,) = place.names("attempts")
    flip(store, name, 1000)
    stores.write(store, split, 1, worker=2)
    assert stores.winner(store, split, 1) == 2


def test_a_foreign_manifest_does_not_own_the_blocks(store, split, victim, tmp_path):
    other = stores.create(tmp_path / "other", split, victim, epochs=2)
    store.place.put("manifest.json", other.place.get("manifest.json"))
    found = shadow.Store(store.path)
    with pytest.raises(shadow.CorruptBlockError, match="committed into another store"):
        found.read()
    assert found.verify() == [0, 1, 2]
    with pytest.raises(shadow.ConfigurationMismatchError, match="was replaced"):
        stores.write(store, split, 1)


@pytest.mark.parametrize("number", [4, 6])
def test_a_store_of_another_format_is_refused_by_name(store, number):
    values = commits.unseal(store.place.get("manifest.json"))
    values["format"] = number
    store.place.put("manifest.json", commits.seal(values))
    with pytest.raises(ValueError, match=f"format 5 in .*store, found {number}"):
        shadow.Store(store.path)


def test_a_manifest_without_a_seal_is_refused(store):
    values = commits.unseal(store.place.get("manifest.json"))
    store.place.put("manifest.json", json.dumps(values).encode())
    with pytest.raises(shadow.CorruptBlockError, match="or another version of this"):
        shadow.Store(store.path)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB, where this user may make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_line_and_costs_the_block_in_work(small_disk, split, victim):
    filler = small_disk / "filler"
    store = stores.create(small_disk / "store", split, victim, block_size=4)
    stores.write(store, split, 0)
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize
    filler.write_bytes(bytes(free - 8192))
    with pytest.raises(OSError, match=r"could not be written to .*No space left") as e:
        stores.write(store, split, 1)
    assert "Make room; the same command goes on" in str(e.value)
    assert store.missing() == list(range(1, 10))
    assert store.verify() == []
    assert not list(small_disk.rglob("*.partial"))
    filler.unlink()
    stores.write(store, split, 1)
    assert stores.winner(store, split, 1) == 0


def test_a_quota_is_one_line_and_costs_the_block_in_work(store, split):
    """A limit on the size of files, which any user may set."""
    store.drop_block(1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="weights/c/1/0 could not be written") as e:
            stores.write(store, split, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(e.value)
    assert "File too large" in str(e.value)
    assert store.missing() == [1]
    stores.write(store, split, 1, worker=1)
    assert stores.winner(store, split, 1) == 1
    assert isinstance(store.place, places.Folder)
    assert not list(store.path.rglob("*.partial"))
