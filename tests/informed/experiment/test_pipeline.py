"""The whole line on small digits, through the command line as a user would."""

import json
import re
import shutil
from pathlib import Path

import dp_accounting
import jax
import numpy as np
import pytest

from informed import cli
from informed.report import run_report
from shadow import Store, commits
from tests.informed.command_line import SMALL, refused, run

STAGES = ("shadow", "attack", "evaluate")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "digits"
    cli.main(["run", *SMALL, f"--workdir={workdir}", "--quiet"])
    return workdir


def stamps(folder: Path) -> dict[str, int]:
    return {
        str(file.relative_to(folder)): file.stat().st_mtime_ns
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_the_results_and_stores_are_complete_and_consistent(finished):
    results = json.loads((finished / "results.json").read_text())
    assert results["shadow_models"] == 200
    assert results["num_targets"] == 20
    assert results["wall_s"] == pytest.approx(sum(results["stage_wall_s"].values()))
    with np.load(finished / "attacks" / "reconn.npz") as arrays:
        guesses = arrays["images"]
    truth = Store(finished / "released").read()
    found = results["attacks"]
    assert found["reconn"]["mse"] == pytest.approx(
        np.mean((guesses - truth.images) ** 2)
    )
    assert found["inversion"]["targets"] == found["inversion"]["certified"] == 2
    assert found["inversion"]["labels_right"] == 2
    assert found["inversion"]["mse_median"] < 1e-10
    assert 0 < results["nn_oracle_mse"] < results["mean_image_mse"]
    assert results["configuration"]["data"]["num_fixed"] == 60
    for picture in ("reconstructions.png", "distances.png"):
        assert (finished / picture).read_bytes().startswith(b"\x89PNG")
    store = Store(finished / "shadow")
    ids = [store.array(f"{part}_indices") for part in ("fixed", "shadow", "test")]
    assert [len(part) for part in ids] == [60, 200, 20]
    assert len(np.unique(np.concatenate(ids))) == 280


def test_running_again_does_nothing(finished, capsys):
    before = stamps(finished)
    output = run(capsys, "run", *SMALL, f"--workdir={finished}", "--json")
    assert json.loads(output) == json.loads((finished / "results.json").read_text())
    spaced = ["--config", SMALL[0].removeprefix("--config="), *SMALL[1:]]
    for stage in STAGES:
        run(capsys, stage, *spaced, f"--workdir={finished}")
    assert stamps(finished) == before


def test_stages_one_by_one_give_the_same(finished, tmp_path, capsys):
    for stage in STAGES:
        run(capsys, stage, *SMALL, f"--workdir={tmp_path}", "--quiet")
    with (
        np.load(tmp_path / "attacks" / "reconn.npz") as ours,
        np.load(finished / "attacks" / "reconn.npz") as theirs,
    ):
        np.testing.assert_array_equal(ours["images"], theirs["images"])


def test_the_same_models_are_attacked_again(finished, tmp_path, capsys):
    before = stamps(finished)
    other = [*SMALL, "--config.attacks.reconn.learning_rate=1e-4"]
    message = refused(capsys, "run", *other, f"--workdir={finished}")
    assert "attacks.reconn.learning_rate: 0.0005 there, 0.0001 asked for" in message
    assert "--shadow" in message
    arguments = [f"--workdir={tmp_path}", f"--shadow={finished}", "--quiet"]
    run(capsys, "run", *other, *arguments)
    assert (tmp_path / "results.json").exists()
    assert not (tmp_path / "shadow").exists()
    assert stamps(finished) == before


def test_a_part_of_each_target_is_known(finished, tmp_path, capsys):
    other = [*SMALL, "--config.attacks.inversion.known=2"]
    arguments = [f"--workdir={tmp_path}", f"--shadow={finished}", "--quiet"]
    printed = run(capsys, "run", *other, *arguments)
    found = json.loads((tmp_path / "results.json").read_text())["attacks"]
    truth = Store(finished / "released").read().images[:2]
    with np.load(tmp_path / "attacks" / "inversion.npz") as arrays:
        guesses = arrays["images"]
    np.testing.assert_array_equal(guesses[:, :2], truth[:, :2])
    assert found["inversion"]["certified"] == 2
    assert found["inversion"]["mse_of_unknown"] == pytest.approx(
        np.mean((guesses[:, 2:] - truth[:, 2:]) ** 2)
    )
    assert "known_rows" not in found["reconn"]
    assert "2 rows known" in printed
    page = run_report.report(tmp_path, shadow=str(finished))
    told = {row["name"]: row["knows"] for row in page.values["attacks"]}
    assert told["inversion"].endswith("; the first 2 rows of pixels of each target")
    assert "pixels" not in told["reconn"]


OTHER_WORLDS = [
    ("shadow", "--config.training.epochs=21", "training.epochs"),
    ("attack", "--config.seed=1", "seed"),
    ("attack", "--config.attacks.reconn.kernel.scale=100.0", "reconn.kernel.scale"),
    ("attack", "--config.view.layers=('output',)", "view.layers"),
    ("evaluate", "--config.training.learning_rate=0.1", "training.learning_rate"),
    ("evaluate", "--config.attacks.inversion.steps=3", "attacks.inversion.steps"),
]


@pytest.mark.parametrize(("stage", "change", "field"), OTHER_WORLDS)
def test_no_stage_reads_what_another_world_made(finished, capsys, stage, change, field):
    before = stamps(finished)
    message = refused(capsys, stage, *SMALL, change, f"--workdir={finished}")
    assert f"{field}:" in message
    assert "there" in message
    assert stamps(finished) == before


def test_results_of_other_versions_are_refused_until_accepted(
    finished, tmp_path, capsys
):
    other = tmp_path / "other"
    shutil.copytree(finished, other)
    for file in (
        "shadow/manifest.json",
        "stages/attack-reconn.json",
        "stages/evaluate.json",
    ):
        there = json.loads((other / file).read_text())
        there["versions"]["jax"] = "0.4.2"
        if there.pop("seal", None):
            (other / file).write_bytes(commits.seal(there))
        else:
            (other / file).write_text(json.dumps(there))
    for stage in ("attack", "evaluate", "run"):
        message = refused(capsys, stage, *SMALL, f"--workdir={other}")
        assert "jax: '0.4.2' there" in message
        assert "--accept-versions" in message
    accepted = ["--accept-versions", f"--workdir={other}", "--json", "--quiet"]
    results = json.loads(run(capsys, "evaluate", *SMALL, *accepted))
    assert results["num_targets"] == 20
    (other / "results.json").unlink()
    results = json.loads(run(capsys, "evaluate", *SMALL, *accepted))
    assert results["versions"]["attacks"]["reconn"]["jax"] == "0.4.2"
    assert results["versions"]["evaluation"]["jax"] == jax.__version__


def test_a_corrupt_block_is_found_and_remade(finished, tmp_path, capsys):
    run(capsys, "shadow", *SMALL, f"--workdir={tmp_path}", "--quiet")
    assert "all blocks match" in run(
        capsys, "shadow", "verify", f"--workdir={tmp_path}"
    )
    chunk = next((tmp_path / "shadow" / "weights" / "c" / "2").iterdir())
    good = chunk.read_bytes()
    chunk.write_bytes(good[:1000] + b"\0\1\2\3" + good[1004:])
    message = refused(capsys, "attack", *SMALL, f"--workdir={tmp_path}")
    assert "Block 2" in message
    assert f"informed shadow verify --workdir={tmp_path}" in message
    output = run(capsys, "shadow", "verify", f"--workdir={tmp_path}", "--json")
    found = json.loads(output)
    assert found["corrupt"] == {"released": [], "shadow": [2]}
    assert found["remade"]
    for again in found["trained_again"].values():
        assert len(again["models"]) == again["bits"] == 8
        assert again["differ"] == []
    assert chunk.read_bytes() == good
    ours, theirs = (Store(d / "shadow") for d in (tmp_path, finished))
    np.testing.assert_array_equal(ours.read().weights, theirs.read().weights)


def test_the_attack_never_reads_a_target(finished, tmp_path, capsys):
    """With every target of the released models replaced, the guesses are the same."""
    shutil.copytree(finished, tmp_path / "other")
    store = Store(tmp_path / "other" / "released")
    found = store.read()
    for block in range(store.num_blocks):
        rows = slice(*store.block_range(block))
        images = 1 - found.images[rows]
        store.drop_block(block)
        store.write_block(block, found.weights[rows], images, found.labels[rows] * 0)
    for name in ("reconn", "inversion"):
        (tmp_path / "other" / "stages" / f"attack-{name}.json").unlink()
        (tmp_path / "other" / "attacks" / f"{name}.npz").unlink()
        only = [f"--only={name}", f"--workdir={tmp_path / 'other'}", "--quiet"]
        run(capsys, "attack", *SMALL, *only)
        guesses = [
            np.load(folder / "attacks" / f"{name}.npz")["images"]
            for folder in (finished, tmp_path / "other")
        ]
        np.testing.assert_array_equal(*guesses)


def test_a_leak_is_refused(finished, tmp_path, capsys):
    """A shadow model of a test target is planted: no metric is computed."""
    shutil.copytree(finished, tmp_path / "leaky")
    store = Store(tmp_path / "leaky" / "shadow")
    target = Store(finished / "released").read().images[3]
    found = store.read_block(1)
    images = found.images.copy()
    images[5] = target
    store.drop_block(1)
    store.write_block(1, found.weights, images, found.labels)
    (tmp_path / "leaky" / "results.json").unlink()
    message = refused(capsys, "evaluate", *SMALL, f"--workdir={tmp_path / 'leaky'}")
    assert "1 of 20 test targets" in message
    assert "such as target 3" in message
    assert not (tmp_path / "leaky" / "results.json").exists()


@pytest.mark.slow
def test_private_training_through_the_line(tmp_path, capsys):
    """All attacks on private victims; theory beside, and no violation of it."""
    workdir = tmp_path / "private"
    private = (
        "--config.training.privacy.clip_norm=1.0",
        "--config.training.privacy.noise_multiplier=4.0",
        "--config.attacks.reconn.kind=kernel",
        "--config.attacks.inversion.targets=1",
    )
    cli.main(["run", *SMALL, *private, f"--workdir={workdir}", "--quiet"])
    assert "differential privacy" in capsys.readouterr().out
    results = json.loads((workdir / "results.json").read_text())
    mu = 20**0.5 / 4
    accounted = dp_accounting.get_epsilon_gaussian(1 / mu, 1e-5)
    assert results["epsilon"] == pytest.approx(accounted)
    assert 0.1 < results["label_bound"] < 1
    assert results["attacks"]["reconn"]["label_violation"] > 1e-4
    assert results["attacks"]["reconn"]["roc_violations"] == 0
    assert results["attacks"]["inversion"]["certified"] == 0
    assert results["attacks"]["reconn"]["mse"] > 0.5 * results["nn_oracle_mse"]


@pytest.mark.parametrize(
    "shuffling", ["known", pytest.param("unknown", marks=pytest.mark.slow)]
)
def test_sampling_amplifies_only_while_it_is_secret(tmp_path, capsys, shuffling):
    """Against dp-accounting; whoever knows who was sampled faces plain noise."""
    private = (
        "--config.training.epochs=100",
        "--config.training.privacy.clip_norm=1.0",
        "--config.training.privacy.noise_multiplier=1.0",
        "--config.training.privacy.sampling_probability=0.01",
        f"--config.training.shuffling={shuffling}",
        "--config.attacks.reconn.kind=kernel",
        "--config.attacks.inversion.targets=0",
        "--config.shadow.count=50",
    )
    arguments = [*SMALL, *private, f"--workdir={tmp_path}", "--quiet", "--json"]
    results = json.loads(run(capsys, "run", *arguments))
    if shuffling != "known":
        accountant = dp_accounting.pld.PLDAccountant()
        step = dp_accounting.PoissonSampledDpEvent(
            0.01, dp_accounting.GaussianDpEvent(1.0)
        )
        accountant.compose(dp_accounting.SelfComposedDpEvent(step, 100))
        amplified = pytest.approx(accountant.get_epsilon(1e-5), rel=0.01)
        assert results["epsilon"] == results["epsilon_of_target"] == amplified
        assert "nobody is told" in results["accounted"]
        return
    own, most = map(
        int,
        re.findall(r"in (\d+) of 100 steps.* more than (\d+)", results["accounted"])[0],
    )
    for name, steps in (("epsilon", most), ("epsilon_of_target", own)):
        plain = dp_accounting.get_epsilon_gaussian(steps**-0.5, 1e-5) if steps else 0
        assert results[name] == pytest.approx(plain)
    assert results["epsilon"] >= 4.3
    assert results["label_bound"] >= results["label_kappa"] > 0.1


def test_the_kernel_regression_through_the_line(finished, tmp_path, capsys):
    """On the same models, far better than five epochs of a small network."""
    arguments = [*SMALL, "--config.attacks.reconn.kind=kernel", f"--shadow={finished}"]
    arguments += [f"--workdir={tmp_path}", "--quiet", "--json"]
    results = json.loads(run(capsys, "run", *arguments))
    network = json.loads((finished / "results.json").read_text())
    kernel, network = (each["attacks"]["reconn"] for each in (results, network))
    assert kernel["mse"] < 0.5 * network["mse"]
    assert kernel["labels_right"] > 0.9 * kernel["targets"]
    assert network["labels_right"] is None
    before = stamps(tmp_path)
    run(capsys, "run", *arguments)
    assert stamps(tmp_path) == before


def test_what_was_deleted_is_made_again(finished, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(finished, other)
    before = (other / "attacks" / "reconn.npz").read_bytes()
    for name in ("attacks/reconn.npz", "results.json"):
        (other / name).unlink()
    shutil.rmtree(other / "attacks" / "reconn")
    run(capsys, "run", *SMALL, f"--workdir={other}", "--quiet")
    assert (other / "attacks" / "reconn.npz").read_bytes() == before
    shutil.rmtree(other / "shadow")
    run(capsys, "shadow", *SMALL, f"--workdir={other}", "--quiet")
    ours, theirs = (Store(d / "shadow").read() for d in (other, finished))
    np.testing.assert_array_equal(ours.weights, theirs.weights)


def test_after_a_divergence_the_advice_can_be_followed(tmp_path, capsys):
    wild = [*SMALL, "--config.training.learning_rate=1e38"]
    message = refused(capsys, "shadow", *wild, f"--workdir={tmp_path}", "--quiet")
    assert "Lower learning_rate" in message
    run(capsys, "shadow", *SMALL, f"--workdir={tmp_path}", "--quiet")


@pytest.mark.slow
def test_a_cnn_on_ones_own_arrays(tmp_path, capsys, digits):
    """The CNN through the whole line; a file that changes is noticed."""
    border = ((0, 0), (1, 1), (1, 1), (0, 0))
    file = tmp_path / "mine.npz"
    images = np.pad(digits.images[:150], border)
    np.savez(file, images=images, labels=digits.labels[:150])
    arguments = [
        *SMALL,
        f"--config.data.name={file}",
        "--config.data.num_fixed=30",
        "--config.data.num_test=5",
        "--config.victim.architecture=cnn",
        "--config.training.epochs=3",
        "--config.shadow.count=40",
        "--config.attacks.inversion.targets=0",
        f"--workdir={tmp_path / 'run'}",
        "--quiet",
    ]
    results = json.loads(run(capsys, "run", *arguments, "--json"))
    assert results["num_targets"] == 5
    np.savez(file, images=images[::-1], labels=digits.labels[:150])
    assert "mine.npz" in refused(capsys, "run", *arguments)


def test_attacks_by_name(tmp_path, capsys):
    """Their results and records go by their names, and one that is done is kept."""
    file = tmp_path / "config.py"
    file.write_text(NAMED)
    arguments = [f"--config={file}", f"--workdir={tmp_path / 'run'}", "--quiet"]
    results = json.loads(run(capsys, "run", *arguments, "--json"))
    found = results["attacks"]
    assert set(found) == {"reconn", "exact", "nothing"}
    assert found["exact"]["type"] == "inversion"
    assert found["exact"]["targets"] == found["exact"]["certified"] == 1
    assert found["exact"]["mse"] < 1e-9 < found["nothing"]["mse"]
    assert found["nothing"]["mse"] == pytest.approx(results["mean_image_mse"], rel=1e-5)
    assert "exact, median of 1" in run(capsys, "evaluate", *arguments)
    message = refused(capsys, "attack", *arguments, "--config.attacks.exact.steps=9")
    assert "attacks.exact.steps: 8 there, 9 asked for" in message
    message = refused(capsys, "run", *arguments, "--config.attacks.exact.targets=99")
    assert "config.attacks.exact.targets <= data.num_test" in message


NAMED = """
import informed

def get_config():
    config = informed.defaults(informed.Experiment)
    config.data.num_fixed, config.data.num_test = 60, 4
    config.shadow.count, config.training.epochs = 40, 15
    config.attacks.reconn.epochs, config.attacks.reconn.widths = 1, (4,)
    informed.add_attack(config, "exact", "inversion", targets=1)
    informed.add_attack(config, "nothing", "mean_image")
    return config
"""


def test_all_attacks_are_listed(capsys):
    found = json.loads(run(capsys, "attacks", "--json"))
    assert {"name", "sees", "knows", "gives"} <= set(found[0])
    text = run(capsys, "attacks")
    assert all(each["name"] in text for each in found)
