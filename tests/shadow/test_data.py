import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shadow
from shadow import data, sources


def examples(count: int = 60, num_classes: int = 3, side: int = 2) -> data.Examples:
    rng = np.random.default_rng(count)
    return data.Examples(
        images=rng.random((count, side, side, 1), dtype=np.float32),
        labels=np.arange(count) % num_classes,
        num_classes=num_classes,
        name="made",
    )


@given(sizes=st.tuples(*[st.integers(1, 15)] * 3), seed=st.integers(0, 1000))
def test_parts_are_disjoint_and_of_the_sizes_asked_for(sizes, seed):
    pool = examples()
    fixed, shadows, test = sizes
    parts = data.split(
        pool, num_fixed=fixed, num_shadow=shadows, num_test=test, seed=seed
    )
    ids = [parts.fixed_indices, parts.shadow_indices, parts.test_indices]
    assert [len(i) for i in ids] == [fixed, shadows, test]
    assert len(np.unique(np.concatenate(ids))) == sum(sizes)
    np.testing.assert_array_equal(parts.fixed.images, pool.images[ids[0]])
    np.testing.assert_array_equal(parts.test.labels, pool.labels[ids[2]])


def test_a_longer_draw_of_shadows_begins_with_the_shorter_one():
    short, long = (
        data.split(examples(), num_fixed=7, num_shadow=k, num_test=5, seed=3)
        for k in (10, 30)
    )
    np.testing.assert_array_equal(short.fixed_indices, long.fixed_indices)
    np.testing.assert_array_equal(short.test_indices, long.test_indices)
    np.testing.assert_array_equal(short.shadow_indices, long.shadow_indices[:10])


def test_another_seed_draws_otherwise(digits):
    parts = [
        shadow.split(digits, num_fixed=50, num_shadow=50, num_test=50, seed=seed)
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(parts[0].fixed_indices, parts[1].fixed_indices)
    assert (parts[0].fixed_indices != parts[2].fixed_indices).any()


def test_shadows_from_another_set_get_labels_the_victim_knows():
    pool, other = examples(num_classes=3), examples(count=90, num_classes=9)
    parts = data.split(
        pool, num_fixed=30, num_shadow=90, num_test=30, seed=0, shadow_pool=other
    )
    assert parts.shadow.num_classes == 3
    assert set(parts.shadow.labels) == {0, 1, 2}
    np.testing.assert_array_equal(
        parts.shadow.images, other.images[parts.shadow_indices]
    )
    same = data.split(
        pool, num_fixed=20, num_shadow=30, num_test=10, seed=0, shadow_pool=pool
    )
    ids = [same.fixed_indices, same.shadow_indices, same.test_indices]
    assert len(np.unique(np.concatenate(ids))) == 60, "disjoint, though drawn apart"
    with pytest.raises(ValueError, match=r"shape \(2, 2, 1\) of made, got \(3, 3, 1\)"):
        data.split(
            pool,
            num_fixed=1,
            num_shadow=1,
            num_test=1,
            seed=0,
            shadow_pool=examples(side=3),
        )


def bad(images=None, labels=None):
    good = examples(6)
    return data.Examples(
        images=good.images if images is None else images,
        labels=good.labels if labels is None else labels,
        num_classes=3,
        name="mine",
    )


def with_pixel(value):
    images = examples(6).images.copy()
    images[4, 0, 0, 0] = value
    return images


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": with_pixel(np.nan)}, r"mine\.images.*NaN in 1 of 6"),
        ({"images": with_pixel(1.5)}, r"mine\.images within \[0, 1\].*1\.5"),
        ({"images": with_pixel(-0.1)}, r"mine\.images within \[0, 1\].*-0\.1"),
        ({"images": np.zeros((6, 2, 2))}, r"mine\.images of shape.*\(6, 2, 2\)"),
        ({"images": np.zeros((6, 2, 2, 1), np.int32)}, r"floats.*uint8.*int32"),
        ({"labels": np.arange(5)}, r"mine\.labels of shape \(6,\).*\(5,\)"),
        ({"labels": np.full(6, 3)}, r"mine\.labels in 0 \.\. 2.*3"),
        ({"labels": np.zeros(6)}, r"mine\.labels as integers.*float64"),
    ],
)
def test_bad_arrays_are_refused_by_name(arrays, message):
    with pytest.raises(ValueError, match=message):
        bad(**arrays)


def test_ones_own_arrays_in_a_file(tmp_path):
    good = examples(6)
    np.savez(tmp_path / "mine.npz", images=good.images, labels=good.labels)
    found = sources.load(str(tmp_path / "mine.npz"))
    np.testing.assert_array_equal(found.images, good.images)
    assert found.num_classes == 3
    assert found.name == "mine.npz"
    with pytest.raises(FileNotFoundError, match=r"no.npz to load"):
        sources.load(str(tmp_path / "no.npz"))
    with pytest.raises(ValueError, match=r"name to be digits.*/tmp"):
        sources.load("/tmp/folder")
    np.savez(tmp_path / "other.npz", pictures=good.images)
    with pytest.raises(ValueError, match="images and labels, found pictures"):
        sources.load(str(tmp_path / "other.npz"))
    objects = np.array([{"run": "me"}])
    np.savez(tmp_path / "pickled.npz", images=objects, labels=good.labels)
    with pytest.raises(ValueError, match="allow_pickle"):
        sources.load(str(tmp_path / "pickled.npz"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "single", "text"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, damage):
    """By its name, and without advice to unpickle it."""
    file, good = tmp_path / "mine.npz", examples(6)
    np.savez(file, images=good.images, labels=good.labels)
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    other = {"cut": content[:-400], "flipped": content, "empty": b"", "text": b"a\n"}
    if damage == "single":
        with file.open("wb") as stream:
            np.save(stream, good.images)
    else:
        file.write_bytes(bytes(other[damage]))
    with pytest.raises(ValueError, match=r"mine.npz to be a whole .npz file") as error:
        sources.load(str(file))
    assert "unsafe" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("labels", [np.array(["a"] * 6), np.full(6, np.nan)])
def test_labels_of_a_file_are_whole_numbers(tmp_path, labels):
    np.savez(tmp_path / "mine.npz", images=examples(6).images, labels=labels)
    with pytest.raises(ValueError, match=r"mine.npz.labels as integers"):
        sources.load(str(tmp_path / "mine.npz"))


def test_right_labels_are_not_replaced_because_a_class_is_absent(tmp_path, digits):
    """A file of shadow targets without nines: whether it has ten classes is told."""
    some = digits.take(digits.labels < 9)
    pool = digits.take(slice(0, 400))
    file, parts = tmp_path / "mine.npz", {"num_fixed": 50, "num_test": 20, "seed": 0}

    def drawn(**told):
        np.savez(file, images=some.images, labels=some.labels, **told)
        own = sources.load(str(file))
        found = data.split(pool, num_shadow=500, shadow_pool=own, **parts)
        return found.shadow.labels, own.labels[found.shadow_indices]

    with pytest.raises(ValueError, match=r"end at 8, .* 10 classes.*num_classes=10"):
        drawn()
    np.testing.assert_array_equal(*drawn(num_classes=10))
    labels, own = drawn(num_classes=9)
    assert set(labels) == set(range(10))
    assert np.mean(labels == own) < 0.3
    # The same where the private pool lacks a class.
    np.savez(file, images=some.images, labels=some.labels)
    private = sources.load(str(file))
    with pytest.raises(ValueError, match=r"mine.npz end at 8, and digits has 10"):
        data.split(private, num_shadow=100, shadow_pool=pool, **parts)
    with pytest.raises(ValueError, match=r"num_classes in mine.npz to be one"):
        drawn(num_classes=9.5)


def test_too_many_points_are_refused_with_the_numbers(digits):
    with pytest.raises(
        ValueError, match=r"digits for 100 \+ 1000 \+ 1000 = 2100.*1797"
    ):
        data.split(digits, num_fixed=1000, num_shadow=1000, num_test=100, seed=0)
    with pytest.raises(ValueError, match=r"num_fixed >= 1, got 0"):
        data.split(digits, num_fixed=0, num_shadow=1, num_test=1, seed=0)


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(ValueError, match=r"'mnits'.*Did you mean 'mnist'"):
        sources.load("mnits", data_dir=tmp_path)


def test_data_that_is_not_prepared_is_said_at_once(tmp_path):
    """In a process of its own with a dead proxy: nothing may go to the network."""
    program = (
        "import shadow, time; start = time.time()\n"
        "try: shadow.load('mnist')\n"
        "except FileNotFoundError as error:\n"
        "    assert time.time() - start < 60\n"
        "    print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ
        | {"TFDS_DATA_DIR": str(tmp_path), "https_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f"looked in {tmp_path}/mnist" in found.stdout
    assert "TFDS_DATA_DIR" in found.stdout
    assert "download_and_prepare" in found.stdout


def test_data_sets_of_tfds_name_their_extra_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match=r"'mnist' is neither.*'\.\[data\]'"):
        sources.load("mnist")


def test_how_many_classes_there_are_is_part_of_the_data(rng):
    images = rng.random((4, 2, 2, 1)).astype(np.float32)
    three = shadow.Examples(images=images, labels=np.arange(4) % 3, num_classes=3)
    five = dataclasses.replace(three, num_classes=5)
    digests = []
    for name, examples in (("three of them", three), ("five of them", five)):
        sources.register_source(name, lambda examples=examples: examples)
        digests.append(sources._digest(sources._SOURCES[name]))
    assert digests[0] != digests[1]


def test_hashes_are_of_the_arrays_as_they_are(digits):
    examples = digits.take(np.arange(3))
    before = examples.sha256
    examples.images[0] = 0
    assert examples.sha256["images_sha256"] != before["images_sha256"]
    assert examples.sha256["labels_sha256"] == before["labels_sha256"]
