"""Weights from files; nothing is unpickled."""

import json
import pickle
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shadow import safetensors, weights

KINDS = st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.uint8])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__")
ARRAYS = KINDS.flatmap(lambda kind: arrays.arrays(kind, SHAPES))


@given(st.dictionaries(NAMES, ARRAYS, max_size=4))
def test_what_is_written_is_read(tmp_path_factory, tensors):
    file = tmp_path_factory.mktemp("w") / "a.safetensors"
    safetensors.write(file, tensors)
    found = weights.read(file)
    assert list(found) == list(tensors)
    for name, values in tensors.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


def test_a_file_as_the_format_describes_it(tmp_path):
    """Written by hand, byte by byte; bfloat16 has no type in NumPy."""
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "b": {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]},
            "w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
        }
    ).encode()
    body = struct.pack("<ff", 1.5, -2.0) + struct.pack("<HH", 0x3F80, 0xC000)
    file = tmp_path / "m.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + body)
    found = weights.read(file)
    np.testing.assert_array_equal(found["w"], [[1.5, -2.0]])
    assert found["b"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found["b"].astype(np.float32), [1.0, -2.0])


@pytest.mark.parametrize("cut", [4, 20, -1])
def test_a_damaged_file_is_refused(tmp_path, cut):
    file = tmp_path / "m.safetensors"
    safetensors.write(file, {"w": np.ones(5)})
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"whole \.safetensors file"):
        weights.read(file)


@pytest.mark.parametrize(
    "header", ["[]", "{", '{"w": 1}', '{"w": {"dtype": "F32", "shape": "x"}}']
)
def test_a_header_that_makes_no_sense_is_refused(tmp_path, header):
    file = tmp_path / "m.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header.encode())
    with pytest.raises(ValueError, match=r"whole \.safetensors file"):
        weights.read(file)


def test_a_pickle_is_never_read(tmp_path):
    file = tmp_path / "model.pt"
    file.write_bytes(pickle.dumps(np.ones(3)))
    with pytest.raises(ValueError, match=r"may be pickles.*\.safetensors"):
        weights.read(file)
    np.savez(
        tmp_path / "a.npz", w=np.array([{"a": 1}], dtype=object), allow_pickle=True
    )
    with pytest.raises(ValueError, match="allow_pickle=False"):
        weights.read(tmp_path / "a.npz")


def test_a_checkpoint_of_orbax(tmp_path):
    import orbax.checkpoint

    tree = {"dense": {"w": np.arange(6.0).reshape(2, 3), "b": np.ones(3)}}
    with orbax.checkpoint.PyTreeCheckpointer() as writer:
        writer.save(tmp_path / "c", tree)
    found = weights.read(tmp_path / "c")
    assert sorted(found) == ["dense/b", "dense/w"]
    np.testing.assert_array_equal(found["dense/w"], tree["dense"]["w"])


def test_numbers_that_numpy_does_not_have_are_named(tmp_path):
    np.savez(tmp_path / "half.npz", w=np.ones(3, ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match="no bfloat16: save the"):
        weights.read(tmp_path / "half.npz")
