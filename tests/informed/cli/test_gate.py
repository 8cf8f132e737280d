"""`--fail-if`: what it takes, what it refuses, and that it errs on one side."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from informed.audit import auditing
from informed.cli import audit, gate, main, running
from informed.cli.gate import Gate, GateFailedError
from shadow import checks

# Expression, and whether it fails where exact is 2, success_upper 0.3, mse_median 0.01,
# certified 0; of tpr nothing is known.
GOOD = {
    "exact > 0": True,
    "exact > 2": False,
    "exact >= 2": True,
    "exact < 2": False,
    "exact <= 2": True,
    "exact == 2": True,
    "exact != 2": False,
    "0 < exact": True,
    "0 < exact <= 1": False,
    "exact > 0 or success_upper > 0.5": True,
    "exact > 5 or success_upper > 0.05": True,
    "exact > 5 or success_upper > 0.5": False,
    "exact > 0 and success_upper > 0.5": False,
    "not exact == 0": True,
    "not (exact > 0 and success_upper > 0.2)": False,
    "  mse_median < 1e-1  ": True,
    "mse_median < -1": False,
    "exact > certified": True,
    "tpr > 0.1": True,
    "tpr > 0.1 and exact > 5": False,
    "tpr > 0.1 or exact > 5": True,
    "not tpr > 0.1": True,
}
VALUES = {
    "exact": 2.0,
    "success_upper": 0.3,
    "mse_median": 0.01,
    "certified": 0.0,
    "tpr": None,
}
BAD = {
    "": "invalid syntax",
    "exact": "expected comparisons",
    "1": "expected comparisons",
    "exact >": "invalid syntax",
    "exact > 'a'": "names of fields and numbers",
    "exact > True": "names of fields and numbers",
    "exact > 1j": "names of fields and numbers",
    "exact + 1 > 2": "names of fields and numbers",
    "exakt > 0": "there is no field exakt. Did you mean 'exact'?",
    "1 > 0": "names no field",
    "exact in (1, 2)": "expected >, >=",
    "exact is 1": "expected >, >=",
    "exact = 1": "",
    "exact > 0; exact > 1": "",
    "__import__('os').system('touch HERE') > 0": "names of fields and numbers",
    "exact > __import__('os').getpid()": "names of fields and numbers",
    "(lambda: exact)() > 0": "names of fields and numbers",
    "exact.__class__ > 0": "names of fields and numbers",
    "[exact > 0 for x in 'a']": "expected comparisons",
    "exact > 0 if exact else 1": "expected comparisons",
    "exact > 0 and print(1)": "expected comparisons",
    "exact > (y := 1)": "names of fields and numbers",
    "exact > 0 or " * 60 + "exact > 0": "longer than 500",
    "((exact > 0)": "",
    "exact > 0\x00": "",
}


@pytest.mark.parametrize(("text", "fails"), GOOD.items())
def test_expressions_are_decided(text, fails):
    found = Gate.parse(text, "audit")
    if not fails:
        found.require(VALUES)
        return
    with pytest.raises(GateFailedError) as stopped:
        found.require(VALUES)
    assert stopped.value.exit_code == 4
    unknown = "can't be decided" in str(stopped.value)
    assert unknown == ("tpr" in text)


@pytest.mark.parametrize(("text", "why"), BAD.items())
def test_what_is_no_expression_is_refused_and_not_executed(
    text, why, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(checks.FieldError) as refused:
        Gate.parse(text, "audit")
    message = str(refused.value)
    assert why in message
    assert "--fail-if" in message
    assert not list(tmp_path.iterdir())


def test_a_run_passes_or_not_by_its_results():
    rate = {"successes": 3, "trials": 4, "low": 0.2, "high": 0.99}
    row = {"certified": None, "closer_than_oracle": rate, "mse": 0.1, "mse_median": 0.2}
    results = {"attacks": {"a": row, "b": row | {"certified": 1, "mse": 0.05}}}
    values = running.gated(results)
    assert set(values) == set(gate.FIELDS["run"])
    assert values["success"] == 0.75
    assert (values["certified"], values["mse"]) == (1, 0.05)
    Gate.parse("mse < 0.05 or success > 0.8", "run").require(values)
    # A run without attacks measured nothing.
    with pytest.raises(GateFailedError, match="can't be decided"):
        Gate.parse("mse < 0.05", "run").require(running.gated({"attacks": {}}))


def test_the_shipped_action_has_an_expression_that_is_one():
    text = (Path(__file__).parents[3] / "examples" / "release_gate.yml").read_text()
    (expression,) = re.findall(r'--fail-if "(.*)"', text)
    nothing = dict.fromkeys(("exact", "named", "untried", "unfinished"), 0.0)
    Gate.parse(expression, "audit").require(VALUES | nothing)
    for name in nothing:
        with pytest.raises(GateFailedError):
            Gate.parse(expression, "audit").require(VALUES | nothing | {name: 1.0})
    assert "informed audit" in text


def test_the_documentation_has_every_field():
    text = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()
    rows = text.partition("## A release gate")[2].partition("\n## ")[0]
    for fields in gate.FIELDS.values():
        for name, about in fields.items():
            assert f"| `{name}` |" in rows
            assert about in rows


def test_failing_says_what_was_found():
    with pytest.raises(GateFailedError, match=r"exact is 2, success_upper is 0\.3\)"):
        Gate.parse("exact > 0 or success_upper > 0.05", "audit").require(VALUES)
    with pytest.raises(GateFailedError, match="tpr is not known"):
        Gate.parse("tpr > 0.1", "audit").require(VALUES)


def test_an_attack_that_finished_nothing_lets_nothing_through():
    row = {
        "name": "inversion", "tried": True, "applies": True, "success": None,
        "exact": None, "certified": None, "mse_median": None, "tpr": None, "planned": 5,
        "targets": 0, "finished": 0,
    }  # fmt: skip
    other = {"name": "black box", "tried": False, "applies": False}
    both = row | {"name": "two missing", "success": {"successes": 5, "high": 1.0}}
    rows = [row, row | {"tried": False}, row | other, both]
    values = audit.gated({"attacks": rows, "gallery": {"first": None}})
    # What doesn't apply isn't missing; two missing records are another game.
    assert (values["untried"], values["unfinished"]) == (1, 10)
    assert set(values) == set(gate.FIELDS["audit"])
    for text in ("exact > 0", "exact == 0", "success_upper > 0.99", "certified > 0"):
        with pytest.raises(GateFailedError, match="can't be decided"):
            Gate.parse(text, "audit").require(values)


@pytest.fixture
def training(tmp_path, digits):
    """The mean of all records: whoever knows the others has the missing one."""
    (tmp_path / "mean.py").write_text(
        "def train(images, labels):\n    return images.mean(axis=0)\n"
    )
    images, labels = digits.images[:90], digits.labels[:90]
    np.savez(tmp_path / "digits.npz", images=images, labels=labels)
    skip = ("two missing", "membership", "noise", "defences", "kernel")
    return [
        "audit", f"{tmp_path}/mean.py:train", f"--data={tmp_path}/digits.npz",
        "--fixed=40", "--targets=2", "--minutes=2", "--quiet", "--json",
        *(f"--skip={part}" for part in skip if part in auditing.PARTS),
    ]  # fmt: skip


def test_an_audit_is_written_and_then_fails(training, tmp_path, capfd):
    out = tmp_path / "audit.json"
    with pytest.raises(SystemExit) as stopped:
        main([*training, f"--out={out}", "--fail-if=exact > 0 or untried > 100"])
    assert stopped.value.code == 4
    told = capfd.readouterr()
    assert told.err.strip().splitlines()[-1] == (
        "informed audit: --fail-if 'exact > 0 or untried > 100': it holds (exact is 2,"
        f" untried is {audit.gated(json.loads(told.out))['untried']:g})."
    )
    assert json.loads(out.read_text())["attacks"]


def test_a_gate_for_a_check_is_refused_before_anything_is_done(training, capsys):
    for extra in (["--check", "--fail-if=exact > 0"], ["--fail-if=exakt > 0"]):
        with pytest.raises(SystemExit) as stopped:
            main([*training, *extra])
        assert stopped.value.code == 2
        assert "--fail-if" in capsys.readouterr().err


@pytest.mark.parametrize("order", [(float("nan"), 1e-8), (1e-8, float("nan"))])
def test_what_is_no_number_lets_nothing_through(order):
    """NaN compares with nothing, so that what stands first would decide."""
    assert gate.least(order) == gate.most(order) == 1e-8
    assert gate.most([float("nan")]) is None
    for value in (float("nan"), gate.least([float("nan")])):
        with pytest.raises(GateFailedError, match="can't be decided"):
            Gate.parse("mse < 0.001", "run").require({"mse": value})
    with pytest.raises(checks.FieldError, match="names of fields and numbers"):
        Gate.parse(f"mse > {'9' * 400}", "run")
