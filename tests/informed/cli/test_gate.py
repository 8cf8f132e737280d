"""`--max-success`: what it lets through, and that it fails closed."""

import json
from pathlib import Path

import numpy as np
import pytest

from informed.attacks import registry
from informed.audit import trials
from informed.cli import gate, main
from informed.cli.gate import GateFailedError
from informed.metrics import success_rate
from shadow import limits
from tests.informed.command_line import SMALL, refused

MOST = 0.3


def rate(successes, trials=20):
    found = success_rate(np.arange(trials) < successes)
    return {"successes": successes, "trials": trials, "high": found.high}


def row(name="inversion", successes=0, **changed):
    return {
        "name": name, "applies": True, "tried": True, "planned": 20, "finished": 20,
        "success": rate(successes), "why_not": "", **changed,
    }  # fmt: skip


def audit(*rows, asked=20):
    return {
        "attacks": list(rows),
        "subject": {"targets": 20},
        "configuration": {"targets": asked},
    }


def run(shadow_models=4000, mse=0.01, chance=None, **successes):
    trained = {"shadow_models": shadow_models, "mse": mse, "label_violation": chance}
    attacks = {
        name: {"closer_than_oracle": rate, **trained}
        for name, rate in successes.items()
    }
    return {"attacks": attacks, "mean_image_mse": 0.06}


UNTRIED = {"tried": False, "finished": None, "success": None}
NOT_APPLYING = row("black box", applies=False, **UNTRIED)
# Why each fails, and what it is.
FAILING = {
    "kernel succeeded for 3 of 20, whose interval ends at 0.379": audit(
        row(), row("kernel", 3)
    ),
    "span succeeded for 0 of 6, whose interval ends at 0.459": audit(
        row(), row("span", planned=6, finished=6, success=rate(0, 6))
    ),
    "inversion finished 0 of 20 (out of time at target 1)": audit(
        row(finished=0, success=None, why_not="out of time at target 1"), row("kernel")
    ),
    "inversion finished 19 of 20": audit(row(finished=19, success=rate(0, 19))),
    "kernel was not tried (it stopped with KeyError)": audit(
        row(), row("kernel", **UNTRIED | {"why_not": "it stopped with KeyError"})
    ),
    "span was not tried (left out": audit(
        row(), row("span", **UNTRIED | {"why_not": "left out by whoever ran it"})
    ),
    "no attack was evaluated": audit(NOT_APPLYING),
    "no attack reads model (KNeighborsClassifier)": audit(row())
    | {
        "preflight": {
            "findings": [{"what": "no attack reads model (KNeighborsClassifier)"}]
        }
    },
    "better than the bound of the declared noise": audit(row())
    | {"bounds": {"rows": [{"violation": 1e-9}]}},
    "the declared noise was not tested": audit(row())
    | {"bounds": {"rows": [], "privacy": {"noise_multiplier": 1.0}}},
    "16 records were not attacked": audit(row(), asked=36),
    "inversion was evaluated on no record": audit(row(success=rate(0) | {"trials": 0})),
    "whose interval ends at nan": audit(row(success=rate(0) | {"high": float("nan")})),
    "can't be read (KeyError": audit({"name": "inversion"}),
    "can't be read (TypeError": audit(row(success=rate(0) | {"high": None})),
    "can't be read (KeyError: 'attacks')": {},
    "reconn succeeded for 3 of 20": run(kernel=rate(0), reconn=rate(3)),
    "can't be read": run(kernel=None),
    "kernel learned too little from 199 shadow": run(kernel=rate(0), shadow_models=199),
    "reconn learned too little from 4000 shadow": run(reconn=rate(0), mse=0.07),
    "reconn learned too little": run(reconn=rate(0), mse=float("nan")),
    "0.3: no attack was evaluated": {"attacks": {"mean_image": {"sees": "nothing"}}},
    "kernel did better than the bound": run(kernel=rate(0), chance=1e-6),
    "kernel was evaluated on no record": run(kernel=rate(0) | {"trials": 0}),
    "kernel was not tried": run(reconn=rate(0))
    | {"configuration": {"attacks": {"reconn": {}, "kernel": {"targets": None}}}},
}


@pytest.mark.parametrize("why", FAILING)
def test_what_was_not_shown_to_be_below_the_limit_fails(why):
    with pytest.raises(GateFailedError) as failed:
        gate.require(FAILING[why], MOST)
    assert str(failed.value).startswith("--max-success 0.3: ")
    assert why in str(failed.value)
    assert "\n" not in str(failed.value)
    assert failed.value.exit_code == 4


@pytest.mark.parametrize(
    "values",
    [
        audit(row(), row("kernel", 2), NOT_APPLYING),
        run(reconn=rate(0), kernel=rate(2))
        | {"configuration": {"attacks": {"reconn": {}, "inversion": {"targets": 0}}}},
        run(kernel=rate(2), shadow_models=20),
        run(kernel=rate(2), inversion=rate(0), mse=0.06, chance=0.03),
    ],
)
def test_the_limit_itself_passes(values):
    high = rate(2)["high"]
    gate.require(values, high)
    with pytest.raises(GateFailedError, match="kernel succeeded for 2 of 20"):
        gate.require(values, high - 1e-6)


def test_every_attack_that_fails_is_named():
    with pytest.raises(GateFailedError, match=r"inversion succeeded.*; kernel was not"):
        gate.require(audit(row(successes=20), row("kernel", **UNTRIED)), MOST)


def test_the_documentation_and_the_shipped_action_name_the_option():
    root = Path(__file__).parents[3]
    action = (root / "examples" / "release_gate.yml").read_text()
    assert "informed audit" in action
    assert f"{gate.OPTION} 0." in action
    assert gate.OPTION in (root / "docs" / "audit.md").read_text()


# On the command line


def status(capfd, *arguments):
    """Exit status, and the last line of stderr."""
    try:
        main([*map(str, arguments)])
    except SystemExit as stopped:
        lines = capfd.readouterr().err.strip().splitlines()
        return stopped.code, lines[-1]
    return 0, ""


@pytest.fixture
def training(tmp_path, digits):
    """The mean of all records: whoever knows the others has the missing one."""
    (tmp_path / "mean.py").write_text(
        "import numpy as np\n"
        "def train(images, labels):\n    return images.mean(axis=0)\n"
        "def noise(images, labels, seed):\n"
        "    return np.random.default_rng(seed).normal(size=3)\n"
        "def breaks(images, labels):\n    raise OSError('disk')\n"
        "def leaves(images, labels):\n    raise SystemExit(0)\n"
    )
    images, labels = digits.images[:90], digits.labels[:90]
    np.savez(tmp_path / "digits.npz", images=images, labels=labels)
    return lambda name="train": [
        "audit", f"{tmp_path}/mean.py:{name}", f"--data={tmp_path}/digits.npz",
        "--fixed=40", "--targets=2", "--minutes=2", "--quiet", "--json",
    ]  # fmt: skip


def test_an_audit_is_written_and_then_fails(training, tmp_path, capfd):
    out = tmp_path / "audit.json"
    line = [*training(), f"--out={out}", "--max-success=0.9"]
    code, said = status(capfd, *line)
    assert code == 4
    assert said.startswith("informed audit: --max-success 0.9: ")
    assert "inversion succeeded for 2 of 2, whose interval ends at 1" in said
    values = json.loads(out.read_text())
    assert "--max-success=0.9" in values["again"]
    with pytest.raises(GateFailedError):
        gate.require(values, 0.9)


@pytest.mark.parametrize("name", ["noise", "breaks", "leaves"])
def test_an_audit_that_ends_before_its_attacks_fails(name, training, capfd):
    """No released models with a trace of their records; a training that raises."""
    code, said = status(capfd, *training(name), "--max-success=1")
    assert code == 4
    assert said.startswith("informed audit: --max-success 1: it stopped with")
    without, _ = status(capfd, *training(name))
    assert without == {"noise": 3, "breaks": 2, "leaves": 2}[name]


def test_released_models_that_cannot_be_trained_fail(training, capfd, monkeypatch):
    def stops(*arguments, **named):
        raise limits.OutOfTimeError("released models")

    monkeypatch.setattr(trials, "train", stops)
    code, said = status(capfd, *training(), "--max-success=1")
    assert (code, "released models" in said) == (4, True)


def test_an_attack_that_raises_in_an_audit_fails(training, capfd, monkeypatch):
    inversion = registry.find("inversion")

    def stops(config, material):
        raise ZeroDivisionError("in the attack")

    broken = {**inversion.__dict__, "make": stops}
    monkeypatch.setitem(registry._ROWS, "inversion", type(inversion)(**broken))
    code, said = status(capfd, *training(), "--max-success=1")
    assert code == 4
    assert "inversion was not tried (it stopped with ZeroDivisionError" in said


def test_a_gate_for_a_check_is_refused_before_anything_is_done(training, capfd):
    code, said = status(capfd, *training(), "--check", "--max-success=1")
    assert (code, "--max-success" in said) == (2, True)


@pytest.mark.parametrize("most", ["-0.1", "1.01", "nan", "inf"])
def test_a_limit_outside_of_0_and_1_is_refused(most, training, tmp_path, capfd):
    run_ = ["run", *SMALL, f"--workdir={tmp_path}"]
    for line in (training(), run_):
        message = refused(capfd, *line, f"--max-success={most}")
        assert "--max-success: expected a number in [0, 1]" in message


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run: 20 targets of reconn, 2 of inversion."""
    path = tmp_path_factory.mktemp("run")
    main(["run", *SMALL, f"--workdir={path}", "--quiet"])
    return path


def test_a_run_passes_or_fails_by_its_results(folder, capfd):
    line = ["run", *SMALL, f"--workdir={folder}", "--quiet", "--json"]
    code, said = status(capfd, *line, "--max-success=0.99")
    assert code == 4
    assert "inversion succeeded for 2 of 2" in said
    assert status(capfd, *line, "--max-success=1") == (0, "")


def test_a_run_whose_attack_raises_names_it(folder, capfd, monkeypatch):
    inversion = registry.find("inversion")

    def stops(config, material):
        raise TypeError("in the attack")

    broken = {**inversion.__dict__, "make": stops, "revision": 99}
    monkeypatch.setitem(registry._ROWS, "inversion", type(inversion)(**broken))
    line = ["run", *SMALL, f"--workdir={folder}", "--quiet", "--max-success=1"]
    for stage in folder.glob("stages/attack-inversion*"):
        stage.unlink()
    code, said = status(capfd, *line)
    assert code == 4
    assert "attacks.inversion: it stopped with TypeError: in the attack" in said


def test_a_run_that_evaluated_nothing_fails(folder, capfd, monkeypatch):
    monkeypatch.setattr(
        "informed.experiment.pipeline.run", lambda *a, **k: {"attacks": {}}
    )
    line = ["run", *SMALL, f"--workdir={folder}", "--quiet", "--json"]
    code, said = status(capfd, *line, "--max-success=1")
    assert (code, "no attack was evaluated" in said) == (4, True)
