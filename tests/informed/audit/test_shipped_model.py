"""A model that was shipped, read from a file; one of its records is read out of it."""

import inspect
import json
import re
import textwrap

import jax
import numpy as np
import pytest

import shadow
from informed import cli
from informed.audit import shipped_model
from shadow import safetensors


def ordered(images, labels, key):
    """The order of the records matters: each step looks at one of them."""
    x = images.reshape(len(images), -1)
    start = jax.random.normal(key, (x.shape[1], 10)) / 8

    def step(w, record):
        pixels, label = record
        slope = jax.nn.softmax(pixels @ w) - jax.nn.one_hot(label, 10)
        return w - 0.05 * pixels[:, None] * slope[None], None

    return {"w": jax.lax.scan(step, start, (x, labels))[0]}


@pytest.fixture
def trained(digits, tmp_path):
    few = digits.take(np.arange(300))
    theta = ordered(few.images, few.labels, jax.random.key(3))
    file = tmp_path / "model.safetensors"
    safetensors.write(file, {"_orig_mod.w": np.asarray(theta["w"])})
    return few, file


def test_a_record_in_the_middle_is_read_out(trained):
    few, file = trained
    found = shipped_model.invert(ordered, few, file, record=11, seed=3, version="1")
    assert found.apart < 1e-6
    assert found.guess.certified[0]
    assert found.mse < 1e-10 < found.without_release_mse


def test_half_precision_in_the_file_is_no_other_training(trained, tmp_path):
    """Its rounding is more than the products of float32 are allowed."""
    few, _ = trained
    theta = ordered(few.images, few.labels, jax.random.key(3))
    half = tmp_path / "half.npz"
    np.savez(half, w=np.asarray(theta["w"], np.float16))
    found = shipped_model.invert(ordered, few, half, record=11, seed=3, version="1")
    assert shipped_model.TOLERANCES["float32"] < found.apart < found.tolerance < 1e-3
    assert found.products == "float32"
    assert found.mse < found.without_release_mse / 100
    with pytest.raises(ValueError, match="away from the release"):
        shipped_model.invert(ordered, few, half, record=11, seed=4, version="1")


def test_another_training_is_noticed(trained):
    few, file = trained
    for changed in ({"seed": 4}, {"source": few.take(np.arange(300)[::-1])}):
        given = {"source": few, "seed": 3, **changed}
        with pytest.raises(ValueError, match="away from the release"):
            shipped_model.invert(ordered, release=file, record=11, version="1", **given)
    other = shadow.Examples(images=few.images[:, :4], labels=few.labels, num_classes=10)
    with pytest.raises(ValueError, match=r"differ in w \(320, 10\)|differ in w"):
        shipped_model.invert(ordered, other, file, record=1, seed=3, version="1")


def test_command_line(trained, tmp_path, capsys):
    few, file = trained
    np.savez(tmp_path / "mine.npz", images=few.images, labels=few.labels)
    (tmp_path / "mine.py").write_text(
        "import jax\n" + textwrap.dedent(inspect.getsource(ordered))
    )
    line = ["audit", f"{tmp_path}/mine.py:ordered", f"--data={tmp_path}/mine.npz"]
    line += [f"--release={file}", "--train_seed=3"]
    cli.main([*line, "--record=11", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["certified"]
    assert found["mse"] < 1e-10 < found["without_release_mse"]
    cli.main([*line, "--record=11"])
    assert "knows that this is the record" in capsys.readouterr().out
    for more, message in (
        ([], "Expected --record"),
        (["--record=1", "--check"], "no --check"),
        (["--record=300"], r"record in \[0, 300\), got 300"),
        (["--record=1", "--train_seed=4"], "away from the release"),
    ):
        with pytest.raises(SystemExit):
            cli.main([*line, *more])
        assert re.search(message, capsys.readouterr().err)
