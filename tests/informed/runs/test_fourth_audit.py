"""Findings of the fourth audit on runs: each failed before it was mended."""

import json

import numpy as np
import pytest
from PIL import Image

import shadow
from informed import cli
from informed.cli.configuration import load_experiment
from informed.runs import evaluation, reporting, stored
from shadow import ShadowStore, folders
from tests.informed.commands import SMALL, refused, run

FEW = [
    *SMALL,
    "--config.shadow.count=64",
    "--config.data.num_test=6",
    "--config.attacks.reconn.targets=0",
    "--config.attacks.inversion.targets=2",
]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A run on the models of another folder, and models of another seed in its own."""
    folder = tmp_path_factory.mktemp("elsewhere")
    models, work = folder / "models", folder / "work"
    cli.main(["shadow", *FEW, f"--workdir={models}", "--quiet"])
    cli.main(["run", *FEW, f"--workdir={work}", f"--shadow={models}", "--quiet"])
    other = [*FEW, "--config.seed=1", f"--workdir={work}", "--quiet"]
    cli.main(["shadow", *other])
    return work, models


def test_guesses_are_not_judged_by_other_models_that_lie_there(elsewhere, capsys):
    work, models = elsewhere
    assert "seed" in refused(capsys, "report", work)
    assert "seed" in refused(capsys, "compare", work)
    found = json.loads(run(capsys, "compare", work, f"--shadow={models}", "--json"))
    assert found[0]["certified"] == found[0]["exact"]["successes"] == 2


def test_an_attack_is_held_against_the_oracle_of_its_own_targets(elsewhere):
    work, models = elsewhere
    results = json.loads((work / "results.json").read_text())
    truth = ShadowStore(models / "released").read().images
    shadows = ShadowStore(models / "shadow")
    pool = np.concatenate([shadows.array("fixed_images"), shadows.read().images])
    apart = np.mean((truth[:, None] - pool[None]) ** 2, axis=(2, 3, 4)).min(axis=1)
    found = results["attacks"]["inversion"]["nn_oracle_mse"]
    assert found == pytest.approx(apart[:2].mean(), rel=1e-5)
    assert results["nn_oracle_mse"] == pytest.approx(apart.mean(), rel=1e-5)


@pytest.mark.parametrize(
    "fields",
    [
        ["training.privacy.clip_norm=1.0", "training.privacy.noise_multiplier=1.0"],
        ["training.initialisation=random"],
    ],
)
def test_a_seed_that_nobody_is_told_is_not_known(fields, elsewhere):
    _, models = elsewhere
    store = ShadowStore(models / "released")
    plain = load_experiment(FEW)
    secret = load_experiment([*FEW, *(f"--config.{field}" for field in fields)])
    assert not reporting._secret(stored.factory_of(plain, store, role="released"))
    assert reporting._secret(stored.factory_of(secret, store, role="released"))


@pytest.fixture
def pictures(tmp_path, rng):
    for label in ("a", "b"):
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for i in range(3):
            pixels = rng.integers(0, 256, (4, 4), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / label / f"{i}.png")
    return tmp_path / "pictures"


def test_pictures_that_changed_are_another_data_set(pictures):
    experiment = load_experiment([*FEW, f"--config.data.name={pictures}"])
    before = stored.shadow_record(experiment)
    assert stored.shadow_record(experiment) == before
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(pictures / "b" / "1.png")
    assert stored.shadow_record(experiment) != before


def test_a_class_without_a_picture_is_refused(pictures):
    for file in (pictures / "b").iterdir():
        file.rename(file.with_suffix(".tif"))
    with pytest.raises(ValueError, match="none in b"):
        folders.read(pictures)


def test_one_target_leaves_none_to_measure_the_accuracy_on(elsewhere):
    _, models = elsewhere
    store = ShadowStore(models / "released")
    truth = store.read()
    one = shadow.ShadowModels(
        weights=truth.weights[:1], images=truth.images[:1], labels=truth.labels[:1]
    )
    victim = stored.victim_of(load_experiment(FEW), store)
    assert evaluation.accuracy(victim, one.weights, [0], one) is None


def test_a_balanced_shadow_pool_of_other_classes_is_balanced(digits):
    other = shadow.Examples(
        images=1 - digits.images, labels=digits.labels % 3, num_classes=3
    )
    found = shadow.split(
        digits,
        num_fixed=50,
        num_shadow=200,
        num_test=10,
        seed=0,
        shadow_pool=other,
        balanced=True,
    )
    assert np.bincount(found.shadow.labels, minlength=10).tolist() == [20] * 10


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ("seed=-1", "config.seed"),
        ("data.seed=-1", "config.data.seed"),
        ("shadow.count=2", "config.shadow.count"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(field, named, tmp_path, capsys):
    line = [*SMALL, f"--config.{field}", f"--workdir={tmp_path}"]
    assert named in refused(capsys, "run", *line)
