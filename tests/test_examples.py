"""The recipes of docs/extending.md, run as they are."""

import re
import runpy
from pathlib import Path

import jax
import numpy as np
import pytest

import dp
import informed
import shadow
from informed.attacks import registry
from informed.attacks.registry import Material

ROOT = Path(__file__).parent.parent
AUDITS = sorted((ROOT / "examples").glob("audit_*.py"))
EXAMPLES = sorted(set((ROOT / "examples").glob("*.py")) - set(AUDITS))


def load(name):
    return runpy.run_path(str(ROOT / "examples" / name))


def test_examples_are_short_and_each_is_a_recipe():
    text = (ROOT / "docs" / "extending.md").read_text()
    assert len(EXAMPLES) == 6
    for file in EXAMPLES:
        assert len(file.read_text().splitlines()) <= 60
        assert f"examples/{file.name}" in text


def test_audits_are_short_and_named_where_they_are_explained():
    text = (ROOT / "docs" / "audit.md").read_text()
    assert len(AUDITS) == 5
    for file in AUDITS:
        assert len(file.read_text().splitlines()) <= 60
        assert f"examples/{file.name}" in text
        source = file.read_text()
        assert f"informed audit examples/{file.name}:train" in source


def test_a_new_attack_is_a_file_and_a_row(split, victim, tmp_path):
    """Listed, built from a configuration, and better than the mean image."""
    load("new_attack.py")
    row = registry.find("nearest_model")
    experiment = informed.Experiment.from_mapping(
        {"attacks": {"mine": {"type": "nearest_model", "models": 30}}}
    )
    assert experiment.attacks["mine"].settings.models == 30
    with pytest.raises(ValueError, match="has no field 'modles'"):
        informed.Experiment.from_mapping(
            {"attacks": {"mine": {"type": "nearest_model", "modles": 30}}}
        )
    factory = shadow.Factory(
        algorithm=shadow.GradientDescent(
            victim=victim, training=shadow.TrainingConfig(epochs=20)
        ),
        fixed=split.fixed,
        key=jax.random.key(0),
        width=8,
    )
    weights = factory.train(split.shadow)
    store = shadow.ShadowStore.create(
        tmp_path,
        configuration={},
        algorithm=factory.algorithm,
        split=split,
        role="shadow",
        block_size=40,
        initialisation=None,
    )
    store.write_block(0, weights, split.shadow.images, split.shadow.labels)
    material = Material(shadows=store, workdir=tmp_path, key=jax.random.key(0))
    attack = row.make(row.config(), material)
    found = attack(shadow.publish(weights[3:9]), informed.Knowledge(), key=None)
    np.testing.assert_array_equal(found.images, split.shadow.images[3:9])


@pytest.mark.slow
def test_a_new_attack_through_the_whole_line():
    runpy.run_path(str(ROOT / "examples" / "new_attack.py"), run_name="__main__")


def test_a_new_bound_holds_when_it_is_played(rng):
    example = load("new_bound.py")
    found = example["main"]()
    assert set(found["by"]) == {"lottery"}
    assert found["gamma"][2] == pytest.approx(0.1)
    chance, kappa, count = 0.3, 0.2, 200_000
    records = rng.integers(0, 5, count)  # uniform on five: kappa is 1/5
    won = rng.random(count) < chance
    success = np.mean(np.where(won, records, 0) == records)
    bound = dp.rero_bound(example["Lottery"](chance=chance), kappa=kappa).gamma
    assert success == pytest.approx(float(bound), abs=5e-3)


@pytest.mark.slow
def test_a_new_victim_is_inverted():
    found = load("new_victim.py")["main"](epochs=10)
    assert found["certified"]
    assert found["mse"] < 1e-9


@pytest.mark.slow
def test_a_new_data_set_runs_through_the_line():
    found = load("new_data_set.py")["main"]()
    assert found["inversion"] < 1e-6
    assert found["kernel"] < found["mean_image_mse"]


def test_a_new_data_set_has_a_name():
    example = load("new_data_set.py")
    found = shadow.load("wine")
    assert found.image_shape == (1, 13, 1)
    with pytest.raises(ValueError, match="called 'wine' already"):
        shadow.register_source("wine", lambda: found)
    assert example["wine"]().num_classes == 3


def test_own_training_in_jax():
    found = load("own_training_jax.py")["main"]()
    assert found["certified"]
    assert found["mse"] == 0


@pytest.mark.slow
def test_own_training_in_sklearn():
    found = load("own_training_sklearn.py")["main"]()
    assert found["certified"]
    assert found["mse"] == 0
    assert found["trainings"] < 3000


def test_the_document_shows_what_is_in_the_files():
    """Every line of Python in the recipes is a line of the example it belongs to."""
    text = (ROOT / "docs" / "extending.md").read_text()
    code = "".join(file.read_text() for file in EXAMPLES)
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) >= 6
    for block in blocks:
        for line in block.splitlines():
            assert not line.strip() or line.strip() in code, line
