"""One contract for folders, memory and S3, and what each says when it can't."""

import importlib.util
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import pytest

from shadow import places


@pytest.fixture(params=["folder", "memory", "s3", "part of s3"])
def place(request, tmp_path):
    if request.param == "folder":
        return places.at(tmp_path / "place")
    if request.param == "memory":
        return places.at(f"memory://{tmp_path}")
    address = request.getfixturevalue("bucket")
    if request.param == "s3":
        return places.at(address)
    return places.at(f"{address}/some/part/")


def test_of_many_writers_exactly_one_is_first(place):
    def write(number):
        return place.put_if_absent("commits/1.json", b"%d" % number)

    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(write, range(64)))
    assert sum(won) == 1
    assert place.get("commits/1.json") == b"%d" % won.index(True)
    assert place.names("commits") == ["commits/1.json"]


def test_what_is_put_is_there_until_it_is_deleted(place):
    assert place.get("a/b") is None
    assert not place.has("a/b")
    assert place.names("a") == []
    assert place.put_if_absent("a/b", b"first")
    assert not place.put_if_absent("a/b", b"second")
    assert place.get("a/b") == b"first"
    place.put("a/b", b"third")
    place.put("a/c/d", bytes(range(256)) * 100)
    place.put("ab", b"")
    assert place.names("a") == ["a/b", "a/c/d"]
    assert place.get("a/b") == b"third"
    assert place.get("a/c/d") == bytes(range(256)) * 100
    assert place.has("ab")
    place.delete("a/b")
    place.delete("a/b")
    assert place.names("a") == ["a/c/d"]
    assert place.put_if_absent("a/b", b"fourth")


def test_a_large_content_has_one_winner_too(place):
    """Beyond what obstore otherwise puts in parts, which knows no condition."""
    large = bytes(range(256)) * (12 << 12)
    assert place.put_if_absent("weights/c/0/0", large)
    assert not place.put_if_absent("weights/c/0/0", large[::-1])
    assert place.get("weights/c/0/0") == large


def test_a_part_of_a_place_is_a_place(place):
    part = place.below("a").below("b")
    part.put("c", b"x")
    assert place.get("a/b/c") == b"x"
    assert part.names("") == ["c"]
    assert str(part) == f"{place}/a/b"


def test_names_lie_where_other_clients_find_them(bucket, s3_endpoint):
    places.at(f"{bucket}/runs/mnist").put("commits/1.json", b"x")
    client = boto3.client("s3", region_name="us-east-1", endpoint_url=s3_endpoint)
    listed = client.list_objects_v2(Bucket=bucket.removeprefix("s3://"))
    assert [entry["Key"] for entry in listed["Contents"]] == [
        "runs/mnist/commits/1.json"
    ]


def test_only_old_leftovers_of_a_folder_go(tmp_path):
    folder = places.at(tmp_path)
    old, new = (tmp_path / "a" / f".{name}.partial" for name in ("old", "new"))
    folder.put("a/b", b"")
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (0, time.time() - 7200))
    folder.remove_leftovers()
    assert not old.exists()
    assert new.exists()
    assert folder.names("") == ["a/b"]


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("http://host/x", ["'http://host/x'", "s3://"]),
        ("s3://", ["s3://BUCKET/PREFIX"]),
        (Path("s3://bucket/x"), ["a string", "s3:/bucket/x", "one slash"]),
    ],
)
def test_an_address_of_another_kind_is_refused(address, parts):
    with pytest.raises(ValueError, match="Expected") as error:
        places.at(address)
    for part in parts:
        assert part in str(error.value)


def test_a_bucket_without_its_extra_names_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"\.\[bucket\]"):
        places.at("s3://bucket/mnist")


def test_a_bucket_that_does_not_exist_is_one_line_at_once(bucket):
    for act in (lambda place: place.put("a", b""), lambda place: place.names("a")):
        with pytest.raises(OSError, match="Create the bucket") as error:
            act(places.at("s3://no-such-bucket/x"))
        assert "\n" not in str(error.value)
        assert "s3://no-such-bucket/x" in str(error.value)


def test_a_folder_that_may_not_be_written_to_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"a/b could not be written to .*file") as error:
        places.at(tmp_path / "file").put_if_absent("a/b", b"x")
    assert "\n" not in str(error.value)


def test_missing_credentials_are_named(monkeypatch, bucket):
    """obstore then asks the machine's cloud for some, which is none here."""
    monkeypatch.setattr(places, "_TRIES", 1)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1/169.254.169.254")
    with pytest.raises(OSError, match=r"Set credentials .*AWS_ACCESS_KEY_ID") as error:
        places.at(bucket).get("a")
    assert "\n" not in str(error.value)
