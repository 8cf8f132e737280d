"""The report of a run: of its own models, and of no others."""

import dataclasses
import json

import numpy as np
import pytest

import shadow
from informed import cli
from informed.cli.configuration import load_experiment
from informed.experiment import evaluation, stored
from informed.experiment.stored import Stage
from informed.report import run_report
from shadow import Store
from shadow.records import ConfigurationMismatchError, Record
from tests.informed.command_line import SMALL, refused, run
from tests.informed.developers import developer


def test_a_report_refuses_stores_that_were_made_again(tmp_path, split):
    factory = developer(split, epochs=1)
    store = shadow.Store.open(tmp_path / "made", factory, split.test)
    for fingerprint, fits in ((store.fingerprint(), True), ("another", False)):
        record = Record.of({"released_fingerprint": fingerprint})
        folder = tmp_path / str(fits)
        with Stage(folder, "evaluate", record, outputs=[]).running():
            pass
        if fits:
            run_report._require_evaluated(folder, released=store)
            continue
        with pytest.raises(ConfigurationMismatchError, match="The released models in"):
            run_report._require_evaluated(folder, released=store)


def test_a_run_overtaken_by_another_in_its_folder_writes_nothing(tmp_path):
    one, other = (Record.of({"clouds": number}) for number in (1, 2))
    stage = Stage(tmp_path, "attack-one", one, outputs=[])
    running = stage.running()
    running.__enter__()
    with Stage(tmp_path, "attack-one", other, outputs=[]).running():
        pass
    with pytest.raises(ConfigurationMismatchError, match="clouds"):
        stage.note()  # what an attack does before it writes
    with pytest.raises(ConfigurationMismatchError, match="clouds"):
        running.__exit__(None, None, None)
    assert Stage.read(tmp_path, "attack-one")["done"]


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
    report = json.loads(run(capsys, "report", work, f"--shadow={models}", "--json"))
    attacks = report["attacks"]
    assert attacks[0]["certified"] == attacks[0]["exact"]["successes"] == 2


def test_an_attack_is_held_against_the_oracle_of_its_own_targets(elsewhere):
    work, models = elsewhere
    results = json.loads((work / "results.json").read_text())
    truth = Store(models / "released").read().images
    shadows = Store(models / "shadow")
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
    store = Store(models / "released")
    plain = stored.factory_of(load_experiment(FEW), store, role="released")
    secret = load_experiment([*FEW, *(f"--config.{field}" for field in fields)])
    algorithm = secret.training.algorithm(plain.descent.victim)
    assert not run_report._secret(plain)
    other = dataclasses.replace(plain, start=None, algorithm=algorithm)
    assert run_report._secret(other)


def test_one_target_leaves_none_to_measure_the_accuracy_on(elsewhere):
    _, models = elsewhere
    store = Store(models / "released")
    truth = store.read()
    one = shadow.ShadowModels(
        weights=truth.weights[:1], images=truth.images[:1], labels=truth.labels[:1]
    )
    victim = stored.victim_of(load_experiment(FEW), store)
    assert evaluation.accuracy(victim, one.weights, one) is None
