"""A run's view: in the record of every attack, and in the words of its page."""

import dataclasses
import json
import re

import numpy as np
import pytest

from informed.experiment import stored
from informed.experiment.settings import Experiment
from informed.experiment.stored import Paths
from informed.report import run_report as workdir
from shadow import Store
from shadow.views import ViewConfig
from tests.informed.command_line import SMALL, refused, run


@pytest.fixture(scope="module")
def file(tmp_path_factory, digits):
    """Digits of which each of the first hundred has a near copy, and one an exact."""
    rng = np.random.default_rng(0)
    images = digits.images[:100]
    noise = 1e-4 * rng.choice([-1, 1], images.shape)
    near = np.clip(images + noise, 0, 1).astype(np.float32)
    twice = np.where(images[:30] == 0, np.float32(-0.0), images[:30])
    path = tmp_path_factory.mktemp("data") / "mine.npz"
    labels = np.concatenate([digits.labels[:100]] * 2 + [digits.labels[:30]])
    np.savez(path, images=np.concatenate([images, near, twice]), labels=labels)
    return path


def test_a_run_of_few_weights_in_few_bits(tmp_path, capsys, file):
    """Ten biases in bfloat16, of a data set with copies: as its page tells it."""
    arguments = [
        *SMALL,
        "--config.attacks.reconn.kind=kernel",
        "--config.shadow.count=40",
        "--config.training.epochs=5",
        "--config.data.num_fixed=30",
        "--config.data.num_test=6",
        f"--config.data.name={file}",
        "--config.view.layers=('output/b',)",
        "--config.view.precision=bfloat16",
        "--config.attacks.inversion.targets=1",
        f"--workdir={tmp_path}",
        "--quiet",
    ]
    results = json.loads(run(capsys, "run", *arguments, "--json"))
    found = results["copies"]
    assert found["dropped"] == 30
    # 200 different images; each of 6 targets has its near copy among 30 of D_-, 40
    # shadow targets, or elsewhere.
    paths = Paths(workdir=tmp_path, shadow=tmp_path)
    released = Store(paths.store("released"))
    ids = {
        part: released.array(f"{part}_indices") % 100
        for part in ("fixed", "shadow", "test")
    }
    for part in ("fixed", "shadow"):
        expected = int(np.isin(ids["test"], ids[part]).sum())
        assert found[part] == {"exact": 0, "near": expected}
    assert found["fixed"]["near"] + found["shadow"]["near"] > 0
    sees = {
        row["name"]: row["sees"] for row in workdir.report(tmp_path).values["attacks"]
    }
    assert re.fullmatch(
        r"some layers, 10 of \d+ weights in bfloat16 \(output/b\)", sees["reconn"]
    )
    assert sees["inversion"] == "all weights in bfloat16"
    only = ("--only=inversion", "--config.view.precision=float32")
    message = refused(capsys, "attack", *arguments, *only)
    assert "view.precision" in message


@pytest.mark.parametrize("name", ["inversion", "reconn", "guess"])
def test_every_field_of_the_view_is_in_every_record(name):
    """Whichever field is changed, what was made before isn't served again."""

    class Models(Store):
        def __init__(self):
            pass

        def __len__(self):
            return 7

        def fingerprint(self):
            return "f"

    named = {"guess": {"type": "inversion", "targets": 1}}
    base = Experiment.from_mapping({"attacks": named} if name == "guess" else {})
    other = {
        "kind": "logits",
        "layers": ("output",),
        "precision": "int8",
        "probes": 3,
        "queries": "components",
    }
    assert set(other) == {field.name for field in dataclasses.fields(ViewConfig)}
    for field, value in other.items():
        view = dataclasses.replace(base.view, **{field: value})
        changed = dataclasses.replace(base, view=view)
        before, after = (
            stored.attack_record(each, name, Models(), Models())
            for each in (base, changed)
        )
        assert before.fingerprint() != after.fingerprint(), field


def test_views_in_words(digits):
    victim = stored.victims.build(
        Experiment().victim, image_shape=(8, 8, 1), num_classes=10
    )
    total = victim.num_params
    for view, words in (
        (ViewConfig(), "all weights"),
        (ViewConfig(precision="int8"), "all weights in int8"),
        (
            ViewConfig(layers=("output/b",)),
            f"some layers, 10 of {total} weights (output/b)",
        ),
        (ViewConfig(kind="logits", probes=7), "logits on 7 public images"),
        (
            ViewConfig(kind="logits", queries="components"),
            "logits on 200 inputs along principal components",
        ),
    ):
        assert view.what(victim) == words
