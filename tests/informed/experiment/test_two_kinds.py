"""Stores that a CPU and an accelerator make, together and apart, and each verifies.

The accelerator is this CPU, with the programs of an accelerator and its name.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from informed import cli
from informed.experiment import shadow_sets
from shadow import Store, devices
from shadow.training import GradientDescent
from tests.informed.command_line import SMALL, run

CARD = "gpu: NVIDIA H100 80GB HBM3, cuda 12090 x 1"
ARGUMENTS = [*SMALL, "--config.shadow.count=96", "--config.shadow.block_size=32"]


@pytest.fixture
def on_card(monkeypatch):
    """A context in which this machine is an accelerator."""

    @contextlib.contextmanager
    def become(kind=CARD):
        with devices.as_on_an_accelerator(8 << 30), monkeypatch.context() as patch:
            patch.setattr(devices, "kind", lambda: kind)
            yield

    return become


def make(folder):
    cli.main(["shadow", *ARGUMENTS, f"--workdir={folder}", "--quiet"])


@pytest.fixture(scope="module")
def by_cpu(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cpu")
    make(folder)
    return folder


@pytest.fixture
def by_card(tmp_path, on_card):
    with on_card():
        make(tmp_path / "card")
    return tmp_path / "card"


def widths(folder):
    store = Store(folder / "shadow")
    made = [store.committed(block).made for block in range(store.num_blocks)]
    return [each.trained_with["width"] for each in made]


def test_each_has_its_own_width_and_both_the_same_models(by_cpu, by_card):
    assert set(widths(by_cpu)) == {64}
    assert set(widths(by_card)) == {512}
    cpu, card = (Store(f / "shadow").read() for f in (by_cpu, by_card))
    np.testing.assert_allclose(card.weights, cpu.weights, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(card.images, cpu.images)


def test_each_verifies_the_other_without_a_false_alarm(
    by_cpu, by_card, on_card, capsys
):
    found = json.loads(run(capsys, "shadow", "verify", by_card, "--json"))
    with on_card():
        other = json.loads(run(capsys, "shadow", "verify", by_cpu, "--json"))
        own = json.loads(run(capsys, "shadow", "verify", by_card, "--json"))
    for verified in (found, other, own):
        again = verified["trained_again"]["shadow"]
        assert len(again["models"]) == 8
        assert again["bits"] == 0, "a card times its kernels in each process anew"
        assert again["differ"] == []
    here = shadow_sets.verify(by_cpu)["trained_again"]["shadow"]
    assert here["bits"] == 8


def test_a_card_that_times_nothing_has_to_repeat_its_bits(tmp_path, on_card):
    kind = f"{CARD} {' '.join(devices.DETERMINISTIC)}"
    with on_card(kind):
        make(tmp_path)
        again = shadow_sets.verify(tmp_path)["trained_again"]["shadow"]
        assert (again["bits"], again["differ"]) == (8, [])
        rewrite(tmp_path, lambda weights: off_by(weights, 1e-7))
        assert shadow_sets.train_again(Store(tmp_path / "shadow"), 96)["differ"]


def rewrite(folder, change):
    """Commit a block of other weights, with checksums that match."""
    store = Store(folder / "shadow")
    models, made = store.read_block(1), store.committed(1).made
    store.drop_block(1)
    rest = models.images, models.labels
    weights = change(models.weights.copy())
    store.write_block(1, weights, *rest, trained_with=made.trained_with)


def off_by(weights, distance):
    weights[:, np.abs(weights[0]).argmax()] += distance
    return weights


@pytest.mark.parametrize(
    ("change", "tolerance"),
    [
        (lambda weights: off_by(weights, 1e-3), shadow_sets.TOLERANCE),
        (lambda weights: weights[::-1].copy(), 1e9),
    ],
    ids=["off by a thousandth", "of swapped targets"],
)
def test_other_weights_are_caught(
    change, tolerance, by_cpu, tmp_path, on_card, monkeypatch
):
    """Swapped ones also where a target moves weights by less than is allowed."""
    folder = shutil.copytree(by_cpu, tmp_path / "copy")
    rewrite(folder, change)
    monkeypatch.setattr(shadow_sets, "TOLERANCE", tolerance)
    with on_card():
        again = shadow_sets.train_again(Store(folder / "shadow"), 96)
    assert again["differ"] == list(range(32, 64))


def make_from_another_start(folder, monkeypatch, by=1e-3):
    """Theta_0 is drawn with other digits."""
    drawn = GradientDescent.initialise
    with monkeypatch.context() as patch:
        patch.setattr(
            GradientDescent, "initialise", lambda self, key: drawn(self, key) + by
        )
        make(folder)


def test_another_theta_0_than_the_configuration_draws_is_caught(
    tmp_path, monkeypatch, on_card
):
    make_from_another_start(tmp_path, monkeypatch)
    store = Store(tmp_path / "shadow")
    assert len(shadow_sets.train_again(store, 8)["differ"]) == 8
    with on_card():
        assert len(shadow_sets.train_again(store, 8)["differ"]) == 8


def test_they_fill_one_store_together(by_cpu, tmp_path, on_card):
    """Theta_0 is the one that the store was made with, whoever joins."""
    folder = shutil.copytree(by_cpu, tmp_path / "copy")
    store = Store(folder / "shadow")
    expected = store.read().weights
    store.drop_block(2)
    with on_card():
        make(folder)
    assert widths(folder) == [64, 64, 512]
    np.testing.assert_allclose(store.read().weights, expected, rtol=0, atol=2e-6)


def test_theta_0_is_read_from_the_store(by_cpu, tmp_path, monkeypatch):
    """A worker that draws other last digits trains from the first one's theta_0."""
    folder = shutil.copytree(by_cpu, tmp_path / "copy")
    store = Store(folder / "shadow")
    expected = store.read().weights
    store.drop_block(2)
    make_from_another_start(folder, monkeypatch, by=1e-6)
    np.testing.assert_array_equal(store.read().weights, expected)


@pytest.mark.slow
def test_one_process_a_gpu_under_slurm(by_cpu, tmp_path):
    """A JAX without CUDA stops, unless a CPU is meant; then each has its own device."""

    def job(**said):
        return [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "informed.cli", "shadow", *ARGUMENTS),
                    *(f"--workdir={tmp_path}", f"--worker={number}/2", "--quiet"),
                ],
                env={k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
                | {"SLURM_STEP_GPUS": str(number), **said},
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]

    for number, process in enumerate(job()):
        message = process.communicate()[1]
        assert process.returncode == 2
        assert f"SLURM_STEP_GPUS={number}" in message
    assert not (tmp_path / "shadow").exists()
    processes = job(JAX_PLATFORMS="cpu")
    assert [process.wait() for process in processes] == [0, 0]
    ours, theirs = (Store(f / "shadow").read() for f in (tmp_path, by_cpu))
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=0, atol=2e-6)


def test_verify_takes_the_flags_that_a_store_was_made_with(by_cpu, capsys, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    run(capsys, "shadow", "verify", by_cpu, "--deterministic")
    assert set(devices.DETERMINISTIC) <= set(os.environ["XLA_FLAGS"].split())
