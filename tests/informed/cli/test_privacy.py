"""`informed bound` and `informed calibrate`."""

import argparse
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dp
from dp import rero
from informed import cli
from informed.cli import options


def run(capsys, *arguments):
    cli.main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_a_bound_in_closed_form(capsys):
    found = run(capsys, "bound", "--noise-multiplier=10", "--steps=100", "--kappa=0.1")
    assert found["gamma"] == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.1) + 1))
    assert found["by"] == "Gaussian"
    assert found["log_gammas"]["Corollary 4"] > found["log_gamma"]
    assert found["relation"] == "zero_out"


MNIST = ("--records=60000", "--batch=256", "--epochs=15", "--kappa=0.01")
POISSON = (*MNIST, "--sampling=poisson")


@pytest.mark.parametrize(
    ("gamma", "training", "precision"),
    [
        (0.2, ("--steps=100", "--kappa=0.1"), 1e-6),
        (0.3, ("--sampling=shuffled", *MNIST), 1e-4),
    ],
)
def test_calibration_undoes_the_bound(gamma, training, precision, capsys):
    noise = run(capsys, "calibrate", f"--gamma={gamma}", *training)["noise_multiplier"]
    again = run(capsys, "bound", f"--noise-multiplier={noise!r}", *training)
    assert again["gamma"] == pytest.approx(gamma, rel=precision)
    assert again["gamma"] <= gamma


def test_both_numbers_stand_in_the_output(capsys):
    """0.0211 needs secret Poisson sampling; for shuffled batches it is 0.884."""
    cli.main(["bound", "--noise-multiplier=1.1", *POISSON])
    shown = capsys.readouterr().out
    mu = math.sqrt(15) / 1.1  # a record is in fifteen steps
    gamma = stats.norm.cdf(stats.norm.ppf(0.01) + mu)
    assert f"{math.ceil(1000 * gamma) / 1000}" == "0.884"
    assert "gamma <= 0.0211" in shown
    assert "secret Poisson sampling: each record is in each of 3525" in shown
    assert "gamma <= 0.884" in shown
    assert "batches are shuffled" in shown
    # Rows that bound nothing aren't listed.
    assert " 1 by " not in shown
    found = run(capsys, "bound", "--noise-multiplier=1.1", *POISSON)
    assert found["sampling"] == "poisson"
    assert found["gamma"] == pytest.approx(0.0211, abs=5e-5)
    assert "secret Poisson sampling" in found["assumption"]
    shuffled = found["otherwise"][0]
    assert "shuffled" in shuffled["if"]
    assert shuffled["gamma"] == pytest.approx(gamma)


@pytest.mark.parametrize("sampling", ["shuffled", "fixed"])
def test_batches_drawn_in_other_ways(sampling, capsys):
    given = ("--records=300", "--batch=9", "--epochs=2", "--kappa=0.01")
    arguments = ("bound", "--noise-multiplier=1.1", f"--sampling={sampling}", *given)
    found = run(capsys, *arguments)
    batches = dp.Batches(records=300, batch=9, epochs=2, sampling=sampling)
    mechanism = batches.mechanism(noise_multiplier=1.1, relation="zero_out")
    assert found["gamma"] == float(dp.rero_bound(mechanism, kappa=0.01).gamma)
    assert found["assumption"] == batches.assumption(mechanism).text
    cli.main([*arguments])
    assert found["assumption"] in capsys.readouterr().out


def test_steps_say_the_same_assumption(capsys):
    sampled = ("--steps=1000", "--sampling-probability=0.01", "--kappa=0.01")
    found = run(capsys, "bound", "--noise-multiplier=1.1", *sampled)
    assert "secret Poisson sampling" in found["assumption"]
    mu = math.sqrt(10) / 1.1  # a thousand steps of a hundredth each
    assert found["otherwise"][0]["gamma"] == pytest.approx(
        stats.norm.cdf(stats.norm.ppf(0.01) + mu)
    )
    full = run(capsys, "bound", "--noise-multiplier=9", "--steps=9", "--kappa=0.01")
    assert full["otherwise"] == []
    assert "Only the noise has to be secret" in full["assumption"]
    found = run(capsys, "calibrate", "--gamma=0.02", *sampled)
    assert found["otherwise"][0]["gamma"] > 0.02


def test_infinite_noise_on_the_command_line(capsys):
    found = run(capsys, "bound", "--noise-multiplier=inf", "--steps=9", "--kappa=0.25")
    assert found["gamma"] == 0.25
    assert found["epsilon"] == 0


def test_every_option_has_a_help_text(capsys):
    for command in ("audit", "bound", "calibrate", "report", "run", "shadow"):
        parser = argparse.ArgumentParser()
        options.add(parser, command)
        for action in parser._actions:
            assert action.help, action.option_strings


def test_neither_noise_nor_epsilon_is_printed_smaller_than_it_is(capsys):
    given = ("calibrate", "--gamma=0.05", "--steps=10", "--kappa=0.01")
    found = run(capsys, *given)
    cli.main([*given])
    shown = capsys.readouterr().out
    noise = float(re.search(r"noise multiplier +(\S+)", shown)[1])
    epsilon = float(re.search(r"epsilon +(\S+)", shown)[1])
    assert found["noise_multiplier"] <= noise < found["noise_multiplier"] * (1 + 1e-5)
    assert found["epsilon"] <= epsilon < found["epsilon"] * (1 + 1e-3)
    assert rero.rounded_up(1.1, 6) == "1.1"


def test_what_a_number_does_not_say_is_said(capsys):
    given = ("--records=10_000_000", "--batch=256", "--epochs=1", "--sampling=poisson")
    noise = ("--noise-multiplier=0.6", "--kappa=0.01")
    notes = " ".join(run(capsys, "bound", *given, *noise)["notes"])
    assert "no less than one of 10000000 records" in notes
    given = ("bound", "--noise-multiplier=1", "--steps=3", "--kappa=0.1")
    assert not run(capsys, *given, "--relation=replace_one")["notes"]


def test_people_get_a_table(capsys):
    cli.main(["bound", "--noise-multiplier=10", "--steps=100", "--log-kappa=-50"])
    shown = capsys.readouterr().out
    assert "kappa 1.92e-22" in shown
    assert re.search(r"epsilon +4\.37\d at delta", shown)


def test_ways_to_draw_batches_stand_side_by_side(capsys, tmp_path):
    """Known batches by the Gaussian's closed form; the others by a run of their own."""
    options = ("bound", "--noise-multiplier=3", "--records=400", "--batch=40")
    options += ("--epochs=2", "--kappa=0.1")
    picture = tmp_path / "made" / "bound.png"
    run(capsys, *options, "--sampling=shuffled", f"--figure={picture}")
    rows = run(capsys, *options, "--sampling=fixed")["samplings"]
    known = stats.norm.cdf(stats.norm.ppf(0.1) + math.sqrt(2) / 3)
    assert rows["shuffled"]["gamma"] == pytest.approx(known)
    for sampling in ("poisson", "allocation", "fixed"):
        alone = run(capsys, *options, f"--sampling={sampling}")
        assert rows[sampling]["gamma"] == alone["gamma"] < known
        assert rows[sampling]["epsilon"] == alone["epsilon"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    # Shuffled batches have no bound under a relation that moves other records.
    moved = run(capsys, *options, "--sampling=poisson", "--relation=add_or_remove")
    assert set(moved["samplings"]) == {"poisson", "allocation", "fixed"}


def test_a_plot_has_the_bounds_of_more_and_less_noise():
    mechanism = dp.Gaussian(noise_multiplier=5, steps=4, relation="zero_out")
    figure = dp.plot(mechanism, kappas=[0.01, 0.1], gamma=0.2)
    noises, gammas = figure.axes[0].lines[1].get_data()
    wanted = stats.norm.cdf(stats.norm.ppf(0.1) + 2 / noises)
    np.testing.assert_allclose(gammas, wanted)
    assert min(noises) == pytest.approx(5 / 8)
    epsilons, _ = figure.axes[1].lines[1].get_data()
    assert mechanism.epsilon(1e-5) in epsilons
    with pytest.raises(ValueError, match="mechanism to have a noise_multiplier"):
        dp.plot(dp.PureDP(eps=1.0, relation="replace_one"))


def test_a_history_of_opacus_is_the_training_in_words(capsys, tmp_path):
    file = tmp_path / "history.json"
    file.write_text('{"history": [[1.1, 0.01, 1000]], "mechanism": "prv"}')
    found = run(capsys, "bound", f"--from={file}", "--kappa=0.01")
    words = ("--noise-multiplier=1.1", "--steps=1000", "--sampling-probability=0.01")
    wanted = run(capsys, "bound", *words, "--kappa=0.01")
    assert found["source"] == "Opacus"
    for name, value in wanted.items():
        assert found[name] == value
    cli.main(["bound", f"--from={file}", "--kappa=0.01"])
    shown = capsys.readouterr().out
    assert "Opacus, 1000 steps" in shown
    assert "secret Poisson sampling" in shown
    assert "otherwise" in shown


def test_the_page_shows_what_is_printed(capsys, monkeypatch, tmp_path):
    """Each `$ informed bound` of docs/privacy.md, by lines; "..." is any text."""
    page = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text()
    monkeypatch.chdir(tmp_path)
    history = {"history": [[1.1, 1 / 235, 3525]], "mechanism": "prv"}
    Path("history.json").write_text(json.dumps(history))
    blocks = re.findall(r"^\$ informed (bound .*)\n((?:.+\n)+?)```", page, re.MULTILINE)
    assert len(blocks) == 2
    for command, shown in blocks:
        cli.main(command.split())
        printed = capsys.readouterr().out.splitlines()
        lines = [line for line in shown.splitlines() if line != "..."]
        for line in lines:
            parts = [re.escape(part) for part in line.split("...")]
            assert any(re.match(".*".join(parts), each) for each in printed), line
