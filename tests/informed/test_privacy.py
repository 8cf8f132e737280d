"""`informed bound` and `informed calibrate`."""

import json
import math

import matplotlib.image
import pytest
from scipy import stats

from informed import cli


def run(capsys, *arguments):
    cli.main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_a_bound_in_closed_form(capsys):
    found = run(capsys, "bound", "--noise-multiplier=10", "--steps=100", "--kappa=0.1")
    assert found["gamma"] == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.1) + 1))
    assert found["by"] == "Gaussian"
    assert found["log_gammas"]["Corollary 4"] > found["log_gamma"]
    assert found["relation"] == "zero_out"


def test_a_prior_in_place_of_kappa(capsys):
    found = run(
        capsys,
        *("bound", "--noise-multiplier=1", "--steps=100", "--prior=gaussian"),
        *("--dim=784", "--sigma=0.3", "--mse=0.0232"),
    )
    u = 0.0232 / 0.3**2
    chernoff = 392 * (1 - u + math.log(u))
    assert 1.1 * chernoff < found["log_kappa"] <= chernoff
    assert found["log_kappa"] < found["log_gamma"] < 0


def test_calibration_undoes_the_bound(capsys):
    found = run(capsys, "calibrate", "--gamma=0.2", "--steps=100", "--kappa=0.1")
    again = run(
        capsys,
        *("bound", f"--noise-multiplier={found['noise_multiplier']!r}"),
        *("--steps=100", "--kappa=0.1"),
    )
    assert again["gamma"] == pytest.approx(0.2)
    assert again["gamma"] <= 0.2


def test_people_get_a_table_and_a_picture(capsys, tmp_path):
    picture = tmp_path / "gamma.png"
    cli.main(
        [
            *("bound", "--noise-multiplier=10", "--steps=100", "--log-kappa=-50"),
            *("--figure", str(picture)),
        ]
    )
    shown = capsys.readouterr().out
    assert "kappa 1.93e-22" in shown
    assert "epsilon 4.37" in shown
    assert matplotlib.image.imread(picture).std() > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "exactly one of --kappa"),
        (("--kappa=0.1", "--log-kappa=-1"), "exactly one of --kappa"),
        (("--kappa=2",), "--kappa in (0, 1], got 2.0"),
        (("--prior=gaussian", "--dim=3", "--mse=0.1"), "needs --sigma"),
        (("--prior=ball",), "needs --dim and --mse"),
        (("--kappa=0.1", "--stepps=3"), "Unknown argument '--stepps=3'"),
        (("--kappa=0.1", "--sampling-probability=0"), "sampling_probability > 0"),
    ],
)
def test_bad_input_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["bound", "--noise-multiplier=1", "--steps=10", *arguments])
    assert caught.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]
