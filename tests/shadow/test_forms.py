"""The form that a worker is told is what it trains in, and its commits say so."""

import numpy as np
import pytest

from informed import cli
from shadow import Store
from tests.informed.command_line import SMALL, refused


@pytest.mark.slow
def test_the_choice_is_recorded_and_verified(tmp_path):
    from informed.experiment import shadow_sets

    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "images.npz",
        images=rng.random((200, 12, 12, 1), dtype=np.float32),
        labels=np.arange(200, dtype=np.int32) % 4,
    )
    arguments = [
        *SMALL,
        "--config.victim.architecture=cnn",
        f"--config.data.name={tmp_path / 'images.npz'}",
        "--config.shadow.count=8",
        "--config.shadow.block_size=4",
        "--config.data.num_test=2",
        "--config.training.epochs=3",
        "--quiet",
    ]
    cli.main(["shadow", *arguments, f"--workdir={tmp_path / 'a'}", "--form=patches"])
    store = Store(tmp_path / "a" / "shadow")
    assert store.committed(0).made.trained_with["form"] == "patches"
    cli.main(["shadow", *arguments, f"--workdir={tmp_path / 'b'}"])
    other = Store(tmp_path / "b" / "shadow")
    assert "form" not in other.committed(0).made.trained_with
    # Another form of the same configuration is the same store within rounding.
    assert store.fingerprint() == other.fingerprint()
    np.testing.assert_allclose(
        store.read().weights, other.read().weights, rtol=0, atol=2e-6
    )
    again = shadow_sets.verify(tmp_path / "a")["trained_again"]["shadow"]
    assert (again["bits"], again["differ"]) == (8, [])


def test_an_unknown_form_is_refused(capsys, tmp_path):
    message = refused(
        capsys, "shadow", *SMALL, f"--workdir={tmp_path}", "--form=winograd"
    )
    assert "form" in message
    assert "winograd" in message
