"""What was made one way is never passed off as made another."""

import json

import jax
import numpy as np
import pytest

from shadow import records
from shadow.records import (
    ConfigurationMismatchError,
    Record,
    VersionMismatchError,
    accepting_other_versions,
)

MADE = {"training": {"epochs": 3}, "seed": 0}


def test_every_field_that_differs_is_named():
    found = Record.of(MADE, training=1)
    wanted = Record.of({"training": {"epochs": 4}, "data": "x", "seed": 0}, training=1)
    with pytest.raises(ConfigurationMismatchError) as error:
        records.require_same(found, wanted, "It")
    text = str(error.value)
    assert "training.epochs: 3 there, 4 asked for" in text
    assert "data: '(absent)' there, 'x' asked for" in text
    assert "seed" not in text


def test_other_versions_are_refused_by_name_until_accepted():
    there = Record.of(MADE, training=1)
    now = Record.of(MADE, training=2)
    with pytest.raises(VersionMismatchError) as error:
        records.require_same(there, now, "It")
    line = "revision of training: 1 there, 2 asked for"
    assert line in str(error.value)
    with accepting_other_versions():
        assert records.require_same(there, now, "It") == [line]
    with pytest.raises(VersionMismatchError):
        records.require_same(there, now, "It")
    older = Record(there.configuration, {**there.versions, "jax": "0.4.0"})
    with pytest.raises(VersionMismatchError, match=r"jax: '0\.4\.0' there"):
        records.require_same(older, there, "It")


def test_a_configuration_is_never_accepted_with_the_versions():
    with accepting_other_versions(), pytest.raises(ConfigurationMismatchError):
        records.require_same(Record.of(MADE), Record.of({"seed": 1}), "It")


def test_fingerprints_hold_versions():
    one, other = Record.of(MADE, training=1), Record.of(MADE, training=2)
    assert one.fingerprint() == Record.of(MADE, training=1).fingerprint()
    assert one.fingerprint() != other.fingerprint()


def test_kept_arrays_are_made_once_and_by_one_record(tmp_path):
    file, made = tmp_path / "a.npz", []

    def make():
        made.append(1)
        return {"x": np.arange(3)}

    for _ in range(2):
        found = records.kept(file, Record.of(MADE, a=1), "It", make)
        np.testing.assert_array_equal(found["x"], np.arange(3))
        assert set(found) == {"x"}
    assert made == [1]
    with pytest.raises(VersionMismatchError):
        records.kept(file, Record.of(MADE, a=2), "It", make)
    with pytest.raises(ConfigurationMismatchError):
        records.kept(file, Record.of({"seed": 1}, a=1), "It", make)


def test_a_claim_without_anything_made_is_given_up(tmp_path):
    file = tmp_path / "x" / "claim.json"
    records.claim(file, Record.of(MADE), "It")
    records.claim(file, Record.of(MADE), "It")
    with pytest.raises(ConfigurationMismatchError):
        records.claim(file, Record.of({"seed": 1}), "It")
    records.claim(file, Record.of({"seed": 1}), "It", begun=False)
    assert json.loads(file.read_text())["configuration"] == {"seed": 1}


def test_settings_that_decide_draws_are_on_record():
    plain = records.versions()
    assert not [name for name in plain if name.startswith("jax_")]
    with jax.threefry_partitionable(False):
        found = records.versions()
    assert found == {**plain, "jax_threefry_partitionable": False}
