"""What a machine says of itself, with a driver of NVIDIA's that is a script."""

import os
import stat

import jax
import pytest

from shadow import devices

HERE = devices.kind()


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Puts an `nvidia-smi` on the path: lines of a shell script."""

    def put(text: str, code: int = 0) -> None:
        file = tmp_path / "nvidia-smi"
        file.write_text(f"#!/bin/sh\n{text}\nexit {code}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    devices._free_on.cache_clear()
    yield put
    devices._free_on.cache_clear()


class Card:
    """What a device of JAX's tells."""

    def __init__(self, **stats):
        self.stats, self.local_hardware_id = stats, 0

    def memory_stats(self):
        return self.stats


@pytest.mark.parametrize(
    ("stats", "others_leave_mib", "expected"),
    [
        # Nothing is taken yet, and nobody else is there: JAX's limit.
        ({"bytes_limit": 60 << 30, "bytes_in_use": 0}, 79 << 10, 60 << 30),
        ({"bytes_limit": 60 << 30, "bytes_in_use": 2 << 30}, 77 << 10, 58 << 30),
        # Somebody else has most of the card.
        ({"bytes_limit": 60 << 30, "bytes_in_use": 0}, 10 << 10, 10 << 30),
        # What is preallocated isn't free to others, and is to us.
        (
            {"bytes_limit": 60 << 30, "bytes_in_use": 1 << 30, "pool_bytes": 60 << 30},
            19 << 10,
            59 << 30,
        ),
    ],
)
def test_free_memory_is_what_is_left(
    driver, monkeypatch, stats, others_leave_mib, expected
):
    driver(f"echo {others_leave_mib}")
    monkeypatch.setattr(jax, "local_devices", lambda: [Card(**stats)])
    assert devices.free_bytes() == expected


def test_without_a_driver_to_ask_jax_is_believed(driver, monkeypatch):
    driver("echo no permission", code=1)
    card = Card(bytes_limit=60 << 30, bytes_in_use=0)
    monkeypatch.setattr(jax, "local_devices", lambda: [card])
    assert devices.free_bytes() == 60 << 30


def test_the_card_that_is_asked_is_the_one_that_is_seen(driver, monkeypatch):
    """JAX counts the cards that it may see, the driver all that there are."""
    driver('case "$1" in --id=2) echo 1000;; --id=GPU-7) echo 2000;; *) echo 9;; esac')
    card = Card(bytes_limit=60 << 30, bytes_in_use=0)
    monkeypatch.setattr(jax, "local_devices", lambda: [card])
    for visible, number, mib in (("5, 2", 1, 1000), ("GPU-7,2", 0, 2000)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        card.local_hardware_id = number
        assert devices.free_bytes() == mib << 20


def test_of_several_cards_the_fullest_counts(driver, monkeypatch):
    driver("exit 1")
    cards = [Card(bytes_limit=n << 30, bytes_in_use=0) for n in (60, 20, 40)]
    monkeypatch.setattr(jax, "local_devices", lambda: cards)
    assert devices.free_bytes() == 20 << 30


def test_cards_are_named_without_opening_one(driver, monkeypatch):
    driver("echo 'GPU 0: A100'\necho '  MIG 3g.40gb'\necho 'GPU 1: A100'")
    assert devices.card_names() == ["0", "1"]
    for visible, names in {
        "1": ["1"],
        "0, 2": ["0", "2"],
        "MIG-3f,MIG-9a": ["MIG-3f", "MIG-9a"],
        "": [],
        "-1": [],
    }.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert devices.card_names() == names


@pytest.mark.parametrize(
    ("kind", "repeats"),
    [
        (HERE, True),
        ("gpu: NVIDIA H100 80GB HBM3, cuda 12090 x 1", False),
        ("gpu: NVIDIA H100 x 1 --xla_gpu_deterministic_ops=true", False),
        ("gpu: NVIDIA H100 x 1 --xla_gpu_autotune_level=0", False),
        (f"gpu: NVIDIA H100 x 1 {' '.join(devices.DETERMINISTIC)}", True),
        (
            # What was chosen elsewhere is a file, which may be another on each node.
            "gpu: H100 x 1 --xla_gpu_deterministic_ops=true"
            " --xla_gpu_load_autotune_results_from=/a",
            False,
        ),
    ],
)
def test_bits_are_promised_only_where_nothing_is_timed(kind, repeats):
    assert devices.repeats_bits(kind) is repeats


def test_the_flags_of_determinism_replace_what_was_there(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--a=1 --xla_gpu_autotune_level=4")
    devices.make_deterministic()
    assert os.environ["XLA_FLAGS"].split() == ["--a=1", *devices.DETERMINISTIC]
    devices.make_deterministic()
    assert os.environ["XLA_FLAGS"].split() == ["--a=1", *devices.DETERMINISTIC]
